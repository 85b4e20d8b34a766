"""What `audit stats` prints for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from foregate.cli.commands.what_if import pluralise
from foregate.cli.terminal.layout import format_labelled

if TYPE_CHECKING:
    from foregate.telemetry.audit.statistics import Statistics

_COLUMNS = 80


def format_statistics(found: Statistics) -> Iterator[str]:
    """Yield the table of gates and a line for everything else."""
    parts = [
        pluralise(found.sessions, "session"),
        pluralise(found.tasks, "task"),
        pluralise(found.turns, "judged turn"),
    ]
    yield ", ".join([*parts, pluralise(found.calls, "call")])
    shadows = any(counts.shadow_asked for counts in found.gates.values())
    yield f"{'gate':<12} {'asked':>8} {'fired':>8} {'overridden':>11}" + (f" {'in shadow':>18}" if shadows else "")
    for gate, counts in found.gates.items():
        shadow = f" {counts.shadow_asked:>8} asked {counts.shadow_fired:>4} fired" if shadows else ""
        yield f"{gate:<12} {counts.asked:>8} {counts.fired:>8} {counts.overridden:>11}{shadow}".rstrip()
    per_task = f", {found.held / found.tasks:.1f} per task" if found.tasks else ""
    yield from _format_row("held", f"{pluralise(found.held, 'call')} held or denied{per_task}")
    cost = [
        f"{who} {pluralise(advice.calls, 'request')} and {pluralise(advice.tokens, 'token')}"
        for who, advice in found.advice.items()
    ]
    yield from _format_row("advice", "; ".join(cost))
    yield from _format_row("approvals", _format_approvals(found))
    asked = found.questions
    if asked["asked"]:
        said = ", ".join(f"{asked[choice]} `{choice}`" for choice in ("anyway", "stop", "more"))
        yield from _format_row("repeated", f"{pluralise(asked['asked'], 'question')} about calls held again: {said}")
    silent = [name for name, count in found.rules.items() if not count]
    yield from _format_row("rules", f"never fired: {', '.join(silent)}" if silent else "none that never fired")


def _format_approvals(found: Statistics) -> str:
    counts = found.approvals
    if not counts["asked"]:
        return "none asked"
    if not counts["answered"]:
        return f"{counts['asked']} asked, none answered"
    share = round(100 * counts["yes"] / counts["answered"])
    waited = f", median {found.median_wait} s to answer" if found.median_wait is not None else ""
    return f"{counts['asked']} asked, {counts['answered']} answered, {share} % with yes{waited}"


def _format_row(label: str, value: str) -> Iterator[str]:
    for line in format_labelled(label, value, _COLUMNS):
        yield line.plain[2:]
