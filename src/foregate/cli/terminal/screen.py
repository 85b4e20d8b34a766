"""The output half of a terminal: streamed text, a line per ruling, a spinner while something works.

What an event says is made into lines by pure functions, so that a screen and a test read the same.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from foregate.cli.terminal.layout import (
    BAD,
    CARE,
    GOOD,
    BarredText,
    format_barred,
    format_hanging,
    format_labelled,
    pluralise,
    shorten_text,
)
from foregate.evidence.state.conversation import CAME
from foregate.schemas.event import Actor, Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    ContextCompressed,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    SandboxEnded,
    TaskEnded,
    TaskPaused,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.judgement import Decision, Standing
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.sandbox import describe_counts
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

if TYPE_CHECKING:
    from rich.progress import Progress

    from foregate.agent.session.result import RunResult
    from foregate.telemetry.audit.decisions import DecisionPoint

QUIET = ("prelude_ready_for_execution", "critique_not_required", "verification_passed", "approval_granted")
"""Codes of gates that let everything pass, beside `<gate>_passed`: nobody needs a line for them."""
_WORD = {
    Standing.ALLOW: ("passed", "dim"),
    Standing.ASK: ("asks", CARE),
    Standing.HOLD: ("held", CARE),
    Standing.DENY: ("denied", BAD),
}
_HEAD = 7
LONGEST = 320
"""Characters of a row's text that are shown; the log has all of it."""


def format_event(event: Event, width: int, counts: Mapping[str, int] | None = None) -> list[Text]:
    """Return the lines to show for `event`, none for most kinds; each fits in `width` columns unless width is 0.

    `counts` are the paths that a finished call had changed in its sandbox, by effect.
    """
    match event.body:
        case TurnJudged(judgement=judgement):
            shown = filter(is_notable, judgement.decisions)
            return [row for decision in shown for row in format_ruling(decision, width)]
        case ToolFinished() as body:
            return format_run(body, event.actor, width, counts or {})
        case CallAnswered(ruling="not_run") as body:
            return format_row("not run", CARE, f"{_name_call(body.tool, body.target)}: {body.message}", width)
        case OutcomeUnknown() as body:
            what = _name_call(body.tool, body.target)
            return format_row("unknown", BAD, f"{what}: nobody can say whether it took effect ({body.reason})", width)
        case ContextCompressed() as body:
            row = format_line("context", "", f"{describe_compression(body)}; /history has all of it", width)
            row.stylize("dim")
            return [row]
        case OutcomeResolved() as body:
            return format_row("settled", GOOD, f"{_name_call(body.tool, body.target)}: it {CAME[body.outcome]}", width)
        case EffectUndone() as body:
            return format_row("undone", GOOD, f"{body.tool} {', '.join(body.resources)}", width)
        case _:
            return []


def describe_compression(body: ContextCompressed) -> str:
    """Return what the model is not sent any more."""
    gone, cut = sum(end - start for start, end in body.left_out), len(body.shortened)
    told = [f"{pluralise(gone, 'older message')} left out"] if gone else []
    told += [f"{pluralise(cut, 'long answer')} shortened"] if cut else []
    return f"for the model {' and '.join(told)}"


def is_notable(decision: Decision | DecisionPoint) -> bool:
    """Whether a decision deserves a line: everything but a pass."""
    return not (decision.code.endswith("_passed") or decision.code in QUIET) or decision.consequence is not None


def format_ruling(decision: Decision, width: int) -> list[Text]:
    """Return how a decision stands: gate, code and call, and why on a line of its own where one is too short for what
    was not accepted."""
    standing = max((r.standing for r in decision.rulings), default=Standing.ALLOW)
    word, colour = _WORD[standing]
    if decision.mode == "shadow":
        word, colour = "shadow", "dim"
    elif standing is Standing.ALLOW and decision.consequence:
        word, colour = _WORD[Standing.ASK]
    where, head = _name_call(decision.tool, decision.target), f"{decision.gate}: {decision.code}"
    why = decision.summary or (decision.consequence.question if decision.consequence else "")
    if not why.startswith(where):
        why = f"{where}: {why}" if why else where
    whole = f"{head}, {why}" if why else head
    if word == "passed" or not width or _HEAD + 3 + len(whole) <= width:
        return [format_line(word, colour, whole, width)]
    return [*format_row(word, colour, head, width), *format_row("", "", why, width)]


def format_run(body: ToolFinished, actor: Actor, width: int, counts: Mapping[str, int]) -> list[Text]:
    what = _name_call(body.tool, body.target)
    what += {"runner": " (looked at for the model)", "postlude": " (checked)"}.get(actor, "")
    what += f", {body.duration / 1000:.1f} s" if body.duration >= 1000 else ""
    changed = describe_counts(counts) if body.changes else ""
    if body.ok:
        return format_row("ran", GOOD, f"{what}: {changed}" if changed else what, width)
    what += f" ({changed})" if changed else ""
    return format_row("failed", BAD, f"{what}: {body.content.strip()}", width)


def format_row(word: str, colour: str, rest: str, width: int) -> list[Text]:
    """Return `  word    rest` cut to LONGEST characters, uncut on one line where width is 0. Further lines stand behind
    the word, so that nothing in them can pose as a row."""
    if not width:
        return [format_line(word, colour, rest, width)]
    text = rest.replace("\n", " ").strip()
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return list(format_labelled(word, text, width, label_style=colour, room=_HEAD))


def format_line(word: str, colour: str, rest: str, width: int) -> Text:
    """Return `  word    rest`, made visible and cut to `width`."""
    text = Text("  ").append(f"{word:<{_HEAD}} ", style=colour)
    return text.append(shorten_text(rest, max(1, width - len(text)) if width else 0))


def _name_call(tool: str, target: str) -> str:
    return f"{tool} {target}".strip()


LONGEST_PART = 200
"""Characters of a target or a reason that are shown; what runs is shown whole where it is asked about."""
SHORT = 40
"""Characters up to which a text a call carries stands there itself, and not its size."""
MOST = 100
"""Calls that are listed; further ones are counted."""


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
    return f"{what} ({_cut_text(carried)})" if carried else what


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

    def __init__(self, console: Console, *, narrate: bool = True) -> None:
        self.console, self.narrate = console, narrate
        self.specs: Mapping[str, ToolSpec] | None = None
        """The tools, where calls are written into a text and what was found in it is listed first."""
        self._spinner: Progress | None = None
        self._counts: dict[str, Mapping[str, int]] = {}
        """What calls have changed in their sandboxes, by call, until they are answered."""
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
        if isinstance(body := event.body, ModelResponded):
            if not self._end_text() and self.narrate:
                self.show(body.text)
            if body.continues is None and self.specs is not None:
                self.rows(format_detected_calls(restore_sent_response(body), self.specs, self.console.width))
        self.show_results_answer(event)
        if isinstance(body, SandboxEnded):
            self._counts[body.call] = body.counts
        counts = self._counts.pop(body.call, None) if isinstance(body, (ToolFinished, CallAnswered)) else None
        self.rows(format_event(event, self.console.width, counts))
        match event.body:
            case ToolStarted(tool=tool, target=target):
                self.busy(f"{tool} {target}".strip())
            case NeedRaised(need=need) if need.who != "person":
                self.busy(need.who)
            case UserMessage() | ToolFinished() | CallAnswered() | NeedAnswered():
                self.busy("model")
            case TaskEnded() | TaskPaused():
                self.idle()

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
        for row in rows:
            self.say(row)

    def busy(self, what: str) -> None:
        """Show that `what` works, with the time it takes; nothing where the output is no terminal."""
        if not self.console.is_terminal or self.console.is_dumb_terminal or not sys.stdin.isatty():
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.idle()
        columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
        self._spinner = Progress(*columns, console=self.console, transient=True)
        self._spinner.add_task(shorten_text(what, max(20, self.console.width - 20)), total=None)
        self._spinner.start()

    def idle(self) -> None:
        """Take the spinner away, before anything else is written in its place."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


def restore_sent_response(body: ModelResponded) -> ModelResponse:
    """Return a response with all its calls, those of further stages too."""
    if (whole := body.program) is None:
        return body.response
    order = Block.from_json(whole.order) if whole.order is not None else body.response.order
    calls = tuple(recorded.call for recorded in whole.calls)
    return replace(body.response, calls=calls, deferred=whole.deferred, order=order)
