"""The output half of a terminal: streamed text, a line per ruling, a spinner while something works."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from foregate.agent.loop.changes_made import ChangesMade
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    SandboxEnded,
    TaskEnded,
    TaskPaused,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.sandbox import describe_counts
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect, ToolSpec
from foregate.views.terminal.event_rows import LINES, format_end, format_event, read_output
from foregate.views.terminal.layout import CARE, BarredText, format_hanging, format_labelled, pluralise, shorten_text
from foregate.views.terminal.made import describe_made, format_made
from foregate.views.terminal.task_work import Hints, TaskWork, format_work, is_told

if TYPE_CHECKING:
    from rich.progress import Progress

    from foregate.agent.session.result import RunResult
    from foregate.views.terminal.markdown import MarkdownText
    from foregate.views.terminal.waiting import WaitingLine


LONGEST_PART = 200
"""Characters of a target or a reason that are shown; what runs is shown whole where it is asked about."""
SHORT = 40
"""Characters up to which a text a call carries stands there itself, and not its size."""
_DOES = {Effect.OBSERVATION: "reads", Effect.UNKNOWN: "could do anything"}
"""What is said of an effect that its own word does not say."""
MOST = 100
"""Calls that are listed; further ones are counted."""
_STAGES = {"model": "waiting for the model", "planner": "asking the planner", "critic": "asking the critic"}
"""What is said of those who are asked, while they work."""
_KEY = "Ctrl-C stops it"
_SHORT = 60
"""Characters of a reason that may be said twice."""
_NARROW = 60
"""Columns up to which there is room for what works and the time alone."""


def format_detected_calls(response: ModelResponse, specs: Mapping[str, ToolSpec], width: int) -> Iterator[Text]:
    """Yield the lines that list the calls of a text, none for a response without such.

    One call a row: number, tool, target and what else it carries, or the size of that; one that cannot be read says
    why. Below stands the order the model asked for, where it asked for one.
    """
    if not any(call.wire_id in ("", call.id) for call in response.calls):
        return
    count, broken = len(response.calls), sum(call.arguments is None for call in response.calls)
    unread = f", {broken} of them cannot be read" if broken else ""
    yield from format_labelled("detected", f"{pluralise(count, 'call')} in the text{unread}", width, "bold")
    for number, call in enumerate(response.calls[:MOST], start=1):
        what = _describe_call(call, specs.get(call.name))
        what += ", with results of calls before it" if number - 1 in response.deferred else ""
        yield from format_labelled(str(number), what, width, "" if call.arguments is not None else CARE)
    if count > MOST:
        yield from format_labelled("", f"and {count - MOST} more", width, CARE)
    if response.order is not None:
        yield from format_labelled("order", _cut_text(describe_order(response.order)), width)


def _describe_call(call: ToolCall, spec: ToolSpec | None) -> str:
    """Return a call on a line: its tool, what it is about, and what text it carries; or why it cannot be read."""
    if call.arguments is None:
        return f"{_cut_text(call.name)} cannot be read: {_cut_text(call.defect)}"
    about = [target.parameter for target in spec.targets] if spec is not None else []
    shown = [name for name in dict.fromkeys((*about, "argv")) if name in call.arguments]
    target = " ".join(_join_words(call.arguments[name]) for name in shown)
    carried = ", ".join(
        f"{name}: {value}" if len(value) <= SHORT and value.isprintable() else f"{name}: {len(value)} characters"
        for name, value in call.arguments.items()
        if isinstance(value, str) and name not in shown
    )
    what = f"{_cut_text(call.name)} {_cut_text(target)}".rstrip()
    does = _DOES.get(spec.effect, spec.effect.value) if spec is not None else ""
    more = ", ".join(filter(None, (does, _cut_text(carried))))
    return f"{what} ({more})" if more else what


def describe_texts(call: ToolCall, target: str) -> str:
    """Return the short texts a call carries beside its target, such as what it searches for; "" for none."""
    carried = [
        f"{name}: {value}"
        for name, value in (call.arguments or {}).items()
        if isinstance(value, str) and 0 < len(value) <= SHORT and value.isprintable() and value not in target
    ]
    return f" ({', '.join(carried)})" if carried else ""


def describe_order(block: Block, *, inside: bool = False) -> str:
    """Return the order of calls as a sentence names it, by their numbers from 1."""
    parts = [str(item + 1) if isinstance(item, int) else describe_order(item, inside=True) for item in block.items]
    if len(parts) < 2:
        return "".join(parts)
    words = " and ".join(parts) + " together" if block.kind == "parallel" else ", then ".join(parts)
    return f"({words})" if inside else words


def _join_words(value: object) -> str:
    if isinstance(value, list):
        return shlex.join(str(part) for part in value)
    return value if isinstance(value, str) else ""


def _cut_text(text: str) -> str:
    return text if len(text) <= LONGEST_PART else f"{text[:LONGEST_PART]}…"


class Screen:
    """Shows a session on a console. Nothing a model, tool or file says is read as markup or obeyed by the terminal."""

    def __init__(self, console: Console, waiting: WaitingLine | None = None, *, narrate: bool = True) -> None:
        self.console, self.waiting, self.narrate = console, waiting, narrate
        self.specs: Mapping[str, ToolSpec] | None = None
        """The tools, where calls are written into a text and what was found in it is listed first."""
        self._spinner: Progress | None = None
        self.find_changes: Callable[[ToolFinished], ChangesMade] | None = None
        """What reads the changes of a call again; without it none is shown."""
        self.hints = Hints()
        self.currency = ""
        """What a cost is counted in."""
        self.work = TaskWork()
        self.has_told_end = False
        """Whether somebody has said already how the task ended."""
        self._counts: dict[str, Mapping[str, int]] = {}
        """What calls have changed in their sandboxes, by call, until they are answered."""
        self._asked: tuple[str, ...] = ()
        self._approved: set[str] = set()
        """Calls whose sheet has shown a difference already."""
        self._calls: dict[str, ToolCall] = {}
        """The calls of the last response."""
        self._reasons: set[str] = set()
        """Why calls of the task did not run, as far as it was shown."""
        self._looks: set[str] = set()
        """Those of them that only look at something."""
        self._flow = _build_flow(console)
        self._has_streamed = self._has_warned = False

    def say(self, content: str | Text = "", style: str = "") -> None:
        """Print a line of ours; text that is not ours goes through `show`."""
        self._end_text()
        self.console.print(Text(content, style=style) if isinstance(content, str) else content, soft_wrap=False)

    def show(self, content: str) -> None:
        """Print text of a model, behind bars."""
        if content.strip():
            self._end_text()
            flow = _build_flow(self.console)
            self._write(flow.feed(content).append_text(flow.end()))
            self._has_streamed = False

    def row(self, content: str, style: str = "") -> None:
        """Print a line of ours that holds words that are not: whatever they hold, it begins nothing new."""
        self.rows(format_hanging(content, self.console.width, style))

    def show_event(self, event: Event) -> None:
        """Show what an event says; a listener of the session. An early look is shown with the call it answers."""
        if isinstance(event.body, (TurnJudged, ToolStarted, ToolFinished)) and event.body.early:
            return
        if isinstance(body := event.body, ModelResponded):
            if not self._end_text() and self.narrate:
                self.show(body.text)
            response = restore_sent_response(body)
            self._calls, self._looks = {call.id: call for call in response.calls}, set()
            if body.continues is None and self.specs is not None:
                self.rows(format_detected_calls(response, self.specs, self.console.width))
        self.show_results_answer(event)
        if isinstance(body, SandboxEnded):
            self._counts[body.call] = body.counts
        counts = self._counts.pop(body.call, {}) if isinstance(body, (ToolFinished, CallAnswered)) else {}
        if isinstance(body, ToolFinished):
            self._show_run(event, body, counts)
        else:
            self.rows(format_event(self._shorten_known(event), self.console.width))
            self.work.add(body)
        match event.body:
            case ToolStarted(tool=tool, target=target, effect=effect, call=call) as body:
                self._warn_unheld(body)
                self._looks |= {call} if effect is Effect.OBSERVATION else set()
                self.busy(f"{tool} {target}".strip())
            case NeedRaised(need=need) if need.who != "person":
                self.busy(need.who)
            case NeedRaised(need=need) if need.gate == "approval":
                self._asked = need.calls
            case UserMessage() | ToolFinished() | CallAnswered() | NeedAnswered() as body:
                if isinstance(body, NeedAnswered) and body.answer.gate == "approval":
                    self._approved.update(self._asked)
                self.busy("model")
            case TaskStarted():
                self.work, self._reasons = TaskWork(), set()
            case TaskEnded() | TaskPaused():
                self.idle()

    def _warn_unheld(self, started: ToolStarted) -> None:
        """Say once that nothing holds the commands of a session, which then do what their words do outside of it."""
        if started.confinement == "none" and started.effect.changes and not self._has_warned:
            self._has_warned = True
            self.row("No sandbox holds this command: it runs as you do. `foregate doctor` says why.", CARE)

    def _shorten_known(self, event: Event) -> Event:
        """Return a judgement without the reasons that were shown before: a model that tries again is told them again,
        and a person need not be."""
        if not isinstance(body := event.body, TurnJudged):
            return event
        shown = []
        for one in body.judgement.decisions:
            is_known = len(one.summary) > _SHORT and one.summary in self._reasons
            self._reasons.add(one.summary)
            shown.append(replace(one, summary="as before") if is_known else one)
        return replace(event, body=replace(body, judgement=replace(body.judgement, decisions=tuple(shown))))

    def _show_run(self, event: Event, body: ToolFinished, counts: Mapping[str, int]) -> None:
        """Show a call that ended: what it changed, unless its sheet has shown that, and the end of what it said."""
        made = self.find_changes(body) if self.find_changes is not None and body.changes else None
        much = describe_made(made) if made is not None else describe_counts(counts) if body.changes else ""
        width = self.console.width
        self.work.add(body, made)
        call = self._calls.get(body.call) if body.call in self._looks and body.exit_code is None else None
        about = describe_texts(call, body.target) if call is not None else ""
        self.rows(format_event(event, width, much, about))
        if body.ok and body.exit_code is not None:
            self.rows(format_end(read_output(body), width, LINES))
        if made is not None and body.call not in self._approved:
            self.rows(format_made(made, width, self.hints.show.format(call=body.call)))

    def show_results_answer(self, event: Event) -> None:
        """Show what the planning model says to a plan's results; a listener where nothing else is shown."""
        if isinstance(event.body, NeedAnswered) and event.body.answer.gate == "plan_results" and self.narrate:
            self.idle()
            self.show(get_text(event.body.answer.value or {}, "answer", ""))

    def stream(self, piece: str) -> None:
        """Show a piece of the model's text as it arrives, broken at words."""
        if self.narrate:
            self._flow.set_width(self.console.width)
            self._write(self._flow.feed(piece))

    def _write(self, text: Text) -> None:
        if text:
            self._has_streamed = True
            if not text.plain.endswith("\n"):
                self.idle()
            self.console.print(text, end="", soft_wrap=True)

    def _end_text(self) -> bool:
        """End a text that streams; whether there was one."""
        self._flow.set_width(self.console.width)
        self._write(self._flow.end())
        streamed, self._has_streamed = self._has_streamed, False
        return streamed

    def show_question(self, question: str) -> None:
        """Print a question to the person that holds words of others."""
        self.rows(format_labelled("asks", question, self.console.width, "bold", label_style=CARE, room=7))

    def show_outcome(self, outcome: RunResult) -> None:
        """Show how a task ended; what the model said has been shown already."""
        self.idle()
        self.show_remark(outcome)
        self.show_report(outcome)
        self.show_work(outcome)

    def show_work(self, outcome: RunResult) -> None:
        """Sum up what the task did that has just ended, where there is more to say than its end has said."""
        if self._is_summed_up:
            self.work.forget_told(f"{outcome.remark} {outcome.report.blocker}")
            self.rows(format_work(self.work, self.console.width, self.hints.undo, self.currency))
        self.work, self.has_told_end = TaskWork(), False

    @property
    def _is_summed_up(self) -> bool:
        """Whether a summary follows, which need not be said twice."""
        return self.work.ended is not None and self.work.is_worth_a_summary

    def show_remark(self, outcome: RunResult) -> None:
        """Show what Foregate has to say in an answer, unless what blocks the task says it, or asks in its place."""
        if outcome.remark and not is_told(outcome.remark, outcome.report.blocker):
            self.row(outcome.remark, CARE)
        if outcome.status == "needs_input":
            self.show_question(outcome.text)

    def show_report(self, outcome: RunResult) -> None:
        """Show what is in the way of anything but an answer or a question."""
        if outcome.status in ("completed", "needs_input"):
            return
        report, width = outcome.report, self.console.width
        if self.has_told_end and not outcome.is_paused:
            self.rows(format_labelled("needs", report.need, width) if report.need else ())
            return
        if outcome.status == "cancelled":
            done = f"done before: {', '.join(report.done)}" if report.done else "no change was completed"
            self.rows(format_labelled("cancelled", done, width, label_style=CARE))
            return
        status = outcome.status.replace("_", " ")
        why = report.blocker or ("a call waits for an answer" if outcome.is_paused else "")
        self.rows(format_labelled(status, why, width, label_style=CARE, room=max(9, len(status))))
        done, then = "" if self._is_summed_up else ", ".join(report.done), report.next_step if outcome.is_paused else ""
        for label, value in (("done", done), ("needs", report.need), ("next", then)):
            if value:
                self.rows(format_labelled(label, value, width))

    def rows(self, rows: Iterable[Text]) -> None:
        for row in rows:
            self.say(row)

    def busy(self, what: str) -> None:
        """Show that `what` works, with the time it takes and the key that stops it; where the output is no terminal,
        only that a model is silent for long."""
        self.idle()
        waiting, stage = self.waiting, _STAGES.get(what, what)
        if what == "model" and waiting is not None:
            stage = f"waiting for {waiting.model}"
        if not self.console.is_terminal or self.console.is_dumb_terminal or not sys.stdin.isatty():
            if waiting is not None and what in _STAGES:
                waiting.begin(stage)
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        named, key = TextColumn("{task.description}", markup=False), TextColumn(_KEY, style="dim")
        columns = SpinnerColumn(), named, TimeElapsedColumn(), *([key] if self.console.width > _NARROW else [])
        self._spinner = Progress(*columns, console=self.console, transient=True)
        room = self.console.width - len(_KEY) - 14
        self._spinner.add_task(shorten_text(stage, max(20, room)), total=None)
        self._spinner.start()

    def tell_retry(self, told: str) -> None:
        """Say at once why a request to a model failed, and how long it is tried again."""
        if self.waiting is not None and self._spinner is None:
            self.waiting.tell_retry(told)
        else:
            self.row(told, CARE)

    def idle(self) -> None:
        """Take the spinner away, before anything else is written in its place."""
        if self.waiting is not None:
            self.waiting.end()
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


def _build_flow(console: Console) -> BarredText | MarkdownText:
    """Return what lays a model's text out: as Markdown at a terminal with styles, as it is written anywhere else."""
    if not console.is_terminal or console.is_dumb_terminal:
        return BarredText(console.width)
    from foregate.views.terminal.markdown import MarkdownText

    return MarkdownText(console.width)


def restore_sent_response(body: ModelResponded) -> ModelResponse:
    """Return a response with all its calls, those of further stages too."""
    if (whole := body.program) is None:
        return body.response
    order = Block.from_json(whole.order) if whole.order is not None else body.response.order
    calls = tuple(recorded.call for recorded in whole.calls)
    return replace(body.response, calls=calls, deferred=whole.deferred, order=order)
