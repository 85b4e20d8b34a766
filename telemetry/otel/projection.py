"""The projection: a fold over the events of sessions that starts, fills and ends spans, and measures.

It reads nothing but events. The times of spans are the times of events, and their numbers are derived from the
session's first event, so projecting a log again gives the same spans. `invoke_agent` is a task, or the stretch of it
that one process saw through without a pause; a later stretch is a trace of its own, linked to the first. Under it
stand `chat` (a request to the model, the planner or the critic), `prelude` (the gates at work on one response, each
verdict an event of it) and `execute_tool`. A child task stands under the `execute_tool` of the call that started it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    CatalogChanged,
    OutcomeUnknown,
    PolicyChanged,
    SessionEnded,
    SessionStarted,
    TaskEnded,
    TaskPaused,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.judgement import Standing
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import Json, as_texts, get_object
from foregate.schemas.tool_spec import ToolSpec
from foregate.schemas.version import __version__
from foregate.telemetry.audit.decisions import read_decisions
from foregate.telemetry.log.masking import Secret
from foregate.telemetry.otel import names, rows
from foregate.telemetry.otel.rows import Attributes
from foregate.telemetry.otel.views import (
    NANOSECONDS,
    ChosenIds,
    Instruments,
    SessionView,
    TaskView,
    derive_id,
    read_time,
)

AGENT: Final = "foregate"
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Projection:
    """Spans and metrics of any number of sessions. `provider` names whose kind of endpoint the model is.

    `content` tells whether what people, models and tools said is told too; `secrets` are masked in it beside what each
    session's policy calls sensitive. `ids` is what `tracer` asks for numbers.
    """

    def __init__(
        self,
        tracer: Tracer,
        ids: ChosenIds,
        instruments: Instruments,
        provider: str,
        *,
        content: bool = False,
        secrets: tuple[Secret, ...] = (),
    ) -> None:
        self._tracer, self._ids, self._instruments = tracer, ids, instruments
        self._provider, self._content, self._secrets = provider, content, secrets
        self._sessions: dict[str, SessionView] = {}

    def recall(self, events: Iterable[Event], now: int) -> None:
        """Take in what another process recorded and exported, without exporting it again.

        `now` is when this process goes on, in nanoseconds since 1970.
        """
        self._instruments.muted = True
        try:
            for event in events:
                self.apply(event)
        finally:
            self._instruments.muted = False
            for view in self._sessions.values():
                view.interrupt(now)

    def apply(self, event: Event) -> None:
        """Take in one event; those of a session come in order."""
        view = self._find_view(event)
        now = max(view.last, read_time(event))  # a clock that was set back ends no span before it started
        self._apply_to_session(view, event)
        if view.task is not None:
            self._apply_to_task(view, view.task, event, now)
        match event.body:
            case TurnJudged(early=True) | ToolStarted(early=True) | ToolFinished(early=True):
                pass  # the request goes on beside it
            case _:
                view.last = now

    def _find_view(self, event: Event) -> SessionView:
        if (known := self._sessions.get(event.session)) is not None:
            return known
        view = SessionView(event.session, event.hash, last=read_time(event))
        above = [other for name, other in self._sessions.items() if event.session.startswith(f"{name}.")]
        if above:
            parent = max(above, key=lambda other: len(other.name))
            view.parent, view.cause = parent, event.session[len(parent.name) + 1 :]
            view.model, view.tools, view.patterns = parent.model, parent.tools, parent.patterns
            if not isinstance(event.body, SessionStarted):
                # A child has one task, and this one began in another process.
                view.task = TaskView(1, parent.task.depth + 1 if parent.task is not None else 1)
        self._sessions[event.session] = view
        return view

    def _apply_to_session(self, view: SessionView, event: Event) -> None:
        match event.body:
            case SessionStarted(model=model, catalogue=catalogue, policy=policy):
                view.model, view.tools = model, _list_tools(catalogue)
                view.patterns = (*self._secrets, *_read_patterns(policy))
            case CatalogChanged(catalogue=catalogue):
                view.tools = _list_tools(catalogue)
            case PolicyChanged(policy=policy) if policy is not None:
                view.patterns = (*self._secrets, *_read_patterns(policy))
            case TaskStarted(task=number, depth=depth):
                view.task = TaskView(number, depth)
            case SessionEnded():
                del self._sessions[view.name]
            case _:
                pass

    def _apply_to_task(self, view: SessionView, task: TaskView, event: Event, now: int) -> None:
        match event.body:
            case TaskStarted():
                self._open_stretch(view, task, event, now)
            case UserMessage(text=text):
                stretch = self._open_stretch(view, task, event, now)
                if self._content:
                    task.messages.append(rows.format_words("user", text, view.patterns))
                    stretch.set_attribute(names.INPUT_MESSAGES, rows.encode_messages(task.messages[-1:]))
            case ModelResponded() as body:
                self._apply_response(view, task, event, body, now)
            case NeedRaised():
                task.pause_judging(now)
                task.asked = now
                self._open_prelude(view, task, event, now)
            case NeedAnswered() as body:
                self._apply_answer(view, task, event, body, now)
            case TurnJudged() as body:
                self._apply_judgement(view, task, event, body, now)
            case ToolStarted() as body:
                task.tools[body.call] = self._start_tool(view, task, event, body, now)
            case ToolFinished() | OutcomeUnknown() as body:
                self._finish_tool(view, task, event, body, now)
            case CallAnswered(call=call, message=message) if self._content:
                task.messages.append(rows.format_tool_response(call, message, view.patterns))
            case TaskPaused() as body:
                self._pause_task(view, task, body, now)
            case TaskEnded() as body:
                self._end_task(view, task, event, body, now)
            case _:
                pass

    def _open_stretch(self, view: SessionView, task: TaskView, event: Event, now: int) -> Span:
        """Return the open `invoke_agent` span, started by this event where there is none.

        What a person says ends a wait, so the span begins with it; anything else was under way since the last event.
        """
        if task.stretch is not None:
            return task.stretch
        over, first = view.find_parent_span(), task.first
        self._ids.trace = derive_id(128, view.identity, task.number, 0 if first is None else event.seq)
        about: Attributes = {
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT: AGENT,
            names.AGENT_VERSION: __version__,
            names.CONVERSATION: view.name,
            names.PROVIDER: self._provider,
            names.REQUEST_MODEL: view.model,
            names.TASK: task.number,
            names.DEPTH: task.depth,
            names.POLICY: event.policy,
        }
        links = [] if first is None else [Link(first)]
        start = now if isinstance(event.body, (TaskStarted, UserMessage, NeedAnswered)) else view.last
        span = self._start_span(f"{names.INVOKE_AGENT} {AGENT}", view, event, start, over, about, links=links)
        task.stretch = span
        task.first = first or span.get_span_context()
        return span

    def _open_prelude(self, view: SessionView, task: TaskView, event: Event, now: int) -> Span:
        """Return the open `prelude` span of the response in hand; it begins with the response."""
        if task.prelude is None:
            start = now if task.responded is None else task.responded
            task.prelude = self._start_span(
                names.PRELUDE, view, event, start, self._open_stretch(view, task, event, now)
            )
        return task.prelude

    def _apply_response(self, view: SessionView, task: TaskView, event: Event, body: ModelResponded, now: int) -> None:
        stretch = self._open_stretch(view, task, event, now)
        if body.places is not None or body.continues is not None:
            # Calls of a plan, or a further stage: nobody was asked for them.
            task.responded = task.judging = now
            if self._content:
                task.arguments.update(rows.index_arguments(body.calls))
            return
        about = rows.build_response_attributes(body)
        if self._content:
            about[names.INPUT_MESSAGES] = rows.encode_messages(task.messages)
            about[names.OUTPUT_MESSAGES] = rows.encode_messages([rows.format_response(body, view.patterns)])
            task.messages.clear()
            task.arguments = rows.index_arguments(body.calls)
        self._record_request(view, event, now, stretch, "chat", body.usage.usage, about)
        task.responded = task.judging = now if body.calls else None
        task.spent = 0

    def _record_request(
        self, view: SessionView, event: Event, now: int, parent: Span, purpose: str, usage: Usage, about: Attributes
    ) -> None:
        """Tell of a request whose answer is this event; it was made when the session's last event had been recorded."""
        key, counts = rows.build_request_attributes(self._provider, view.model), rows.count_tokens_by_type(usage)
        told: Attributes = {
            **key,
            **rows.build_usage_attributes(counts),
            **about,
            names.PURPOSE: purpose,
            names.EVENT: event.seq,
        }
        told[names.CONVERSATION] = view.name
        span = self._start_span(f"{names.CHAT} {view.model}", view, event, view.last, parent, told, SpanKind.CLIENT)
        failure = about.get(names.ERROR_TYPE)
        self._end_span(span, now, str(failure) if failure else "")
        if failure:
            key[names.ERROR_TYPE] = str(failure)
        self._instruments.record_request(now - view.last, counts, key)

    def _apply_answer(self, view: SessionView, task: TaskView, event: Event, body: NeedAnswered, now: int) -> None:
        answer, prelude = body.answer, self._open_prelude(view, task, event, now)
        if answer.who == "person":
            choice = rows.limit_to(answer.choice, rows.CHOICES) if answer.value else "none"
            about = {names.GATE: answer.gate, names.CHOICE: choice}
            waited = max(0, now - task.asked) / NANOSECONDS
            prelude.add_event(names.APPROVAL, {**about, names.WAITED: waited}, now)
            self._instruments.count_approval(about)
        else:
            told: Attributes = {} if answer.value is not None else {names.ERROR_TYPE: "unusable_answer"}
            if self._content and answer.value is not None:
                text = rows.mask_and_cut(answer.value, view.patterns)
                told[names.OUTPUT_MESSAGES] = rows.encode_messages([rows.format_words("assistant", text, ())])
            purpose = "plan" if answer.who == "planner" else "critique"
            self._record_request(view, event, now, prelude, purpose, body.usage or Usage(), told)
        task.judging = now if task.responded is not None else None

    def _apply_judgement(self, view: SessionView, task: TaskView, event: Event, body: TurnJudged, now: int) -> None:
        turn = body.turn
        standings = [verdict.standing for verdict in body.judgement.verdicts]
        if turn.actor == "model":
            span = self._open_prelude(view, task, event, now)
            if task.judging is not None:
                task.pause_judging(now)
                self._instruments.record_judging_time(task.spent)
            task.prelude = task.responded = None
            task.holds += standings.count(Standing.HOLD)
        else:
            span = self._start_span(names.PRELUDE, view, event, view.last, self._open_stretch(view, task, event, now))
            if self._content:
                task.arguments.update(rows.index_arguments(turn.proposed or ()))
        about: Attributes = {names.TURN: turn.turn, names.ACTOR: turn.actor, names.EVENT: event.seq}
        span.set_attributes({**about, names.POLICY: event.policy, names.RULING: rows.find_strictest(standings)})
        for point in read_decisions([event]):
            told = rows.build_decision_attributes(point, event.policy, view.tools)
            if self._content:
                said = {names.SUMMARY: point.summary, names.TARGET: point.target}
                told.update({name: rows.mask_and_cut(text, view.patterns) for name, text in said.items() if text})
            span.add_event(names.DECISION, told, now)
            self._instruments.count_verdict(rows.build_verdict_attributes(point))
        span.end(now)

    def _start_tool(
        self,
        view: SessionView,
        task: TaskView,
        event: Event,
        body: ToolStarted | ToolFinished | OutcomeUnknown,
        now: int,
    ) -> Span:
        """Return a new `execute_tool` span."""
        tool = rows.limit_to(body.tool, view.tools)
        about: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: tool,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL: body.call,
            names.CONVERSATION: view.name,
            names.EVENT: event.seq,
        }
        if isinstance(body, ToolStarted):
            about[names.JUDGED] = body.permit.judged
            about[names.EFFECT], about[names.SIDE_EFFECT] = body.effect.value, body.side_effect
        if self._content:
            about[names.TARGET] = rows.mask_and_cut(body.target, view.patterns)
            about[names.TOOL_ARGUMENTS] = rows.format_arguments(task.arguments.get(body.call, ""), view.patterns)
        name, stretch = f"{names.EXECUTE_TOOL} {tool}", self._open_stretch(view, task, event, now)
        return self._start_span(name, view, event, now, stretch, about)

    def _finish_tool(
        self, view: SessionView, task: TaskView, event: Event, body: ToolFinished | OutcomeUnknown, now: int
    ) -> None:
        """End the span of a call; one that another process started is told of by the event that parks it."""
        span = task.tools.pop(body.call, None) or self._start_tool(view, task, event, body, now)
        match body:
            case OutcomeUnknown(reason=text):
                failure, early = "outcome_unknown", False
            case ToolFinished(content=text, early=early):
                failure = "" if body.ok else rows.limit_to(body.error, rows.TOOL_ERRORS)
            case _:
                assert_never(body)
        if failure:
            span.set_attribute(names.ERROR_TYPE, failure)
        if self._content:
            span.set_attribute(names.TOOL_RESULT, rows.mask_and_cut(text, view.patterns))
            if not early:
                task.messages.append(rows.format_tool_response(body.call, text, view.patterns))
        self._end_span(span, now, failure)
        if isinstance(body, ToolFinished):
            about = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: rows.limit_to(body.tool, view.tools)}
            self._instruments.record_tool_run(body.duration, {**about, names.ERROR_TYPE: failure} if failure else about)

    def _end_task(self, view: SessionView, task: TaskView, event: Event, body: TaskEnded, now: int) -> None:
        self._open_stretch(view, task, event, now)
        told = rows.build_task_end_attributes(body, task.holds)
        if self._content:
            answer = rows.format_words("assistant", body.text, view.patterns)
            told[names.OUTPUT_MESSAGES] = rows.encode_messages([answer])
        failure = body.status if body.status == "failed" else ""
        if failure:
            told[names.ERROR_TYPE] = failure
        self._end_stretch(task, told, now, failure)
        self._instruments.record_holds(task.holds, {names.STATUS: body.status})
        view.task = None

    def _pause_task(self, view: SessionView, task: TaskView, body: TaskPaused, now: int) -> None:
        told: Attributes = {names.STATUS: rows.limit_to(body.reason, rows.PAUSES)}
        if self._content and body.question is not None:
            question = rows.format_words("assistant", body.question, view.patterns)
            told[names.OUTPUT_MESSAGES] = rows.encode_messages([question])
        self._end_stretch(task, told, now)

    def _end_stretch(self, task: TaskView, told: Attributes, now: int, failure: str = "") -> None:
        """End everything of the stretch that is open: the task pauses, or is over."""
        for span in (*task.tools.values(), *([task.prelude] if task.prelude is not None else [])):
            self._end_span(span, now, "")
        if task.stretch is not None:
            task.stretch.set_attributes(told)
            self._end_span(task.stretch, now, failure)
        task.stretch = task.prelude = task.responded = task.judging = None
        task.tools.clear()

    def _start_span(
        self,
        name: str,
        view: SessionView,
        event: Event,
        start: int,
        parent: Span | None,
        about: Attributes | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> Span:
        """Start a span whose number follows from the event and the name; under no `parent` it begins a trace."""
        if parent is not None:
            self._ids.trace = parent.get_span_context().trace_id
        self._ids.span = derive_id(64, view.identity, self._ids.trace, event.seq, name)
        if self._instruments.muted:
            return NonRecordingSpan(SpanContext(self._ids.trace, self._ids.span, False, _SAMPLED))
        context = Context() if parent is None else set_span_in_context(parent, Context())
        return self._tracer.start_span(name, context, kind, about, links, start)

    @staticmethod
    def _end_span(span: Span, now: int, failure: str) -> None:
        if failure:
            span.set_status(Status(StatusCode.ERROR))
        span.end(now)


def _list_tools(catalogue: Iterable[ToolSpec]) -> frozenset[str]:
    return frozenset(spec.name for spec in catalogue)


def _read_patterns(policy: Mapping[str, Json]) -> tuple[str, ...]:
    """Return what a recorded policy calls sensitive; raise InvalidJson where it does not say."""
    return as_texts(get_object(policy, "sensitive").get("patterns"), "patterns")
