"""Whatever a model says: no crash, one answer per call, one permit per effect, and an effect never without leave."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel
from foregate.evidence.state.session import SessionState
from foregate.schemas.errors import ModelError
from foregate.schemas.event import Event, ModelResponded, TurnJudged
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished, ToolStarted
from foregate.schemas.judgement import Standing
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import FINISH_REASONS, ModelResponse
from foregate.schemas.protocols import Reply
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.log import chain
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.world import ACCEPT, World, plan_json
from tests.events import bodies
from tests.policies import SHADOWED, policy_with

ANY_TEXT = st.text(st.characters(), max_size=30)
GOOD = st.sampled_from(
    [
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "b.txt"}),
        ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}),
        ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"}),
        ("send", {"to": "bob@example.org", "text": "x"}),
        ("note", {"key": "k"}),
        ("note", {"key": "l"}),
    ]
).map(lambda pair: ToolCall.of(*pair))
BAD = st.builds(
    ToolCall.parse,
    st.sampled_from(["read_file", "edit_file", "nope", "", "send"]) | ANY_TEXT,
    st.sampled_from(["", "{}", "[]", "null", '{"path":1}', '{"path":"../x"}', '{"path":"a","path":"b"}', "{" * 99])
    | ANY_TEXT,
    wire_id=st.sampled_from(["", "1", "1", "x"]),
)
CALLS = st.lists(GOOD | GOOD | BAD, max_size=5).map(tuple)
RESPONSES = st.builds(
    ModelResponse, text=ANY_TEXT, calls=CALLS, reasoning=ANY_TEXT, finish_reason=st.sampled_from(FINISH_REASONS)
)
ADVICE = st.sampled_from(
    [
        json.dumps(plan_json("send", "bob@example.org")),
        json.dumps(plan_json("edit_file", "a.txt")),
        json.dumps(ACCEPT),
        "{}",
        "no",
        '{"verdict": "replan", "issues": ["x"], "summary": "y"}',
    ]
)


class Anything:
    """A model that says what Hypothesis draws, and whose endpoint may fail."""

    name = "anything"

    def __init__(self, responses: list[ModelResponse], advice: list[str]) -> None:
        self.responses, self.advice = responses[::-1], advice

    async def respond(self, request: ModelRequest, on_text: Any = None) -> ModelResponse:
        """Return the next response; advice is drawn apart."""
        if request.purpose != "chat":
            if not self.advice:
                raise ModelError("gone")
            return ModelResponse(self.advice[len(request.messages[1].text) % len(self.advice)])
        if not self.responses:
            return ModelResponse("that is all")
        return self.responses.pop()


class Moody:
    """A person whose answers are drawn."""

    def __init__(self, choices: list[str]) -> None:
        self.choices = choices

    async def answer(self, need: Any) -> Reply | None:
        """Return a drawn choice, the same for the same need."""
        choice = self.choices[len(need.key) % len(self.choices)] if self.choices else "no"
        return None if choice == "later" else Reply(choice)


def check(events: list[Event], world: World, finished: bool) -> tuple[int, int]:
    """Check what must hold of any log; return how many calls passed validity, of how many."""
    allowed: dict[tuple[int, str], str] = {}
    answered: dict[str, int] = {}
    asked: list[str] = []
    ran: list[str] = []
    for event in events:
        match event.body:
            case ModelResponded(calls=calls):
                asked += [call.id for call in calls]
            case TurnJudged(judgement=judgement):
                for verdict in judgement.verdicts:
                    if verdict.standing is Standing.ALLOW:
                        allowed[event.seq, verdict.call] = verdict.digest
            case ToolStarted(permit=permit):
                assert allowed.pop((permit.judged, permit.call)) == permit.digest
                ran.append(permit.digest)
            case ToolFinished(call=call) | CallAnswered(call=call) | OutcomeUnknown(call=call):
                answered[call] = answered.get(call, 0) + 1
            case _:
                pass
    assert sorted(ran) == sorted(world.effects)
    assert all(count == 1 for count in answered.values())
    if finished:
        assert set(asked) <= set(answered)
    for _, call in allowed:
        assert not finished or call in answered
    sent = [call for body in bodies(events, ModelResponded) for call in body.calls]
    fine = sum(call.name in ("read_file", "edit_file", "send", "note") and '"' in call.arguments for call in sent)
    return fine, len(sent)


TALLY = [0, 0]


@settings(max_examples=60)
@given(
    st.lists(RESPONSES, max_size=6),
    st.lists(ADVICE, max_size=3),
    st.lists(st.sampled_from(["yes", "grant", "no", "anyway", "stop", "more", "later"]), max_size=3),
    st.booleans(),
)
def test_generated_responses_never_crash_the_loop_nor_run_anything_unjudged(
    responses: list[ModelResponse], advice: list[str], choices: list[str], attended: bool
) -> None:
    async def play() -> None:
        world = World()
        session = await world.open(Anything(responses, advice), Moody(choices) if attended else None)
        outcome = await run(session, "fix a.txt and b.txt and send it to bob@example.org")
        events = list(chain.verify_lines(world.log.lines("s"), "s"))
        fine, count = check(events, world, not outcome.is_paused)
        TALLY[0] += fine
        TALLY[1] += count
        assert verify_rows(world.log.lines("s"), "s").ok
        again = SessionState()
        for event in events:
            again.apply(event)
        assert again.messages == session.state.messages

    asyncio.run(play())


def test_at_least_a_third_of_the_generated_calls_pass_validity() -> None:
    test_generated_responses_never_crash_the_loop_nor_run_anything_unjudged()
    assert TALLY[0] * 3 >= TALLY[1] > 50


@given(st.lists(st.lists(GOOD, min_size=1, max_size=3), min_size=1, max_size=4))
def test_with_every_gate_in_shadow_what_runs_is_what_a_loop_without_prelude_would_run(
    turns: list[list[ToolCall]],
) -> None:
    effects = []
    for policy in (SHADOWED, dict.fromkeys(SHADOWED, "off")):

        async def play(policy: dict[str, str] = policy) -> list[str]:
            keys = {**policy, "limits.identical_changes": 0, "limits.identical_observations": 0}
            world = World(policy=policy_with(keys))
            world.files.update({"a.txt": b"teh", "b.txt": b"teh"})
            steps = [ModelResponse("", tuple(calls), finish_reason="tool_calls") for calls in turns]
            session = await world.open(ScriptedModel([*steps, ModelResponse("done")]), Moody(["yes"]))
            await run(session, "go")
            return world.effects

        effects.append(asyncio.run(play()))
    assert effects[0] == effects[1]
    wanted = [call.digest for calls in turns for call in calls]
    assert effects[1] == wanted or any(call.name == "edit_file" for calls in turns for call in calls)
