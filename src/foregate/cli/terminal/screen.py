"""The output half of a terminal: streamed text, a line per ruling, a spinner while something works."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from foregate.cli.terminal.colours import CARE
from foregate.cli.terminal.detected import format_detected_calls
from foregate.cli.terminal.flow import BarredText, format_barred
from foregate.cli.terminal.layout import format_hanging, format_labelled
from foregate.cli.terminal.rows import format_event
from foregate.cli.terminal.visible import shorten_text
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import CallAnswered, TaskEnded, TaskPaused, ToolFinished, ToolStarted, UserMessage
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.strict_json import get_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from foregate.agent.session.result import RunResult
    from foregate.schemas.tool_spec import ToolSpec


class Screen:
    """Shows a session on a console. Nothing a model, tool or file says is read as markup or obeyed by the terminal."""

    def __init__(self, console: Console, *, narrate: bool = True) -> None:
        self.console = console
        self.narrate = narrate
        self.specs: Mapping[str, ToolSpec] | None = None
        """The tools, where calls are written into a text and what was found in it is listed first."""
        self._spinner: Progress | None = None
        self._flow = BarredText(console.width)

    def say(self, content: str | Text = "", style: str = "") -> None:
        """Print a line of ours; text that is not ours goes through `show`."""
        self._end_text()
        self.console.print(Text(content, style=style) if isinstance(content, str) else content, soft_wrap=False)

    def show(self, content: str) -> None:
        """Print text that is not ours, behind bars."""
        if content.strip():
            self.say(format_barred(content, self.console.width))

    def row(self, content: str, style: str = "") -> None:
        """Print a line of ours that holds words that are not: whatever they hold, it begins nothing new."""
        self.rows(format_hanging(content, self.console.width, style))

    def show_event(self, event: Event) -> None:
        """Show what an event says; a listener of the session. An early look is shown with the call it answers."""
        if isinstance(event.body, (TurnJudged, ToolStarted, ToolFinished)) and event.body.early:
            return
        if isinstance(event.body, ModelResponded):
            self._show_response(event.body)
        self.show_results_answer(event)
        self.rows(format_event(event, self.console.width))
        match event.body:
            case ToolStarted(tool=tool, target=target):
                self.busy(f"{tool} {target}".strip())
            case NeedRaised(need=need) if need.who != "person":
                self.busy(need.who)
            case UserMessage() | ToolFinished() | CallAnswered() | NeedAnswered():
                self.busy("model")
            case TaskEnded() | TaskPaused():
                self.idle()
            case _:
                pass

    def _show_response(self, body: ModelResponded) -> None:
        if not self._end_text() and self.narrate:
            self.show(body.text)
        if body.continues is None and self.specs is not None:
            self.rows(format_detected_calls(restore_sent_response(body), self.specs, self.console.width))

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
            self.idle()
            self.console.print(text, end="", soft_wrap=True)

    def _end_text(self) -> bool:
        """End a text that streams; whether there was one."""
        self._flow.set_width(self.console.width)
        rest = self._flow.end()
        self._write(rest)
        return bool(rest)

    def show_question(self, question: str) -> None:
        """Print a question to the person that holds words of others."""
        self.rows(format_labelled("asks", question, self.console.width, "bold", label_style=CARE, room=7))

    def show_outcome(self, outcome: RunResult) -> None:
        """Show how a task ended; what the model said has been shown already."""
        self.idle()
        self.show_remark(outcome)
        self.show_report(outcome)

    def show_remark(self, outcome: RunResult) -> None:
        """Show what Foregate has to say in an answer, or asks in its place."""
        if outcome.remark:
            self.row(outcome.remark, CARE)
        if outcome.status == "needs_input":
            self.show_question(outcome.text)

    def show_report(self, outcome: RunResult) -> None:
        """Show what is in the way of anything but an answer or a question."""
        if outcome.status in ("completed", "needs_input"):
            return
        report, width = outcome.report, self.console.width
        if outcome.status == "cancelled":
            done = f"done before: {', '.join(report.done)}" if report.done else "no change was completed"
            self.rows(format_labelled("cancelled", done, width, label_style=CARE))
            return
        status = outcome.status.replace("_", " ")
        why = report.blocker or ("a call waits for an answer" if outcome.is_paused else "")
        self.rows(format_labelled(status, why, width, label_style=CARE, room=max(9, len(status))))
        for label, value in (("done", ", ".join(report.done)), ("needs", report.need), ("next", report.next_step)):
            if value:
                self.rows(format_labelled(label, value, width))

    def rows(self, rows: Iterable[Text]) -> None:
        """Print rows."""
        for row in rows:
            self.say(row)

    def busy(self, what: str) -> None:
        """Show that `what` works, with the time it takes; nothing where the output is no terminal."""
        if not self.console.is_terminal or self.console.is_dumb_terminal or not sys.stdin.isatty():
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.idle()
        self._spinner = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self._spinner.add_task(shorten_text(what, max(20, self.console.width - 20)), total=None)
        self._spinner.start()

    def idle(self) -> None:
        """Take the spinner away, before anything else is written in its place."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


def restore_sent_response(body: ModelResponded) -> ModelResponse:
    """Return a response with all its calls, those of further stages too."""
    whole = body.program
    return (
        body.response
        if whole is None
        else replace(
            body.response,
            calls=tuple(recorded.call for recorded in whole.calls),
            deferred=whole.deferred,
            order=Block.from_json(whole.order) if whole.order is not None else body.response.order,
        )
    )
