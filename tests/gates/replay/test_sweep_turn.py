"""A sweep says of every value what judging under it says, and of a key that cannot be swept why not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.prelude import build_prelude
from foregate.gates.replay import sweep_turn
from foregate.gates.replay.assumption import find_domain
from foregate.gates.replay.redecide import replay_turn
from foregate.gates.replay.sweep_turn import TurnSweep, find_numeric_key
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.policy.source.values import replace_values
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Standing
from foregate.schemas.tool_spec import Catalogue, build_catalogue
from foregate.schemas.turn import Turn
from tests.agent import corpus
from tests.agent.world import World
from tests.policies import policy_with

STORIES = ("narration", "uncertainty", "plan_drift")
KEYS = ("uncertainty.threshold", "narration.min_chars", "scores.risk.effect.send", "plan.max_amendments")


async def list_turns() -> list[tuple[Policy, Catalogue, Turn]]:
    found = []
    for name in STORIES:
        world = World()
        await getattr(corpus, name)(world)
        for one in read_judged_turns(await world.log.read("s")):
            policy, catalogue = one.in_force.require()
            if one.turn.calls:
                found.append((restore_policy(policy), build_catalogue(catalogue), one.turn))
    return found


def stop_under(policy: Policy, catalogue: Catalogue, turn: Turn) -> frozenset[str]:
    prelude = build_prelude(policy, catalogue)
    judged = replay_turn(turn, policy, prelude, prelude.facts(turn)).judgement
    return frozenset(one.call for one in judged.verdicts if one.standing is not Standing.ALLOW)


def list_values_near(edges: set[int], low: int, high: int) -> Iterator[int]:
    yield from (value for edge in edges for value in (edge - 1, edge, edge + 1) if low <= value <= high)


@pytest.mark.parametrize("key", KEYS)
async def test_every_value_comes_out_as_judging_under_it_does(key: str) -> None:
    turned = 0
    for policy, catalogue, turn in await list_turns():
        path, _ = find_numeric_key(key, policy)
        parts, (low, high) = list(TurnSweep(policy, catalogue, [path]).sweep(turn)), find_domain(path)
        assert (parts[0].low, parts[-1].high) == ((low,), (high,))
        assert all(one.high[0] + 1 == two.low[0] for one, two in pairwise(parts))
        turned += len(parts) > 1
        for value in {*list_values_near({one.low[0] for one in parts}, low, high)}:
            part = next(one for one in parts if one.low[0] <= value <= one.high[0])
            assert {call for call, _ in part.end.stopped} == stop_under(
                replace_values(policy, {path: value}), catalogue, turn
            )
    assert turned


async def test_two_keys_together_come_out_as_judging_under_both_does() -> None:
    policy, catalogue, turn = (await list_turns())[0]
    paths = [find_numeric_key(key, policy)[0] for key in ("narration.min_chars", "narration.max_holds")]
    parts = list(TurnSweep(policy, catalogue, paths).sweep(turn))
    for pair in ((0, 0), (0, 1), (1, 0), (1, 1), (20, 1)):
        (part,) = [one for one in parts if all(a <= v <= b for a, v, b in zip(one.low, pair, one.high, strict=True))]
        other = replace_values(policy, dict(zip(paths, pair, strict=True)))
        assert {call for call, _ in part.end.stopped} == stop_under(other, catalogue, turn)


async def test_two_weights_of_one_score_are_refused_at_the_first_turn_that_adds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys, judged = ("scores.risk.effect.send", "scores.risk.irreversible"), []
    monkeypatch.setattr(sweep_turn, "replay_turn", lambda *given: judged.append(given) or replay_turn(*given))
    turns = await list_turns()

    def sweep_all() -> None:
        for policy, catalogue, turn in turns:
            paths = [find_numeric_key(key, policy)[0] for key in keys]
            assert len(list(TurnSweep(policy, catalogue, paths).sweep(turn))) == 1, (
                "a turn before that adds one at most"
            )

    with pytest.raises(UsageError, match="weighed against each other"):
        sweep_all()
    assert len(judged) <= len(turns)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("plan.mode", "is no number"),
        ("plan.max_amendment", "is unknown; did you mean"),
        ("files.max_read", "cannot be told for all its values"),
        ("plan.max_bytes", "cannot be told for all its values"),
    ],
)
def test_a_key_that_cannot_be_swept_is_refused_in_a_sentence(key: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find_numeric_key(key, policy_with())
