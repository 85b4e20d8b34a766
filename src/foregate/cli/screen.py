"""The output half of a terminal: streamed text, a line per ruling, a spinner while something works."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from foregate.cli.colours import CARE
from foregate.cli.detected import detected
from foregate.cli.flow import Flow, barred
from foregate.cli.layout import hanging, labelled
from foregate.cli.rows import rows
from foregate.cli.visible import shortened
from foregate.schemas.event import Event
from foregate.schemas.model_response import ModelResponse

if TYPE_CHECKING:
    from rich.progress import Progress

    from foregate.agent.outcome import Outcome
    from foregate.schemas.tool_spec import ToolSpec

WORKING = {"user_message": "model", "tool_finished": "model", "call_answered": "model", "need_answered": "model"}
"""What is at work after an event of this kind."""


class Screen:
    """Shows a session on a console. Nothing a model, tool or file says is read as markup or obeyed by the terminal."""

    def __init__(self, console: Console, *, narrate: bool = True) -> None:
        self.console = console
        self.narrate = narrate
        self.specs: Mapping[str, ToolSpec] | None = None
        """The tools, where calls are written into a text and what was found in it is listed first."""
        self._spinner: Progress | None = None
        self._flow = Flow(console.width)

    def say(self, content: str | Text = "", style: str = "") -> None:
        """Print a line of ours; text that is not ours goes through `show`."""
        self._end_text()
        self.console.print(Text(content, style=style) if isinstance(content, str) else content, soft_wrap=False)

    def show(self, content: str) -> None:
        """Print text that is not ours, behind bars."""
        if content.strip():
            self.say(barred(content, self.console.width))

    def row(self, content: str, style: str = "") -> None:
        """Print a line of ours that holds words that are not: whatever they hold, it begins nothing new."""
        self.rows(hanging(content, self.console.width, style))

    def hear(self, event: Event) -> None:
        """Show what an event says; a listener of the session. An early look is shown with the call it answers."""
        if event.body.get("early"):
            return
        if event.kind == "model_response" and not self._end_text() and self.narrate:
            self.show(event.body["text"])
        if event.kind == "model_response" and "continues" not in event.body and self.specs is not None:
            whole = ModelResponse.from_json({**event.body, **event.body.get("program", {})})
            self.rows(detected(whole, self.specs, self.console.width))
        self.answered(event)
        self.rows(rows(event, self.console.width))
        if event.kind == "tool_started":
            self.busy(f"{event.body['tool']} {event.body['target']}".strip())
        elif event.kind == "need_raised" and event.body["need"]["who"] != "person":
            self.busy(event.body["need"]["who"])
        elif event.kind in WORKING:
            self.busy(WORKING[event.kind])
        elif event.kind in ("task_ended", "task_paused"):
            self.idle()

    def answered(self, event: Event) -> None:
        """Show what the planning model says to a plan's results; a listener where nothing else is shown."""
        if event.kind == "need_answered" and event.body["answer"]["gate"] == "plan_results" and self.narrate:
            self.idle()
            self.show((event.body["answer"].get("value") or {}).get("answer") or "")

    def stream(self, piece: str) -> None:
        """Show a piece of the model's text as it arrives, broken at words."""
        if self.narrate:
            self._flow.fit(self.console.width)
            self._write(self._flow.feed(piece))

    def _write(self, text: Text) -> None:
        if text:
            self.idle()
            self.console.print(text, end="", soft_wrap=True)

    def _end_text(self) -> bool:
        """End a text that streams; whether there was one."""
        self._flow.fit(self.console.width)
        rest = self._flow.end()
        self._write(rest)
        return bool(rest)

    def asks(self, question: str) -> None:
        """Print a question to the person that holds words of others."""
        self.rows(labelled("asks", question, self.console.width, "bold", label_style=CARE, room=7))

    def told(self, outcome: Outcome) -> None:
        """Show how a task ended; what the model said has been shown already."""
        self.idle()
        self.added(outcome)
        self.reported(outcome)

    def added(self, outcome: Outcome) -> None:
        """Show what Foregate has to say in an answer, or asks in its place."""
        if outcome.remark:
            self.row(outcome.remark, CARE)
        if outcome.status == "needs_input":
            self.asks(outcome.text)

    def reported(self, outcome: Outcome) -> None:
        """Show what is in the way of anything but an answer or a question."""
        if outcome.status in ("completed", "needs_input"):
            return
        report, width = outcome.report, self.console.width
        if outcome.status == "cancelled":
            done = f"done before: {', '.join(report.done)}" if report.done else "no change was completed"
            self.rows(labelled("cancelled", done, width, label_style=CARE))
            return
        status = outcome.status.replace("_", " ")
        why = report.blocker or ("a call waits for an answer" if outcome.paused else "")
        self.rows(labelled(status, why, width, label_style=CARE, room=max(9, len(status))))
        for label, value in (("done", ", ".join(report.done)), ("needs", report.need), ("next", report.next_step)):
            if value:
                self.rows(labelled(label, value, width))

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
        self._spinner.add_task(shortened(what, max(20, self.console.width - 20)), total=None)
        self._spinner.start()

    def idle(self) -> None:
        """Take the spinner away, before anything else is written in its place."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
