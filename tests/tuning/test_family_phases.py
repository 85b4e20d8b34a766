"""What stands before the first divergence is what really playing sessions again comes to, in whole families too."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.replay.assumption import Assumption
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.tuning.phases import Phase, Phases, Rest, TurnOutcome, find_divergences, list_asked
from foregate.tuning.piece_judge import KeyChange
from foregate.tuning.what_if import WhatIf
from tests.agent import corpus
from tests.policies import policy_with
from tests.tuning.rehearsing.families import DONE, Message, delegate, play_messages
from tests.tuning.rehearsing.models import TALK, Heedless, Insistent
from tests.tuning.rehearsing.test_families import MESSAGES
from tests.tuning.rehearsing.test_rehearse import CHANGES

JUDGED = [keys for keys in CHANGES if not any(key.startswith("limits.") for key in keys)]
"""Changes of what a turn is judged by; the others are named as without effect."""


class SeenPhases(Phases):
    """Phases that keep the turns before the divergence of each session, in the order of the sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[TurnOutcome]] = []

    def begin_session(self, until: float = inf) -> None:
        super().begin_session(until)
        self.seen.append([])

    def _count(self, phase: Phase, outcome: TurnOutcome) -> None:
        super()._count(phase, outcome)
        if phase is self.before:
            self.seen[-1].append(outcome)


async def judge_again(log: MemoryLog, keys: dict[str, Any]) -> tuple[SeenPhases, dict[str, list[TurnOutcome]]]:
    """Return what judging all sessions again comes to, and by session what stands before the divergence."""
    names = sorted(await log.sessions())
    values = {tuple(key.split(".")): value for key, value in keys.items()}
    judged = WhatIf(log, KeyChange(values), 1, assume=Assumption("accept", "accept", "yes"))
    judged.phases = phases = SeenPhases()
    list(judged.find_changes(names))
    return phases, dict(zip(names, phases.seen, strict=True))


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([Heedless, Insistent]), MESSAGES, st.sampled_from(JUDGED), st.sampled_from(JUDGED))
def test_before_the_first_divergence_the_turns_are_those_of_really_playing_again(
    kind: type[Heedless], messages: list[Message], before: dict[str, Any], after: dict[str, Any]
) -> None:
    async def scenario() -> None:
        world = await play_messages(messages, policy_with(before), kind)
        _, exact = await judge_again(world.log, after)
        really = (await play_messages(messages, policy_with({**before, **after}), kind)).log
        known = set(await really.sessions())
        for name, outcomes in exact.items():
            turns = list(read_judged_turns(await really.read(name))) if name in known else []
            assert [one.asked for one in outcomes] == [list_asked(one.turn) for one in turns][: len(outcomes)]

    asyncio.run(scenario())


async def test_what_follows_a_divergence_in_a_session_is_no_more_exact_in_its_child_tasks_and_further_sessions() -> (
    None
):
    edits = Message([(TALK, [corpus.READ]), (TALK, [corpus.EDIT]), ("", [delegate()]), DONE], ends=True)
    world = await play_messages([edits, Message([(TALK, [corpus.READ])])], policy_with())
    keys = {"narration.scope": "first_response", "narration.min_chars": 500}
    phases, exact = await judge_again(world.log, keys)
    assert len(exact) == 3
    assert not any(exact.values())
    assert (phases.before.turns, phases.at.turns) == (0, 1)


def test_a_family_diverges_where_the_first_of_it_does_and_what_rests_on_that_with_it() -> None:
    child, further = Rest("a", 20), Rest("a", inf)
    rests = {"a.c9.1": child, "a-2": further, "a.c9.1.c4.1": Rest("a.c9.1", 6)}
    whole = dict.fromkeys(("a", *rests), inf)
    assert find_divergences(whole, rests) == whole
    assert find_divergences({**whole, "a": 10}, rests) == {"a": inf, "a.c9.1": 0, "a-2": 0, "a.c9.1.c4.1": 0}
    assert find_divergences({**whole, "a": 30}, rests) == {"a": inf, "a.c9.1": inf, "a-2": 0, "a.c9.1.c4.1": inf}
    assert find_divergences({**whole, "a.c9.1.c4.1": 3}, rests) == {
        "a": 20,
        "a.c9.1": 6,
        "a-2": 0,
        "a.c9.1.c4.1": inf,
    }
    assert find_divergences({**whole, "a-2": 5}, rests) == whole
    assert find_divergences({"a-2": inf}, rests) == {"a-2": inf}
