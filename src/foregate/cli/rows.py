"""What an event says to a person, as lines of text; pure, so that a screen and a test read the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from foregate.cli.visible import shortened
from foregate.schemas import codec
from foregate.schemas.decision import Decision
from foregate.schemas.event import Event
from foregate.schemas.ruling import Standing

if TYPE_CHECKING:
    from foregate.telemetry.decisions import DecisionPoint

QUIET = ("prelude_ready_for_execution", "critique_not_required", "verification_passed", "approval_granted")
"""Codes of gates that let everything pass, beside `<gate>_passed`: nobody needs a line for them."""

_WORD = {
    Standing.ALLOW: ("passed", "green"),
    Standing.ASK: ("asks", "yellow"),
    Standing.HOLD: ("held", "yellow"),
    Standing.DENY: ("denied", "red"),
}
_INDENT = "  "
_HEAD = 7


def rows(event: Event, width: int) -> list[Text]:
    """Return the lines to show for `event`, none for most kinds; each fits in `width` columns unless width is 0."""
    body = event.body
    match event.kind:
        case "turn_judged":
            decisions = [codec.load(Decision, data) for data in body["judgement"]["decisions"]]
            return [row for decision in decisions if notable(decision) for row in ruling(decision, width)]
        case "tool_finished":
            return [ran(event, width)]
        case "call_answered" if body["ruling"] == "not_run":
            what = _call(body["tool"], body["target"])
            return [line("not run", "yellow", f"{what}: {body['message']}", width)]
        case "outcome_unknown":
            what = _call(body["tool"], body["target"])
            return [line("unknown", "red", f"{what}: nobody can say whether it took effect ({body['reason']})", width)]
        case "effect_undone":
            return [line("undone", "green", f"{body['tool']} {', '.join(body['resources'])}", width)]
    return []


def notable(decision: Decision | DecisionPoint) -> bool:
    """Whether a decision deserves a line: everything but a pass."""
    return not (decision.code.endswith("_passed") or decision.code in QUIET) or decision.consequence is not None


def ruling(decision: Decision, width: int) -> list[Text]:
    """Return how a decision stands: gate, code and call on a line, and why; on a second line where one is too short.

    What was accepted takes one line in any case.
    """
    standing = max((r.standing for r in decision.rulings), default=Standing.ALLOW)
    word, colour = _WORD[standing]
    if decision.mode == "shadow":
        word, colour = "shadow", "dim"
    elif standing is Standing.ALLOW:
        word, colour = ("asks", "yellow") if decision.consequence else ("passed", "dim")
    where = _call(decision.tool, decision.target)
    head = f"{decision.gate}: {decision.code}"
    why = decision.summary or (decision.consequence.question if decision.consequence else "")
    why = ": ".join(part for part in (where if not why.startswith(where) else "", why) if part)
    whole = f"{head}, {why}" if why else head
    accepted = word == "passed"
    if accepted or not width or len(_INDENT) + _HEAD + 1 + len(whole) <= width:
        return [line(word, colour, whole, width)]
    return [line(word, colour, head, width), line("", "", why, width)]


def ran(event: Event, width: int) -> Text:
    """Return the line of a call that ran."""
    body = event.body
    what = _call(body["tool"], body["target"])
    note = {"runner": " (looked at for the model)", "postlude": " (checked)"}.get(event.actor, "")
    seconds = f", {body['duration'] / 1000:.1f} s" if body["duration"] >= 1000 else ""
    if body["ok"]:
        return line("ran", "green", f"{what}{note}{seconds}", width)
    return line("failed", "red", f"{what}{note}{seconds}: {body['content'].strip()}", width)


def line(word: str, colour: str, rest: str, width: int) -> Text:
    """Return `  word    rest`, made visible and cut to `width`."""
    text = Text(_INDENT)
    text.append(f"{word:<{_HEAD}} ", style=colour)
    return text.append(shortened(rest, max(1, width - len(text)) if width else 0))


def _call(tool: str, target: str) -> str:
    return f"{tool} {target}".strip()
