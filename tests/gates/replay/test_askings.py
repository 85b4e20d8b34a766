"""A gate of another policy is asked what the recorded one was asked, and what comes of a turn is the same for it."""

from __future__ import annotations

from functools import partial

import pytest

from foregate.gates.prelude import build_gate, build_prelude, read_as_recorded
from foregate.gates.replay.askings import Askings, differs_in_scores_alone
from foregate.gates.replay.reach import JUDGES, ReachReader, list_condition_paths
from foregate.gates.replay.redecide import Redecision, compare_replayed, redecide_surveyed
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import replace_values
from foregate.schemas.codes import GATES
from foregate.schemas.tool_spec import Catalogue
from foregate.telemetry.audit.rebuild_turn import RecordedTurn
from tests.gates.replay.test_judging_cost import read_frame, recorded_turns

CHANGES: dict[str, tuple[Path, Data]] = {
    "no narration": (("narration", "mode"), "off"),
    "all is narrated": (("narration", "scope"), "first_response"),
    "all is asked": (("rules", "unmatched"), "ask"),
    "evidence in shadow": (("evidence", "mode"), "shadow"),
    "a lower threshold": (("uncertainty", "threshold"), 100),
    "plans from calls": (("plan", "form"), "call"),
    "each change has a plan": (("plan", "due"), "first_side_effect"),
    "the critic looks at calls": (("critique", "level"), "call"),
    "each change asks": (("approval", "mode"), "each"),
    "reads ask": (("approval", "reads"), "ask"),
    "a weight": (("scores", "risk", "irreversible"), 900),
    "a weight of all": (("scores", "risk", "effect", "edit"), 1000),
    "a doubt": (("scores", "uncertainty", "vague_request"), 900),
}
TURNING = ("all is narrated", "all is asked", "a lower threshold", "each change asks", "reads ask")
"""Changes that turn calls of the recorded turns for certain."""


def redecide_by_askings(
    recorded: RecordedTurn, before: Policy, after: Policy, catalogue: Catalogue
) -> Redecision | None:
    """Return what a turn comes to, found by asking gates what others were asked; None for facts too far apart."""
    turn, bench = recorded.turn, build_prelude(before, catalogue, keeps_rows=False)
    facts, now = (compute_turn_facts(turn, policy, catalogue) for policy in (before, after))
    if not differs_in_scores_alone(now, facts):
        return None
    askings, find_gate = Askings(turn, before, bench, facts), partial(build_gate, policy=after, catalogue=catalogue)
    names = set(GATES) if before.scores == after.scores else askings.weighing
    change = askings.find_change(names, find_gate, now)
    result = askings.now if change is None else askings.go_on(change, after, find_gate, now)
    return compare_replayed(turn, recorded.judgement, result, after.holds, now, {})


@pytest.mark.parametrize("name", CHANGES)
def test_what_another_policy_makes_of_a_turn_is_what_judging_all_of_it_makes(name: str) -> None:
    path, value = CHANGES[name]
    frames, found = dict[str, tuple[Policy, Policy, Catalogue]](), list[bool]()
    for recorded in recorded_turns():
        if recorded.turn.policy_hash not in frames:
            before, tools = read_frame(recorded)
            frames[recorded.turn.policy_hash] = before, replace_values(before, {path: value}), read_as_recorded(tools)
        before, after, catalogue = frames[recorded.turn.policy_hash]
        told = redecide_by_askings(recorded, before, after, catalogue)
        if told is not None:
            bench = build_prelude(after, catalogue, keeps_rows=False)
            wanted = redecide_surveyed(recorded.turn, recorded.judgement, after, bench, bench.facts(recorded.turn))
            assert [(one.change, one.needs) for one in told.calls] == [(one.change, one.needs) for one in wanted.calls]
            assert (told.spared, told.asked) == (wanted.spared, wanted.asked)
            found.append(wanted.is_unchanged)
    assert len(found) > len(recorded_turns()) // 2
    assert name not in TURNING or not all(found)


def test_what_the_judge_itself_reads_is_noted_as_read_by_no_gate() -> None:
    readers, found = dict[str, ReachReader](), set[str]()
    for recorded in recorded_turns():
        reader = readers.setdefault(recorded.turn.policy_hash, ReachReader(*read_frame(recorded)))
        followed, _ = reader.read(recorded.turn, recorded.judgement)
        for name, noted in zip(JUDGES, followed.judged, strict=True):
            found |= {name for one in noted if ("holds",) in list_condition_paths(reader.conditions[one])}
    assert found == {""}
