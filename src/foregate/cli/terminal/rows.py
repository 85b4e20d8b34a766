"""What an event says to a person, as lines of text; pure, so that a screen and a test read the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from foregate.cli.terminal.colours import BAD, CARE, GOOD
from foregate.cli.terminal.layout import format_labelled
from foregate.cli.terminal.visible import shorten_text
from foregate.evidence.state.conversation import CAME
from foregate.schemas.event import Actor, Event, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    ContextCompressed,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    ToolFinished,
)
from foregate.schemas.judgement import Decision, Standing

if TYPE_CHECKING:
    from foregate.telemetry.audit.decisions import DecisionPoint

QUIET = ("prelude_ready_for_execution", "critique_not_required", "verification_passed", "approval_granted")
"""Codes of gates that let everything pass, beside `<gate>_passed`: nobody needs a line for them."""

_WORD = {
    Standing.ALLOW: ("passed", GOOD),
    Standing.ASK: ("asks", CARE),
    Standing.HOLD: ("held", CARE),
    Standing.DENY: ("denied", BAD),
}
_INDENT = "  "
_HEAD = 7
LONGEST = 320
"""Characters of a row's text that are shown; the log has all of it."""


def format_event(event: Event, width: int) -> list[Text]:
    """Return the lines to show for `event`, none for most kinds; each fits in `width` columns unless width is 0."""
    match event.body:
        case TurnJudged(judgement=judgement):
            shown = filter(is_notable, judgement.decisions)
            return [row for decision in shown for row in format_ruling(decision, width)]
        case ToolFinished() as body:
            return format_run(body, event.actor, width)
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
    told = [f"{gone} older message{'s' if gone != 1 else ''} left out"] if gone else []
    told += [f"{cut} long answer{'s' if cut != 1 else ''} shortened"] if cut else []
    return f"for the model {' and '.join(told)}"


def is_notable(decision: Decision | DecisionPoint) -> bool:
    """Whether a decision deserves a line: everything but a pass."""
    return not (decision.code.endswith("_passed") or decision.code in QUIET) or decision.consequence is not None


def format_ruling(decision: Decision, width: int) -> list[Text]:
    """Return how a decision stands: gate, code and call on a line, and why; below it where one line is too short.

    What was accepted takes one line in any case.
    """
    standing = max((r.standing for r in decision.rulings), default=Standing.ALLOW)
    word, colour = _WORD[standing]
    if decision.mode == "shadow":
        word, colour = "shadow", "dim"
    elif standing is Standing.ALLOW:
        word, colour = ("asks", CARE) if decision.consequence else ("passed", "dim")
    where = _name_call(decision.tool, decision.target)
    head = f"{decision.gate}: {decision.code}"
    why = decision.summary or (decision.consequence.question if decision.consequence else "")
    why = ": ".join(part for part in (where if not why.startswith(where) else "", why) if part)
    whole = f"{head}, {why}" if why else head
    accepted = word == "passed"
    if accepted or not width or len(_INDENT) + _HEAD + 1 + len(whole) <= width:
        return [format_line(word, colour, whole, width)]
    return [*format_row(word, colour, head, width), *format_row("", "", why, width)]


def format_run(body: ToolFinished, actor: Actor, width: int) -> list[Text]:
    """Return what a call that ran has to show for it; `actor` made it."""
    what = _name_call(body.tool, body.target)
    note = {"runner": " (looked at for the model)", "postlude": " (checked)"}.get(actor, "")
    seconds = f", {body.duration / 1000:.1f} s" if body.duration >= 1000 else ""
    if body.ok:
        return format_row("ran", GOOD, f"{what}{note}{seconds}", width)
    return format_row("failed", BAD, f"{what}{note}{seconds}: {body.content.strip()}", width)


def format_row(word: str, colour: str, rest: str, width: int) -> list[Text]:
    """Return `  word    rest` in as many lines as it takes, cut to LONGEST characters; on one, uncut, where width is 0.

    Further lines stand behind the word, so that nothing in them can pose as a row.
    """
    if not width:
        return [format_line(word, colour, rest, width)]
    text = rest.replace("\n", " ").strip()
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return list(format_labelled(word, text, width, label_style=colour, room=_HEAD))


def format_line(word: str, colour: str, rest: str, width: int) -> Text:
    """Return `  word    rest`, made visible and cut to `width`."""
    text = Text(_INDENT)
    text.append(f"{word:<{_HEAD}} ", style=colour)
    return text.append(shorten_text(rest, max(1, width - len(text)) if width else 0))


def _name_call(tool: str, target: str) -> str:
    return f"{tool} {target}".strip()
