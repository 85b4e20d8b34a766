"""A session that serves another agent: each call it asks for is judged and run, and answered once and for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.loop.cancelling import answer_remaining
from foregate.agent.loop.runner import take_step
from foregate.agent.session.session import Session
from foregate.agent.tools.remote_protocol import Problem, Response
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, ModelError
from foregate.schemas.event import Draft, Event, ModelResponded
from foregate.schemas.event_body import CallAnswered, OutcomeResolved, OutcomeUnknown, ToolFinished
from foregate.schemas.judgement import Need
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Person, Reply
from foregate.schemas.tool_call import Survey, SurveyedResource, ToolCall
from foregate.telemetry.diagnostics import get_diagnostics

OPENING = "Calls of another agent, which this session judges and runs for it."
"""What stands where a task's request would: nobody's words, and no ground for anything."""
_RESTARTED = "it had changed nothing when the process that serves ended; send it again under another id"
_DUPLICATE = "another call was sent under this id"
_UNBEGUN = ("not_run_cancelled", "it was cancelled before it began")
_NOBODY = "it waits for a person, and nobody can be asked now"
_RESULT = ("ok", "content", "evidence", "changes", "origin", "error", "dropped", "exit_code")
_HIDDEN = ("secret", "foregate", "git_internal", "outside_workspace")
"""Why a resource is protected whose content is not told by its hash either."""

Answer: TypeAlias = ToolFinished | CallAnswered | OutcomeUnknown | OutcomeResolved
"""What the log may hold as the answer to a request."""


class CallerModel:
    """Stands where a session has its model: the agent that calls. It is never asked anything."""

    name = "another agent"

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Raise ModelError: what is served asks no model."""
        raise ModelError("a served session asks no model")


class CallerConsent:
    """The caller's word that its own person has said yes to a call."""

    async def answer(self, need: Need) -> Reply | None:
        """Return that yes."""
        return Reply("yes", by="the caller's person")


class RequestPerson:
    """The person of a served session: whoever speaks for the request in hand, or nobody."""

    def __init__(self) -> None:
        self.speaker: Person | None = None

    async def answer(self, need: Need) -> Reply | None:
        """Return what the speaker answers, None without a speaker."""
        return await self.speaker.answer(need) if self.speaker is not None else None


class KnownRequest(Struct):
    """A request of this session: what was asked, and the event that answers it, 0 while it is open."""

    digest: str
    answer: int = 0


class ToolServer:
    """Serves one caller. Requests run one after the other, in the order they came.

    The log is the record of requests: the id of each is the wire id of its call, so that what was run is known after
    any end of the process, and answered from there.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: dict[str, KnownRequest] = {}
        self._ids: dict[str, str] = {}
        self._running: dict[str, asyncio.Task[Response]] = {}
        self._turn = asyncio.Lock()
        session.subscribe(self._track_request)

    async def begin(self) -> None:
        """Take in what was asked before, and begin the one task the calls are part of."""
        for event in await self.session.log.read():
            self._track_request(event)
        await answer_remaining(self.session, "not_run_cancelled", _RESTARTED)
        if self.session.state.task is None:
            await self.session.record_message(OPENING, "parent")
        await self.session.log.settle()

    async def wait_until_idle(self) -> None:
        """Return when no request waits or runs; the deadline of each bounds how long that takes."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    def has_request(self, id: str) -> bool:  # noqa: A002
        """Whether a request has been here."""
        return id in self._known or id in self._running

    async def answer(self, call: ToolCall, seconds: float, speaker: Person | None = None) -> Response:
        """Return the outcome of the request whose id is the call's wire id, run within `seconds` where it is new.

        `speaker` answers what asks a person about it.
        """
        id = call.wire_id  # noqa: A001
        known = self._known.get(id)
        if known is not None and known.digest != call.digest:
            return build_refusal(id, "duplicate_id", f"{_DUPLICATE}; give each call an id of its own")
        if known is None and id not in self._running:
            self._running[id] = task = asyncio.ensure_future(self._run_in_turn(call, seconds, speaker))
            task.add_done_callback(lambda _: self._running.pop(id))
        if running := self._running.get(id):
            await asyncio.wait([running])
            if id not in self._known:
                return build_refusal(id, *_UNBEGUN) if running.cancelled() else running.result()
        return await self.recall(id, call.digest)

    async def recall(self, id: str, digest: str) -> Response:  # noqa: A002
        """Return the outcome of a request, from the log."""
        known = self._known.get(id)
        if known is None:
            return Response(id, False, "running") if id in self._running else build_missing(id)
        if known.digest != digest:
            return build_refusal(id, "duplicate_id", _DUPLICATE)
        if not known.answer:
            return Response(id, False, "running" if id in self._running else "unknown")
        (event,) = await self.session.log.read(after=known.answer - 1, limit=1)
        assert isinstance(event.body, Answer)
        return build_response(id, event.body)

    def cancel(self, id: str) -> None:  # noqa: A002
        """Stop a request that waits or runs; what it did is answered as ever."""
        if task := self._running.get(id):
            task.cancel()

    def survey_calls(self, calls: Sequence[ToolCall]) -> list[Survey]:
        """Return what calls would touch, as it is now; of what is protected not what it holds."""
        found = self.session.surveyor.survey(calls, self.session.state)
        return [replace(one, atoms=(), resources=tuple(map(redact_resource, one.resources))) for one in found]

    async def close(self, *, end: bool = False) -> None:
        """Stop what runs and give the session back; with `end` its task and its log are complete."""
        for task in list(self._running.values()):
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))
        if end and self.session.state.task is not None:
            await self.session.end_task("completed", "the caller has gone")

    async def _run_in_turn(self, call: ToolCall, seconds: float, speaker: Person | None) -> Response:
        """Run a request in its turn; the response only counts where the log holds nothing of it."""
        try:
            async with asyncio.timeout(seconds), self._turn:
                if isinstance(self.session.person, RequestPerson):
                    self.session.person.speaker = speaker
                await self._run_call(call)
        except TimeoutError:
            return build_refusal(call.wire_id, "deadline_passed", "its deadline passed before it could begin")
        except asyncio.CancelledError:
            return build_refusal(call.wire_id, *_UNBEGUN)
        except ForegateError as error:
            get_diagnostics().warning("served_call_failed", call=call.wire_id, why=str(error))
            return build_refusal(call.wire_id, "runtime_failed", f"what serves could not go on: {error}")
        return build_missing(call.wire_id)

    async def _run_call(self, call: ToolCall) -> None:
        session = self.session
        facts = session.turns.compute_open_facts
        response = ModelResponse("", (call,), finish_reason="tool_calls", model=session.model.name)
        await session.record(Draft(ModelResponded.of(response.stamp_calls(session.state.seq + 1)), "model"))
        try:
            while session.state.open is not None:
                if await take_step(session) is not None:
                    await answer_remaining(session, "approval_required", _NOBODY, facts())
        except asyncio.CancelledError:
            await answer_remaining(session, "not_run_cancelled", "it was cancelled, or its deadline passed", facts())
            raise
        finally:
            await session.log.settle()

    def _track_request(self, event: Event) -> None:
        """Keep which event answers which request; the fold is the same for what was and what is."""
        body = event.body
        if isinstance(body, ModelResponded):
            for call in body.response.calls:
                self._known[call.wire_id], self._ids[call.id] = KnownRequest(call.digest), call.wire_id
        elif isinstance(body, Answer) and (id := self._ids.get(body.call)):  # noqa: A001
            self._known[id].answer = event.seq


def redact_resource(resource: SurveyedResource) -> SurveyedResource:
    """Return what is told of a resource: of a protected one neither hash nor size; what this session saw stays here."""
    bare = replace(resource, evidence=(), changed_before=False)
    return replace(bare, hash="", size=0) if resource.protected in _HIDDEN else bare


def build_refusal(id: str, code: str, message: str) -> Response:  # noqa: A002
    """Return the response to a request that did not run."""
    return Response(id, False, "refused", errors=(Problem(code, message),))


def build_missing(id: str) -> Response:  # noqa: A002
    """Return the response to a question about a request that never came."""
    return Response(id, False, "missing", errors=(Problem("unknown_id", "no request came under this id"),))


def build_response(id: str, body: Answer) -> Response:  # noqa: A002
    """Return the response an answer in the log is."""
    match body:
        case ToolFinished():
            data = {key: value for key, value in strict_json.dump(body).items() if key in _RESULT}
            failed = () if body.ok else (Problem(body.error or "tool_failed", body.content[:2000]),)
            return Response(id, body.ok, "finished", data, failed, body.duration)
        case CallAnswered():
            remedy = strict_json.dump(body.remedy) if body.remedy is not None else None
            observed = strict_json.dump(body.observed) if body.observed is not None else None
            return Response(id, False, "refused", errors=(Problem(body.code, body.message, remedy, observed),))
        case OutcomeResolved(outcome="done"):
            data = {key: value for key, value in strict_json.dump(body).items() if key in ("evidence", "changes")}
            return Response(id, True, "finished", {"ok": True, "content": "it took effect", **data})
        case OutcomeResolved():
            return build_refusal(id, "not_done", "it did not take effect")
        case OutcomeUnknown(reason=reason):
            return Response(id, False, "unknown", errors=(Problem("outcome_unknown", reason[:2000]),))
        case _:
            assert_never(body)


OFF = ("narration", "drift", "uncertainty", "plan", "critique", "postlude", "mandate")
"""Sections that ask what a model said, what a person asked for, or another model: here is none of them."""
_UNCOUNTED = (
    *("turns", "model_calls", "tool_calls", "tokens", "cost", "wall_clock", "child_depth"),
    *("identical_changes", "identical_observations", "repeated_holds", "futile_turns"),
)
"""Limits of one task and its loop, which the caller has to keep; 0 is none, and no `delegate`."""


def narrow_policy(policy: Policy) -> Policy:
    """Return the policy with the gates `validity`, `rules`, `evidence` and `approval` as they are, and no others.

    Nor is there a mandate: whose words a call rests on is known where the person speaks, which is the caller's side.

    Limits of a task do not count: a served session is one task without an end. Everything else stays.
    """
    gates = {name: getattr(policy, name).model_copy(update={"mode": "off"}) for name in OFF}
    limits = policy.limits.model_copy(update=dict.fromkeys(_UNCOUNTED, 0))
    return policy.model_copy(update={**gates, "limits": limits})
