"""What a sheet offers is done: after `anyway` the call runs, or the row of another gate says why it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import answers, calls, says
from foregate.schemas.codes import GATES
from foregate.schemas.errors import ModelError
from foregate.schemas.event import Event, NeedAnswered, TurnJudged
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.judgement import Need, Standing
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply
from tests.agent.corpus import ASK_EDITS, BAD, BOB, EDIT, PLAN, READ, SEND, TALK, YES, rules
from tests.agent.world import World
from tests.policies import policy_with
from tests.telemetry.queries.counted import KINDS, FoldedStatistics

NOTE, OTHER = ("note", {"key": "k"}), ("note", {"key": "other"})
EDIT_B = ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"})
CAROL = ("send", {"to": "carol@example.org"})
REPLAN = answers({"verdict": "replan", "issues": ["it is the wrong Bob"], "summary": "no"})
EMPTY = answers({"verdict": "accept", "issues": [], "summary": ""})
HOLD = {"dangerous": "hold", "other": "hold"}


class Case(NamedTuple):
    """What holds a call whenever the model sends it; `first` are calls that go before."""

    gate: str
    says: str
    call: tuple[str, dict[str, Any]]
    policy: Callable[[], Any]
    plan: Any = PLAN
    critique: Any = YES
    text: str = TALK
    first: tuple[Any, ...] = ()


def policy(**keys: Any) -> Callable[[], Any]:
    return lambda: policy_with({name.replace("__", "."): value for name, value in keys.items()})


CASES = {
    "narration_required": Case("narration", "greet bob", SEND, policy(narration__max_holds=0), text=""),
    "text_only_turn_side_effecting_tool_drift": Case(
        "drift", "just tell me what k says", NOTE, policy(drift__max_holds=0)
    ),
    "tools stay away for the task": Case(
        "drift", "just tell me what k says", NOTE, policy(drift__lasts="task", drift__max_holds=0)
    ),
    "uncertainty_clarification": Case(
        "uncertainty",
        "do it for k",
        ("send", {"to": "eve@example.org"}),
        policy(uncertainty__threshold=300, plan__mode="off"),
    ),
    "refused_before": Case("rules", "fix a.txt", EDIT, lambda: rules(ASK_EDITS), first=(READ,)),
    "plan_rejected": Case("plan", f"greet {BOB}", SEND, policy(), plan=BAD),
    "plan_unavailable": Case("plan", f"greet {BOB}", SEND, policy(plan__on_unavailable=HOLD), plan=ModelError("gone")),
    "plan_drift": Case("plan", f"greet {BOB}", CAROL, policy(plan__max_amendments=0), first=(SEND,)),
    "critique_rejected": Case("critique", f"greet {BOB}", SEND, policy(critique__level="plan"), critique=REPLAN),
    "critique_invalid": Case(
        "critique", f"greet {BOB}", SEND, policy(critique__level="plan", critique__on_invalid=HOLD), critique=EMPTY
    ),
    "critique_unavailable": Case(
        "critique",
        f"greet {BOB}",
        SEND,
        policy(critique__level="plan", critique__on_unavailable=HOLD),
        critique=ModelError("gone"),
    ),
}


class Stubborn:
    """A model that goes on sending the same calls, and its planner and critic, who always say the same."""

    name = "stubborn"

    def __init__(self, case: Case, sent: tuple[Any, ...]) -> None:
        self._case, self._sent, self.asked = case, sent, 0

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        said = {"plan": self._case.plan, "critique": self._case.critique}.get(request.purpose)
        if said is None:
            self.asked += 1
            first = self._case.first
            sent = (first[self.asked - 1],) if self.asked <= len(first) else self._sent
            said = calls(*sent, text=self._case.text) if self.asked < 8 else says("ok")
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, ModelResponse)
        return said


class Willing:
    """A person who has done anyway whatever is offered, and else says yes; the first edit is refused."""

    def __init__(self, *, refuses: bool) -> None:
        self.refuses = refuses

    async def answer(self, need: Need, *more: object) -> Reply:
        if need.gate == "loop":
            return Reply("anyway" if need.request.get("can_override") else "stop")
        said, self.refuses = "no" if self.refuses else "yes", False
        return Reply(said)


async def play(case: Case, sent: tuple[Any, ...]) -> World:
    world = World(policy=case.policy())
    session = await world.open(Stubborn(case, sent), Willing(refuses=case.gate == "rules"))
    outcome = await run(session, case.says)
    for _ in range(3):
        if outcome.status != "needs_input":
            break
        outcome = await run(session, "hm, what was that again?")
    return world


def list_overrides(events: list[Event]) -> list[tuple[str, str, str, TurnJudged]]:
    """Return gate, code and digest of each call a person wanted done anyway, with the turn that was judged on it."""
    found, given = [], dict[int, NeedAnswered]()
    for event in events:
        match event.body:
            case NeedAnswered(grants=grants) as body if grants and body.answer.gate == "loop":
                given[event.seq] = body
            case TurnJudged(early=False) as body:
                answers = [given[seq] for seq in body.turn.answers if seq in given]
                found += [(g.gate, g.code, g.digest, body) for one in answers for g in one.grants or ()]
            case _:
                pass
    return found


def is_approval(event: Event) -> bool:
    return isinstance(event.body, NeedAnswered) and event.body.answer.gate == "approval"


async def check(case: Case, sent: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Check what came of each `anyway` of a session, and return the gate and code of each that was run."""
    world = await play(case, sent)
    events = await world.log.read("s")
    started = {event.body.permit.digest for event in events if isinstance(event.body, ToolStarted)}
    ran, counted = [], FoldedStatistics()
    for gate, code, digest, body in list_overrides(events):
        verdicts = {verdict.digest: verdict for verdict in body.judgement.verdicts}
        if (verdict := verdicts[digest]).standing is Standing.ALLOW:
            ran.append((gate, code))
            (row,) = [row for row in body.judgement.rows if row.gate == gate]
            assert (verdict.call, "overridden") in [(ruling.call, ruling.code) for ruling in row.rulings]
            assert digest in started or len(sent) > 1
        else:
            rows = {row.gate: row for row in body.judgement.rows}
            assert verdict.gate != gate
            assert (verdict.call, verdict.ruling.code) in [(r.call, r.code) for r in rows[verdict.gate].rulings]
    apart = [event for event in events if event.kind in KINDS and not is_approval(event)]
    counted.add_session("s", apart)
    for gate in {gate for gate, _ in ran}:
        assert counted.gates[gate].overridden == sum(one == gate for one, _ in ran)
    return ran


@pytest.mark.parametrize("name", CASES)
async def test_a_call_that_a_person_wants_done_anyway_runs(name: str) -> None:
    case = CASES[name]
    ran = await check(case, (case.call,))
    assert (case.gate, name if "_" in name else CASES_CODE[case.gate]) in ran


CASES_CODE = {"drift": "text_only_turn_side_effecting_tool_drift"}


@pytest.mark.parametrize("holds", ["call", "whole_response"])
@pytest.mark.parametrize("others", [(READ,), (OTHER,), (OTHER, READ, EDIT_B)])
@pytest.mark.parametrize("name", CASES)
async def test_beside_other_calls_it_runs_or_the_row_of_another_gate_says_why_not(
    name: str, others: tuple[Any, ...], holds: str
) -> None:
    case = CASES[name]
    case = case._replace(policy=lambda: policy_with({"holds": holds}, CASES[name].policy()))
    await check(case, (case.call, *others))
    await check(case, (*others, case.call))


def test_every_gate_that_can_be_overridden_is_among_the_cases() -> None:
    lasting = {"validity", "evidence", "approval"}
    assert {case.gate for case in CASES.values()} == set(GATES) - lasting
