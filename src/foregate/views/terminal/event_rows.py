"""What a session's events say, as rows: pure functions, so that a screen and a test read the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.text import Text

from foregate.evidence.state.conversation import CAME
from foregate.schemas.event import Actor, Event, NeedAnswered, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    ContextCompressed,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    PolicyChanged,
    ToolFinished,
)
from foregate.schemas.judgement import Decision, Standing
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import get_text
from foregate.views.terminal.layout import (
    BAD,
    CARE,
    GOOD,
    chop_text,
    expand_tabs,
    format_labelled,
    pluralise,
    shorten_text,
)

if TYPE_CHECKING:
    from foregate.telemetry.queries.decisions import DecisionPoint


LINES = 4
"""Lines of a command's output that are shown where it ran."""
FAILED_LINES = 12
"""Lines of an output that are shown where it failed: the failure stands in the last."""
SHORT_OUTPUT = 320
"""Characters up to which the one line something failed with stands in its row."""
# "=== 3 passed in 0.12s ===", "Tests run: 3, Failures: 0".
_RESULTS = compile_late(
    # pytest
    r"=* ?(?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)(?:, )?)+ in [\d.]+ ?s.*"
    r"|no tests ran in [\d.]+ ?s"
    # Unittest.
    r"|(?:OK|FAILED)(?: \(.*\))?|Ran \d+ tests? in [\d.]+s"
    # Cargo.
    r"|test result: .*"
    # Go.
    r"|(?:ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\)).*"
    # Jest, vitest.
    r"|\s*(?:Tests|Test Suites|Test Files):?\s+\d.*"
    # Mocha.
    r"|\s*\d+ (?:passing|failing|pending)(?: \(.*\))?"
    # Node.
    r"|# (?:pass|fail) \d+"
    # Rspec.
    r"|\d+ examples?, \d+ failures?.*"
    # Maven, gradle.
    r"|(?:BUILD|Build) (?:SUCCESS|FAILURE|SUCCESSFUL|FAILED).*|Tests run: \d+, .*"
)
# "\x1b[31m": a program's colours are no part of what it says.
_COLOURS = compile_late(r"\x1b\[[0-9;]*m")
PASSES = ("prelude_ready_for_execution", "critique_not_required", "verification_passed")
"""Codes of gates that let everything pass, beside `<gate>_passed`: nobody needs a line for them."""
_WORD = {
    Standing.ALLOW: ("passed", "dim"),
    Standing.ASK: ("asks", CARE),
    Standing.HOLD: ("held", CARE),
    Standing.DENY: ("denied", BAD),
}
HEAD = 7
"""Columns of the word a row begins with."""
LONGEST = 320
"""Characters of a row's text that are shown; the log has all of it."""


class Output(Struct, frozen=True):
    """What a call said: its text without what Foregate added, and `how` it ended where that was not well."""

    text: str
    how: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines that say something, without colours."""
        return [line.rstrip() for line in _COLOURS.sub("", self.text).split("\n") if line.strip()]

    @property
    def result(self) -> str:
        """The last line in which a test runner sums up, "" where none does."""
        short = (line for line in reversed(self.lines) if len(line) <= SHORT_OUTPUT)
        return next((line.strip() for line in short if _RESULTS.fullmatch(line)), "")


def read_output(body: ToolFinished) -> Output:
    """Return what a call said."""
    text, how = body.content.strip(), ""
    if body.error == "exit_code":
        begin, _, last = text.rpartition("\n")
        if last.startswith(("exit code ", "ended by signal ")):
            text, how = begin, last
    return Output(text, how)


def format_end(said: Output, width: int, most: int) -> Iterator[Text]:
    """Yield the last lines, a row each, behind bars, and what sums tests up where it does not stand in them."""
    lines = said.lines
    last = lines[-most:]
    if (result := said.result) and not any(line.strip() == result for line in last):
        last = [result, *last[1:]]
    if len(lines) > most:
        yield from format_labelled("", f"the last {most} of {len(lines)} lines:", width, "dim", room=7)
    room = max(8, width - 7)
    for line in last:
        shown = expand_tabs(line)
        begin = chop_text(shown, room)[0] if width else shown
        yield Text().append("  | ", "dim").append(f"{begin}…" if begin != shown else begin)


def format_event(event: Event, width: int, made: str = "", about: str = "") -> list[Text]:
    """Return the lines to show for `event`, none for most kinds; each fits in `width` columns unless width is 0.

    `made` says what a finished call made of files, `about` what it carries beside its target.
    """
    match event.body:
        case TurnJudged(judgement=judgement):
            shown = filter(is_notable, judgement.rows)
            return [row for decision in shown for row in format_ruling(decision, width)]
        case NeedAnswered(elsewhere=True, answer=answer) as body if answer.value is not None:
            by = body.by or get_text(answer.value, "by", "")
            return format_row("answer", GOOD, f"given elsewhere by {by}: {answer.choice} {answer.words}", width)
        case ToolFinished() as body:
            return format_run(body, event.actor, width, made, about)
        case CallAnswered(ruling="not_run") as body:
            return format_row("not run", CARE, f"{name_call(body.tool, body.target)}: {body.message}", width)
        case OutcomeUnknown() as body:
            what = name_call(body.tool, body.target)
            return format_row("unknown", BAD, f"{what}: nobody can say whether it took effect ({body.reason})", width)
        case ContextCompressed() as body:
            row = format_line("context", "", f"{describe_compression(body)}; /history has all of it", width)
            row.stylize("dim")
            return [row]
        case OutcomeResolved() as body:
            return format_row("settled", GOOD, f"{name_call(body.tool, body.target)}: it {CAME[body.outcome]}", width)
        case PolicyChanged(refused=str(why)):
            return format_row("policy", CARE, why, width)
        case PolicyChanged(policy=policy, before=str(before)) if policy is not None:
            said = f"another one holds from here on, {event.policy[:12]} instead of {before[:12]}; /policy shows it"
            return format_row("policy", CARE, said, width)
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


def is_pass(decision: Decision | DecisionPoint) -> bool:
    """Whether a decision let everything pass without anybody's yes."""
    return decision.consequence is None and (decision.code.endswith("_passed") or decision.code in PASSES)


def is_notable(decision: Decision | DecisionPoint) -> bool:
    """Whether a decision deserves a line as it is made: not a pass, and not the yes that was just typed."""
    granted = decision.code in ("approval_granted", "overridden") and decision.consequence is None
    return not (is_pass(decision) or granted)


def format_ruling(decision: Decision, width: int) -> list[Text]:
    """Return how a decision stands: gate, code and call, and why on a line of its own where one is too short for what
    was not accepted."""
    standing = max((r.standing for r in decision.rulings), default=Standing.ALLOW)
    word, colour = _WORD[standing]
    if decision.mode == "shadow":
        word, colour = "shadow", "dim"
    elif standing is Standing.ALLOW and decision.consequence:
        word, colour = _WORD[Standing.ASK]
    where, head = name_call(decision.tool, decision.target), f"{decision.gate}: {decision.code}"
    why = decision.summary or (decision.consequence.question if decision.consequence else "")
    if not why.startswith(where):
        why = f"{where}: {why}" if why else where
    whole = f"{head}, {why}" if why else head
    if word == "passed" or not width or HEAD + 3 + len(whole) <= width:
        return [format_line(word, colour, whole, width)]
    return [*format_row(word, colour, head, width), *format_row("", "", why, width)]


def format_run(body: ToolFinished, actor: Actor, width: int, made: str = "", about: str = "") -> list[Text]:
    """Return how a call ended: what it `made` of files where it ran, and the end of what it said where it failed."""
    what = f"{name_call(body.tool, body.target)}{about}"
    what += {"runner": " (looked at for the model)", "postlude": " (checked)"}.get(actor, "")
    what += f", {body.duration / 1000:.1f} s" if body.duration >= 1000 else ""
    if body.ok:
        return format_row("ran", GOOD, f"{what}: {made}" if made else what, width)
    if is_cancelled(body):
        return format_row("stopped", CARE, f"{what}: cancelled, nothing of it took effect", width)
    what += f" ({made})" if made else ""
    said = read_output(body)
    if len(said.text) <= SHORT_OUTPUT and "\n" not in said.text:
        why = ", ".join(part for part in (said.how, said.text) if part)
        return format_row("failed", BAD, f"{what}: {why}" if why else what, width)
    head = format_row("failed", BAD, f"{what}: {said.how}" if said.how else what, width)
    return [*head, *format_end(said, width, FAILED_LINES)]


def is_cancelled(body: ToolFinished) -> bool:
    """Whether a call was cancelled before it changed anything; where that is unknown, another event says so."""
    return (body.error, body.content, body.changes) == ("cancelled", "cancelled", ())


def format_row(word: str, colour: str, rest: str, width: int) -> list[Text]:
    """Return `  word    rest` cut to LONGEST characters, uncut on one line where width is 0. Further lines stand behind
    the word, so that nothing in them can pose as a row."""
    if not width:
        return [format_line(word, colour, rest, width)]
    text = rest.replace("\n", " ").strip()
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return list(format_labelled(word, text, width, label_style=colour, room=HEAD))


def format_line(word: str, colour: str, rest: str, width: int) -> Text:
    """Return `  word    rest`, made visible and cut to `width`."""
    text = Text("  ").append(f"{word:<{HEAD}} ", style=colour)
    return text.append(shorten_text(rest, max(1, width - len(text)) if width else 0))


def name_call(tool: str, target: str) -> str:
    """Return a call as a row names it."""
    return f"{tool} {target}".strip()
