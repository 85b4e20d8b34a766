"""A session: its log, its state, and everything the loop works with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, get_args

from msgspec.structs import replace

from foregate.agent.session.advisors import advise
from foregate.agent.session.delegation import Delegating, may_delegate
from foregate.agent.session.plan_driver import Desk
from foregate.agent.session.prefetched import Look
from foregate.agent.session.prompts import PROMPTS_HASH, SYSTEM
from foregate.agent.session.result import Outcome
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.tool import bound_to, look_there
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import OpenTurn
from foregate.evidence.state.tokens import Measure
from foregate.gates.prelude import Prelude, prelude
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.call_facts import CallFacts
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Actor, Draft, Event
from foregate.schemas.grant import Grant
from foregate.schemas.json_object import get_text
from foregate.schemas.judgement import Judgement
from foregate.schemas.judging_events import NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.model_response import Usage
from foregate.schemas.need import Answer, Need
from foregate.schemas.protocols import Blobs, Lease, Log, Model, Person, ToolSource
from foregate.schemas.session_events import CatalogChanged, SessionEnded, SessionStarted
from foregate.schemas.strict_json import Json
from foregate.schemas.survey import Survey, survey_hash
from foregate.schemas.task_events import PauseReason, Report, Status, TaskEnded, TaskPaused, TaskStarted, UserMessage
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec, catalogue_hash, catalogue_of
from foregate.schemas.turn import Refusal, Turn, TurnActor
from foregate.schemas.turn_record import TurnRecord
from foregate.telemetry.log.masking import Hidden, masked
from foregate.telemetry.log.secret import Secret

Clock = Callable[[], str]
Listener = Callable[[Event], None]
Delegate = Callable[["Session", str, str], Awaitable[Outcome]]
"""Runs a text as a child task of a session, in a log of the name given, "" for one of its choice."""


def utc_now() -> str:
    """Return the time as UTC text with microseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """Return a second as UTC text: many events fall into one."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class Session:
    """One log, begun by `start` or gone on with by `resume`. All that happens is recorded before its consequence.

    `delegate` runs child tasks; without it there are none, and the tool `delegate` is not offered.
    """

    def __init__(
        self,
        *,
        log: Log,
        lease: Lease,
        blobs: Blobs,
        model: Model,
        tools: ToolSource,
        policy: Policy,
        workspace: Workspace,
        person: Person | None = None,
        clock: Clock = utc_now,
        listeners: Sequence[Listener] = (),
        depth: int = 0,
        layers: Mapping[str, Json] | None = None,
        delegate: Delegate | None = None,
        secrets: tuple[Secret, ...] = (),
    ) -> None:
        self.log, self.lease, self.blobs = log, lease, blobs
        self.model, self.policy, self.workspace, self.depth = model, policy, workspace, depth
        self.secrets = secrets
        self.layers: Mapping[str, Json] = {"given": True} if layers is None else layers
        self.own_tools = tools = bound_to(tools, self)
        self._offered: Sequence[ToolSpec] = ()
        self.delegate = delegate
        delegates = delegate is not None and may_delegate(policy, depth)
        self.tools: ToolSource = Delegating(tools, lease.session, self.child) if delegates else tools
        self.person, self.clock, self.listeners = person, clock, list(listeners)
        self._judge_by(catalogue_of(list(self.tools.specs())))
        self.state = SessionState()
        self.facts: Mapping[str, CallFacts] = {}
        self.on_text: Callable[[str], None] | None = None
        self.desk: Desk | None = None
        self.early = False
        self.looks: dict[tuple[int, str], Look] = {}
        """What was seen early, by the response it was taken for and the digest of the call."""

    async def start(
        self, *, dialect: str = "", runtime: str = "", agent: str = "", parent: str = "", parent_event: int = 0
    ) -> None:
        """Write the first event: everything needed to judge this session again elsewhere. See SessionStarted."""
        tools = self.catalogue_changed
        body = SessionStarted(
            workspace=str(self.workspace.root),
            model=self.model.name,
            system=SYSTEM,
            prompts_hash=PROMPTS_HASH,
            catalogue=tools.catalogue,
            catalogue_hash=tools.catalogue_hash,
            policy=self.policy.model_dump(mode="json"),
            layers=dict(self.layers),
            depth=self.depth,
            dialect=dialect,
            runtime=runtime,
            agent=agent,
            parent=parent,
            parent_event=parent_event,
        )
        await self.record(Draft(body, "foregate"))

    def _judge_by(self, catalogue: dict[str, ToolSpec]) -> None:
        self.catalogue: dict[str, ToolSpec] = catalogue
        self.prelude: Prelude = prelude(self.policy, catalogue)
        self.surveyor = Surveyor(self.workspace, self.tools, self.policy, catalogue)

    @property
    def catalogue_changed(self) -> CatalogChanged:
        """The tools as the log has them, and their hash."""
        catalogue = tuple(self.catalogue.values())
        return CatalogChanged(catalogue=catalogue, catalogue_hash=catalogue_hash(catalogue))

    async def catch_up(self) -> None:
        """Take note of tools that are gone: what comes next is offered and judged without them."""
        own = self.own_tools.specs()
        if own is self._offered:
            return
        self._offered, specs = own, list(self.tools.specs())
        if [spec.name for spec in specs] != list(self.catalogue):
            self._judge_by(catalogue_of(specs))
            await self.record(Draft(self.catalogue_changed, "foregate"))

    @property
    def hidden(self) -> Hidden:
        """What is masked: the secrets of whoever opened the session, and what the policy calls sensitive."""
        return (*self.secrets, *self.policy.sensitive.patterns)

    async def record(self, *drafts: Draft) -> Sequence[Event]:
        """Mask what is hidden, append the events, fold them into the state, tell the listeners."""
        kept = [masked(draft, self.hidden) for draft in drafts]
        events = await self.log.append(self.lease, kept, policy=self.policy.hash, time=self.clock())
        for event in events:
            self.state.apply(event)
            for listener in self.listeners:
                listener(event)
        return events

    def measure(self) -> Measure:
        """Return how the tokens of this session's model are counted."""
        from foregate.agent.session.tokenizer import measure_for

        return measure_for(self.model.name)

    async def child(self, text: str, *, name: str = "") -> Outcome:
        """Run a task one deeper, in a log of its own, with this session's policy, refusals and what budget is left.

        Raises UsageError for a session without `delegate`, and where the policy's depth is reached.
        """
        if self.delegate is None:
            raise UsageError("this session runs no child tasks; open it with `delegate`")
        return await self.delegate(self, text, name)

    async def hear(
        self, text: str, actor: Actor = "user", *, plan: bool = False, refusals: tuple[Refusal, ...] | None = None
    ) -> None:
        """Record a message; it starts a task, or continues the one that asked a question.

        `plan` and `refusals` are what a task begins with; see TaskStarted.
        """
        drafts = []
        if self.state.task is None:
            begun = TaskStarted(task=self.state.tasks + 1, depth=self.depth, plan=plan, refusals=refusals)
            drafts.append(Draft(begun, "foregate"))
        drafts.append(Draft(UserMessage(text=strict_json.scrub(text)), actor))
        await self.record(*drafts)

    async def look_ahead(self, calls: Sequence[ToolCall]) -> None:
        """Have a runtime look at calls that are to be judged; raise RuntimeLost where it is gone."""
        await look_there(self.own_tools, calls)

    def turn(self, open: OpenTurn) -> Turn:  # noqa: A002
        """Look at the calls of a response and return what the judge reads; answers that no longer fit are voided."""
        limit = self.policy.limits.calls_per_response
        calls = open.response.calls[: limit or None]
        surveys = self.surveyor.survey(calls, self.state)
        if open.answers:
            now = (survey_hash(surveys), self.policy.hash)
            if any((answer.survey_hash, answer.policy_hash) != now for answer in open.answers):
                self.state.void(list(open.answers), "what was judged has changed since the answer")
        return self.bare_turn(
            open.seq,
            calls,
            "model",
            open.continues,
            surveys=surveys,
            text=open.response.text,
            answers=tuple(open.answers),
            voided=tuple(open.voided),
        )

    def bare_turn(
        self,
        response: int,
        calls: tuple[ToolCall, ...],
        actor: TurnActor,
        cause: int,
        *,
        surveys: tuple[Survey, ...] | None = None,
        **more: Any,
    ) -> Turn:
        """Return a turn of the open task over `calls`, surveyed now unless `surveys` are given."""
        state, task = self.state, self.state.task
        assert task is not None
        digests = {call.digest for call in calls}
        now = self.clock()
        return Turn(
            response=response,
            task=task.number,
            turn=task.used["turns"] + (0 if actor == "model" and cause else 1),
            now=now,
            policy_hash=self.policy.hash,
            catalogue_hash=state.catalogue_hash,
            prompts_hash=state.prompts_hash,
            calls=calls,
            surveys=self.surveyor.survey(calls, state) if surveys is None else surveys,
            user_messages=tuple(task.messages),
            depth=self.depth,
            actor=actor,
            cause=cause,
            attended=self.person is not None,
            auto=state.auto,
            dry_run=state.dry_run,
            counters=task.counters_at(now),
            plan=task.plan,
            narrated=task.narrated,
            slots_asked=tuple(task.slots_asked),
            slots_answered=tuple(task.slots_answered),
            grants=(*state.grants, *task.grants),
            refusals=tuple(refusal for refusal in task.refusals if refusal.digest in digests),
            holds=task.held(digests),
            fired=dict(task.fired),
            shadow_fired=dict(task.shadow_fired),
            just_failed=task.just_failed,
            during=task.during,
            unplanned=None if state.mode == "direct" or task.running_plan else unplanned(state.mode, task.touched),
            **more,
        )

    def judged(
        self, turn: Turn, judgement: Judgement, *, stuck: str = "", notice: str = "", early: bool = False
    ) -> Draft:
        """Return the one event a judged turn leaves; `notice` is what the model is told with it.

        `early` is set for a look of a response that still arrives.
        """
        open_turn = self.state.open
        cut = open_turn is not None and turn.actor == "model" and len(turn.calls) < len(open_turn.response.calls)
        body = TurnJudged(
            turn=TurnRecord.of(turn, judged_calls=len(turn.calls) if cut else None),
            judgement=judgement,
            survey_hash=turn.survey_hash,
            fingerprints=turn.fingerprints,
            plan=judgement.plan,
            stuck=stuck,
            notice=notice,
            early=early,
        )
        return Draft(body, "foregate")

    async def meet(self, need: Need, turn: Turn) -> Outcome | None:
        """Record a question and its answer; a person who cannot answer now pauses the task."""
        open_turn = self.state.open
        assert open_turn is not None
        same = open_turn.need is not None and (
            (open_turn.need.need.gate, open_turn.need.need.key, open_turn.need.survey_hash)
            == (need.gate, need.key, turn.survey_hash)
        )
        if not same:
            request = self.blobs.put(strict_json.canonical(need.request))
            raised = NeedRaised(need=replace(need, request={}), request=request, survey_hash=turn.survey_hash)
            await self.record(Draft(raised, "foregate"))
        elif open_turn.need is not None:
            need = replace(need, expires_at=open_turn.need.need.expires_at)
        if need.who != "person":
            advice = await advise(self.model, need, self.policy)
            words = self.blobs.put(advice.text.encode())
            await self.answered(need, turn, advice.value, error=advice.error, usage=advice.usage, response=words)
            return None
        if need.expires_at and self.clock() > need.expires_at:
            await self.answered(need, turn, None, error="nobody answered in time")
            return None
        await self.log.settle(self.lease)
        reply = await self.person.answer(need) if self.person is not None else None
        self.looks = {key: look for key, look in self.looks.items() if look.checkable}  # a person takes their time
        if reply is None:
            return await self.paused(Outcome("awaiting_approval", str(need.request.get("question", ""))))
        value = {"choice": reply.choice, "text": strict_json.scrub(reply.text), "by": reply.by}
        await self.answered(need, turn, value, grants=anyway(need, reply.choice))
        return None

    async def answered(
        self,
        need: Need,
        turn: Turn,
        value: Mapping[str, Json] | None,
        *,
        error: str = "",
        usage: Usage | None = None,
        response: str | None = None,
        grants: tuple[Grant, ...] | None = None,
    ) -> None:
        """Record an answer, bound to the survey and the policy it was given under."""
        answer = Answer(
            need.gate,
            need.who,
            need.key,
            need.digests,
            turn.survey_hash,
            turn.policy_hash,
            value,
            error,
            self.clock(),
            need.expires_at,
        )
        await self.record(Draft(NeedAnswered(answer=answer, usage=usage, response=response, grants=grants), need.who))

    async def end(
        self, status: Status, text: str = "", *, remark: str = "", blocker: str = "", need: str = ""
    ) -> Outcome:
        """Record the end of the task and return it; anything but completed reports what stands and what is next."""
        task = self.state.task
        assert task is not None
        report = Report()
        if status != "completed":
            step = need or "say how to go on, or ask for something smaller"
            report = Report(tuple(task.done), blocker or status, step, "send another message to go on")
        text = f"{text}\n\n{remark}" if remark else text
        counters = task.counters
        body = TaskEnded(
            status=status,
            text=text,
            duration=task.elapsed(self.clock()),
            turns=counters.turns,
            model_calls=counters.model_calls,
            tool_calls=counters.tool_calls,
            tokens=counters.tokens,
            cost=counters.cost,
            note=blocker,
            report=report,
        )
        await self.record(Draft(body, "foregate"))
        with suppress(asyncio.CancelledError):  # the task has ended, so there is nothing left to cancel
            await self.log.settle(self.lease)
        return Outcome(status, text, report, remark)

    async def paused(self, outcome: Outcome) -> Outcome:
        """Record that the task waits for a person, and return the outcome it pauses with."""
        asks = outcome.status == "needs_input"
        reasons: tuple[PauseReason, ...] = get_args(PauseReason)
        reason = next(reason for reason in reasons if reason == outcome.status)
        await self.record(Draft(TaskPaused(reason=reason, question=outcome.text if asks else None), "foregate"))
        await self.log.settle(self.lease)
        return outcome

    async def close(self, *, end: bool = True) -> None:
        """Give the session back; with `end` its log is complete, and says so."""
        if end and not self.state.ended:
            await self.record(Draft(SessionEnded(events=self.state.seq + 1), "foregate"))
        await self.log.settle(self.lease)
        await self.log.release(self.lease)


def unplanned(mode: str, touched: int) -> int:
    """Return how many changes may still be made without a plan; a mode nobody knows lets none be made."""
    return max(0, 1 - touched) if mode == "auto" else 0


def anyway(need: Need, choice: str) -> tuple[Grant, ...]:
    """Return the grants of a person who wants a call done that was held twice: exactly this call, gate and code."""
    if need.gate != "loop" or choice != "anyway" or not need.request.get("can_override"):
        return ()
    gate, code = get_text(need.request, "gate"), get_text(need.request, "code")
    return tuple(Grant(gate, code, "", digest=digest, until="task") for digest in need.digests)
