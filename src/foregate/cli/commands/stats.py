"""What `audit stats` prints for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from foregate.cli.commands.what_if import many
from foregate.cli.terminal.layout import labelled

if TYPE_CHECKING:
    from foregate.telemetry.audit.statistics import Statistics

_WIDTH = 80


def lines_of(found: Statistics) -> Iterator[str]:
    """Yield the table of gates and a line for everything else."""
    parts = [many(found.sessions, "session"), many(found.tasks, "task"), many(found.turns, "judged turn")]
    yield ", ".join([*parts, many(found.calls, "call")])
    shadows = any(counts.shadow_asked for counts in found.gates.values())
    yield f"{'gate':<12} {'asked':>8} {'fired':>8} {'overridden':>11}" + (f" {'in shadow':>18}" if shadows else "")
    for gate, counts in found.gates.items():
        shadow = f" {counts.shadow_asked:>8} asked {counts.shadow_fired:>4} fired" if shadows else ""
        yield f"{gate:<12} {counts.asked:>8} {counts.fired:>8} {counts.overridden:>11}{shadow}".rstrip()
    per_task = f", {found.held / found.tasks:.1f} per task" if found.tasks else ""
    yield from _row("held", f"{many(found.held, 'call')} held or denied{per_task}")
    cost = [
        f"{who} {many(advice.calls, 'request')} and {many(advice.tokens, 'token')}"
        for who, advice in found.advice.items()
    ]
    yield from _row("advice", "; ".join(cost))
    yield from _row("approvals", _approvals(found))
    asked = found.questions
    if asked["asked"]:
        said = ", ".join(f"{asked[choice]} `{choice}`" for choice in ("anyway", "stop", "more"))
        yield from _row("repeated", f"{many(asked['asked'], 'question')} about calls held again: {said}")
    silent = [name for name, count in found.rules.items() if not count]
    yield from _row("rules", f"never fired: {', '.join(silent)}" if silent else "none that never fired")


def _approvals(found: Statistics) -> str:
    counts = found.approvals
    if not counts["asked"]:
        return "none asked"
    if not counts["answered"]:
        return f"{counts['asked']} asked, none answered"
    share = round(100 * counts["yes"] / counts["answered"])
    waited = f", median {found.median_wait} s to answer" if found.median_wait is not None else ""
    return f"{counts['asked']} asked, {counts['answered']} answered, {share} % with yes{waited}"


def _row(label: str, value: str) -> Iterator[str]:
    for line in labelled(label, value, _WIDTH):
        yield line.plain[2:]
