"""The projection: a fold over the events of sessions that starts, fills and ends spans, and measures.

It reads nothing but events. The times of spans are the times of events, and their numbers are derived from the
session's first event, so projecting a log again gives the same spans. `invoke_agent` is a task, or the stretch of it
that one process saw through without a pause; a later stretch is a trace of its own, linked to the first. Under it
stand `chat` (a request to the model, the planner or the critic), `prelude` (the gates at work on one response, each
verdict an event of it) and `execute_tool`. A child task stands under the `execute_tool` of the call that started it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context

from foregate.schemas import event_body
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.judgement import Standing
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__
from foregate.telemetry.log.masking import Hidden, Secret, read_patterns
from foregate.telemetry.otel import names, rows, views
from foregate.telemetry.otel.rows import Attributes
from foregate.telemetry.queries.decisions import read_decisions

AGENT: Final = "foregate"
_SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)


class Moment(NamedTuple):
    """An event as it is projected: its session, its task, and its time in nanoseconds since 1970."""

    view: views.SessionSpans
    task: views.TaskSpans
    event: Event
    now: int


class Projection:
    """Spans and metrics of any number of sessions. `provider` names whose kind of endpoint the model is.

    `content` tells whether what people, models and tools said is told too; `secrets` are masked in it beside what each
    session's policy calls sensitive. `ids` is what `tracer` asks for numbers.
    """

    def __init__(
        self,
        tracer: trace.Tracer,
        ids: views.ChosenIds,
        instruments: views.Instruments,
        provider: str,
        *,
        content: bool = False,
        secrets: tuple[Secret, ...] = (),
    ) -> None:
        self._tracer, self._ids, self._instruments = tracer, ids, instruments
        self._provider, self._content, self._secrets = provider, content, secrets
        self._sessions: dict[str, views.SessionSpans] = {}

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
        # A clock that was set back ends no span before it started.
        now = max(view.last, views.read_time(event))
        self._apply_to_session(view, event)
        if view.task is not None:
            self._apply_to_task(Moment(view, view.task, event, now))
        # Beside an early look the request goes on.
        if not getattr(event.body, "early", False):
            view.last = now

    def _find_view(self, event: Event) -> views.SessionSpans:
        if (known := self._sessions.get(event.session)) is not None:
            return known
        view = self._sessions[event.session] = views.SessionSpans(
            event.session, event.hash, last=views.read_time(event)
        )
        above = [other for name, other in self._sessions.items() if event.session.startswith(f"{name}.")]
        if above:
            parent = max(above, key=lambda other: len(other.name))
            view.parent, view.cause = parent, event.session[len(parent.name) + 1 :]
            view.model, view.tools, view.patterns = parent.model, parent.tools, parent.patterns
            if not isinstance(event.body, event_body.SessionStarted):
                # A child has one task, and this one began in another process.
                view.task = views.TaskSpans(1, parent.task.depth + 1 if parent.task is not None else 1)
        return view

    def _apply_to_session(self, view: views.SessionSpans, event: Event) -> None:
        match event.body:
            case event_body.SessionStarted(model=model, catalogue=catalogue, policy=policy, by=by):
                view.model, view.tools = model, frozenset(spec.name for spec in catalogue)
                view.user = by.user if by is not None else ""
                view.patterns = self._read_hidden(policy)
            case event_body.CatalogChanged(catalogue=catalogue):
                view.tools = frozenset(spec.name for spec in catalogue)
            case event_body.PolicyChanged(policy=policy, by=by):
                view.patterns = view.patterns if policy is None else self._read_hidden(policy)
                view.user = view.user if by is None else by.user
            case event_body.TaskStarted(task=number, depth=depth):
                view.task = views.TaskSpans(number, depth)
            case event_body.SessionEnded():
                del self._sessions[view.name]
            case _:
                pass

    def _read_hidden(self, policy: Mapping[str, Json]) -> Hidden:
        """Return the secrets, and what a recorded policy calls sensitive; raise InvalidJson where it does not say."""
        return (*self._secrets, *read_patterns(policy))

    def _apply_to_task(self, at: Moment) -> None:
        task, patterns = at.task, at.view.patterns
        match at.event.body:
            case event_body.TaskStarted():
                self._open_stretch(at)
            case event_body.UserMessage(text=text):
                stretch = self._open_stretch(at)
                if self._content:
                    task.messages.append(rows.format_words("user", text, patterns))
                    stretch.set_attribute(names.INPUT_MESSAGES, rows.encode_messages(task.messages[-1:]))
            case ModelResponded() as body:
                self._apply_response(at, body)
            case NeedRaised():
                task.pause_judging(at.now)
                task.asked = at.now
                self._open_prelude(at)
            case NeedAnswered() as body:
                self._apply_answer(at, body)
            case TurnJudged() as body:
                self._apply_judgement(at, body)
            case event_body.CallBody() as body:
                self._apply_to_call(at, body)
            case event_body.TaskPaused() as body:
                told: Attributes = {names.STATUS: rows.limit_to(body.reason, rows.PAUSES)}
                self._end_stretch(at, told, body.question)
            case event_body.TaskEnded() as body:
                self._end_task(at, body)
            case _:
                pass

    def _apply_to_call(self, at: Moment, body: event_body.AnyCallBody) -> None:
        task, patterns = at.task, at.view.patterns
        match body:
            case event_body.ToolStarted(applies=None) as body:
                task.tools[body.call] = self._start_tool(at, body)
            case event_body.SandboxEnded(call=call):
                task.sandboxed.add(call)
            case event_body.ToolFinished() | event_body.OutcomeUnknown() as body:
                self._finish_tool(at, body)
            case event_body.CallAnswered(call=call, message=message, code=code):
                # Nothing is kept of it.
                if call in task.sandboxed and (ran := task.tools.pop(call, None)) is not None:
                    ran.set_attribute(names.ERROR_TYPE, code)
                    self._end_span(ran, at.now, code)
                if self._content:
                    task.messages.append(rows.format_tool_response(call, message, patterns))
            case _:
                pass

    def _open_stretch(self, at: Moment) -> trace.Span:
        """Return the open `invoke_agent` span, started by this event where none is open.

        What a person says ends a wait, so the span begins with it; anything else was under way since the last event.
        """
        view, task, event = at.view, at.task, at.event
        if task.stretch is not None:
            return task.stretch
        over, first = view.find_parent_span(), task.first
        self._ids.trace = views.derive_id(128, view.identity, task.number, 0 if first is None else event.seq)
        about: Attributes = {names.OPERATION: names.INVOKE_AGENT, names.AGENT: AGENT, names.AGENT_VERSION: __version__}
        about |= {names.CONVERSATION: view.name, names.PROVIDER: self._provider, names.REQUEST_MODEL: view.model}
        about |= {names.TASK: task.number, names.DEPTH: task.depth, names.POLICY: event.policy}
        if self._content and view.user:
            about[names.USER] = view.user
        links = [] if first is None else [trace.Link(first)]
        begins = isinstance(event.body, (event_body.TaskStarted, event_body.UserMessage, NeedAnswered))
        start = at.now if begins else view.last
        task.stretch = self._start_span(at, f"{names.INVOKE_AGENT} {AGENT}", start, over, attributes=about, links=links)
        task.first = first or task.stretch.get_span_context()
        return task.stretch

    def _open_prelude(self, at: Moment) -> trace.Span:
        """Return the open `prelude` span of the response in hand; it begins with the response."""
        task = at.task
        if task.prelude is None:
            start = at.now if task.responded is None else task.responded
            task.prelude = self._start_span(at, names.PRELUDE, start, self._open_stretch(at))
        return task.prelude

    def _apply_response(self, at: Moment, body: ModelResponded) -> None:
        task, stretch = at.task, self._open_stretch(at)
        arguments = {call.id: call.arguments for call in body.calls} if self._content else {}
        if body.places is not None or body.continues is not None:
            # Calls of a plan, or a further stage: nobody was asked for them.
            task.responded = task.judging = at.now
            task.arguments |= arguments
            return
        about = rows.build_response_attributes(body)
        if self._content:
            about[names.INPUT_MESSAGES] = rows.encode_messages(task.messages)
            about[names.OUTPUT_MESSAGES] = rows.encode_messages([rows.format_response(body, at.view.patterns)])
            task.messages.clear()
            task.arguments = arguments
        self._record_request(at, stretch, "chat", body.usage.usage, about)
        task.responded = task.judging = at.now if body.calls else None
        task.spent = 0

    def _record_request(self, at: Moment, parent: trace.Span, purpose: str, usage: Usage, about: Attributes) -> None:
        """Tell of a request whose answer is this event; it was made when the session's last event had been recorded."""
        view, event, record = at.view, at.event, self._instruments.record
        key = {names.OPERATION: names.CHAT, names.PROVIDER: self._provider, names.REQUEST_MODEL: view.model}
        counts: Attributes = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
        told: Attributes = {**key, **counts, **about, names.PURPOSE: purpose}
        told |= {names.EVENT: event.seq, names.CONVERSATION: view.name}
        asks = {"attributes": told, "kind": trace.SpanKind.CLIENT}
        span = self._start_span(at, f"{names.CHAT} {view.model}", view.last, parent, **asks)
        failure = str(about.get(names.ERROR_TYPE) or "")
        self._end_span(span, at.now, failure)
        if failure:
            key[names.ERROR_TYPE] = failure
        record(names.OPERATION_DURATION, (at.now - view.last) / views.NANOSECONDS, key)
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count:
                record(names.TOKEN_USAGE, count, {**key, names.TOKEN_TYPE: kind})

    def _apply_answer(self, at: Moment, body: NeedAnswered) -> None:
        answer, prelude, task = body.answer, self._open_prelude(at), at.task
        if answer.who == "person":
            choice = rows.limit_to(answer.choice, rows.CHOICES) if answer.value else "none"
            about = {names.GATE: answer.gate, names.CHOICE: choice}
            waited = max(0, at.now - task.asked) / views.NANOSECONDS
            who = {names.USER: body.by.user} if self._content and body.by is not None else {}
            prelude.add_event(names.APPROVAL, {**about, **who, names.WAITED: waited}, at.now)
            self._instruments.count(names.APPROVALS, about)
        else:
            told: Attributes = {} if answer.value is not None else {names.ERROR_TYPE: "unusable_answer"}
            if self._content and answer.value is not None:
                text = rows.mask_and_cut(answer.value, at.view.patterns)
                told[names.OUTPUT_MESSAGES] = rows.encode_messages([rows.format_words("assistant", text, ())])
            purpose = "plan" if answer.who == "planner" else "critique"
            self._record_request(at, prelude, purpose, body.usage or Usage(), told)
        task.judging = at.now if task.responded is not None else None

    def _apply_judgement(self, at: Moment, body: TurnJudged) -> None:
        turn, task, event, patterns = body.turn, at.task, at.event, at.view.patterns
        standings = [verdict.standing for verdict in body.judgement.verdicts]
        if turn.actor == "model":
            span = self._open_prelude(at)
            if task.judging is not None:
                task.pause_judging(at.now)
                self._instruments.record(names.PRELUDE_DURATION, task.spent / views.NANOSECONDS)
            task.prelude = task.responded = None
            task.holds += standings.count(Standing.HOLD)
        else:
            span = self._start_span(at, names.PRELUDE, at.view.last, self._open_stretch(at))
            if self._content:
                task.arguments |= {call.id: call.arguments for call in turn.proposed or ()}
        about: Attributes = {names.TURN: turn.turn, names.ACTOR: turn.actor, names.EVENT: event.seq}
        strictest = max(standings, default=Standing.ALLOW).value
        span.set_attributes({**about, names.POLICY: event.policy, names.RULING: strictest})
        for point in read_decisions([event]):
            told = rows.build_decision_attributes(point, event.policy, at.view.tools)
            if self._content:
                said = {names.SUMMARY: point.summary, names.TARGET: point.target}
                told |= {name: rows.mask_and_cut(text, patterns) for name, text in said.items() if text}
            span.add_event(names.DECISION, told, at.now)
            self._instruments.count(names.DECISIONS, rows.build_verdict_attributes(point))
        span.end(at.now)

    def _start_tool(
        self, at: Moment, body: event_body.ToolStarted | event_body.ToolFinished | event_body.OutcomeUnknown
    ) -> trace.Span:
        tool, patterns = rows.limit_to(body.tool, at.view.tools), at.view.patterns
        about: Attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: tool, names.TOOL_TYPE: "function"}
        about |= {names.TOOL_CALL: body.call, names.CONVERSATION: at.view.name, names.EVENT: at.event.seq}
        if isinstance(body, event_body.ToolStarted):
            about[names.JUDGED] = body.permit.judged
            about[names.EFFECT], about[names.SIDE_EFFECT] = body.effect.value, body.side_effect
        if self._content:
            about[names.TARGET] = rows.mask_and_cut(body.target, patterns)
            about[names.TOOL_ARGUMENTS] = rows.format_arguments(at.task.arguments.get(body.call, ""), patterns)
        name, stretch = f"{names.EXECUTE_TOOL} {tool}", self._open_stretch(at)
        return self._start_span(at, name, at.now, stretch, attributes=about)

    def _finish_tool(self, at: Moment, body: event_body.ToolFinished | event_body.OutcomeUnknown) -> None:
        """End the span of a call; one that another process started is told of by the event that parks it."""
        task, patterns = at.task, at.view.patterns
        span = task.tools.pop(body.call, None) or self._start_tool(at, body)
        if isinstance(body, event_body.OutcomeUnknown):
            text, failure, early = body.reason, "outcome_unknown", False
        else:
            failure = "" if body.ok else rows.limit_to(body.error, rows.TOOL_ERRORS)
            text, early = body.content, body.early
        if failure:
            span.set_attribute(names.ERROR_TYPE, failure)
        if self._content:
            span.set_attribute(names.TOOL_RESULT, rows.mask_and_cut(text, patterns))
            if not early:
                task.messages.append(rows.format_tool_response(body.call, text, patterns))
        self._end_span(span, at.now, failure)
        if isinstance(body, event_body.ToolFinished):
            about = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: rows.limit_to(body.tool, at.view.tools)}
            failed = {names.ERROR_TYPE: failure} if failure else {}
            self._instruments.record(names.TOOL_DURATION, body.duration / 1000, {**about, **failed})

    def _end_task(self, at: Moment, body: event_body.TaskEnded) -> None:
        self._open_stretch(at)
        told, failure = rows.build_task_end_attributes(body, at.task.holds), ""
        if body.status == "failed":
            told[names.ERROR_TYPE] = failure = body.status
        self._end_stretch(at, told, body.text, failure)
        self._instruments.record(names.TASK_HOLDS, at.task.holds, {names.STATUS: body.status})
        at.view.task = None

    def _end_stretch(self, at: Moment, told: Attributes, text: str | None, failure: str = "") -> None:
        """End everything of the stretch that is open, with the words said last: the task pauses, or is over."""
        task = at.task
        if self._content and text is not None:
            said = rows.format_words("assistant", text, at.view.patterns)
            told[names.OUTPUT_MESSAGES] = rows.encode_messages([said])
        for span in (*task.tools.values(), *([task.prelude] if task.prelude is not None else [])):
            self._end_span(span, at.now, "")
        if task.stretch is not None:
            task.stretch.set_attributes(told)
            self._end_span(task.stretch, at.now, failure)
        task.stretch = task.prelude = task.responded = task.judging = None
        task.tools.clear()

    def _start_span(self, at: Moment, name: str, start: int, parent: trace.Span | None, **more: Any) -> trace.Span:
        """Start a span whose number follows from the event and the name; under no `parent` it begins a trace."""
        if parent is not None:
            self._ids.trace = parent.get_span_context().trace_id
        self._ids.span = views.derive_id(64, at.view.identity, self._ids.trace, at.event.seq, name)
        if self._instruments.muted:
            return trace.NonRecordingSpan(trace.SpanContext(self._ids.trace, self._ids.span, False, _SAMPLED))
        context = Context() if parent is None else trace.set_span_in_context(parent, Context())
        return self._tracer.start_span(name, context, start_time=start, **more)

    @staticmethod
    def _end_span(span: trace.Span, now: int, failure: str) -> None:
        if failure:
            span.set_status(trace.Status(trace.StatusCode.ERROR))
        span.end(now)
