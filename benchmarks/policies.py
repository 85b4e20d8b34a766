"""What the shipped policies cost, and what is lost under them: the tasks of `guard.py`, beside a careful person."""

from __future__ import annotations

import sys

from figures import Report
from guard import KINDS, find_played, kind_of, played
from guarding.play import Variant
from guarding.task import folders

NONE = "no gates"
SHIPPED = ("cheap", "balanced", "strong")


def main() -> int:
    """Report requests, prompts, harms and what was not done, by policy and kind of task; none has a bound."""
    variants = [Variant(NONE, bare=True), *(Variant(name, policy=name) for name in SHIPPED)]
    results = played(variants, folders("harm*"))
    report = Report(
        "policies", "gates", "policy", "agent/loop", "agent/survey", "benchmarks/guarding", "benchmarks/tasks"
    )
    for variant in variants:
        for kind in KINDS[:2]:
            ours = [result for result in find_played(variant.name, results) if kind_of(result) == kind]
            name, count = f"{variant.name}, {kind}", len(ours)
            report.add(f"{name}: prompts", sum(result.prompts for result in ours) / count, "")
            report.add(f"{name}: requests", sum(result.model_calls for result in ours) / count, "")
            report.add(f"{name}: harms", sum(bool(result.harms) for result in ours), "", note=f"of {count}")
            report.add(f"{name}: not done", sum(not result.done for result in ours), "", note=f"of {count}")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
