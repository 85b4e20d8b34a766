"""What commands print where answers are assumed: three lines that are never added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foregate.cli.commands.reports import CHANGES
from foregate.cli.terminal.layout import pluralise

if TYPE_CHECKING:
    from foregate.audit.phases import Phase, Phases
    from foregate.schemas.strict_json import Json

_WHO = {"planner": "plans", "critic": "critiques", "person": "prompts"}


def format_phases(phases: Phases) -> Iterator[str]:
    """Yield what each part of the sessions comes to: how sure that is, what is different, and who is asked."""
    assumed = [f"{count} of the {who}" for who in _WHO if (count := phases.at.assumed[who])]
    but = f"exact but for the assumed answers, {', '.join(assumed)}" if assumed else "exact"
    left = (
        f"; {pluralise(phases.after.repeats, 'repeat')} of what is no longer held left out"
        if phases.after.repeats
        else ""
    )
    for title, how, phase in (
        ("before the first divergence", "exact", phases.before),
        ("at it", but, phases.at),
        ("after it", f"estimated{left}", phases.after),
    ):
        yield f"{title} ({how}): {describe_phase(phase)}"
    yield "Recorded -> now. The three are never added up."


def describe_phase(phase: Phase) -> str:
    """Return what comes of the turns of a part, in words."""
    calls = sum(phase.calls.values())
    different = [f"{count} {CHANGES[name]}" for name in CHANGES if name != "unchanged" and (count := phase.calls[name])]
    asked = (f"{plural} {_format_pair(phase.was[who], phase.asked[who])}" for who, plural in _WHO.items())
    return f"{pluralise(calls, 'call')}, {', '.join(different) or 'none different'}; {', '.join(asked)}"


def _format_pair(then: int, now: int) -> str:
    return str(now) if then == now else f"{then} -> {now}"


def build_phases_json(phases: Phases) -> dict[str, Json]:
    """Return the three parts for a script."""
    return {
        name: {
            "turns": phase.turns,
            "calls": {change: phase.calls[change] for change in CHANGES},
            "repeats_left_out": phase.repeats,
            "asked": _count_who(phase.asked),
            "recorded": _count_who(phase.was),
            "assumed": _count_who(phase.assumed),
        }
        for name, phase in (("before", phases.before), ("at", phases.at), ("after", phases.after))
    }


def _count_who(counts: Counter[str]) -> dict[str, int]:
    return {who: counts[who] for who in _WHO}
