"""The counts that are kept in `counts.json`: by the piece of work and the version of Python. Run, it writes them anew.

Only the column of the Python that runs it is written: `make counts`, once a version.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.counts.counting import Count, measure

KEPT = Path(__file__).with_name("counts.json")
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
FUNCTIONS = 40
"""Functions of a piece of work whose counts are kept, those that are called most."""
PIECES = ("edit in memory", "read in memory", "edit durable", "read durable", "home", "judging again")
"""What `work.py` can count, each in a process of its own."""
SLACK = 5
"""Percent by which a count may differ from the one that is kept."""


def read_column() -> dict[str, dict[str, Any]]:
    """Return what is kept for the Python that runs, by the piece of work; nothing for one that has no column."""
    return {work: columns[VERSION] for work, columns in _read_kept().items() if VERSION in columns}


def describe_difference(work: str, count: Count, kept: dict[str, Any] | None) -> str:
    """Return what a piece of work does more or less often than is kept, function by function; "" within the slack."""
    if kept is None:
        return f"`{work}` is not counted in {KEPT.name} yet; `make counts` keeps what it takes"
    statements = sum(kept["statements"].values())
    if _is_near(count.calls, kept["calls"]) and _is_near(count.statements.total(), statements):
        return ""
    lines = [
        f"`{work}` makes {count.calls:,} Python calls and executes {count.statements.total()} statements; kept are "
        f"{kept['calls']:,} and {statements}. `make counts` keeps the new ones, if they are meant."
    ]
    fewest = min(kept["functions"].values(), default=0)
    lines += _list_changes(kept["functions"], count.functions, fewest)
    lines += _list_changes(kept["statements"], count.statements)
    return "\n".join(lines)


def _list_changes(before: dict[str, int], after: Counter[str], fewest: int = 0) -> list[str]:
    """Return a line for each name whose count changed, the most grown first; what is not in `before` was `fewest` at
    most."""
    changed = []
    for name in {**before, **after}:
        then, now = before.get(name, fewest), after[name]
        if now > then or (now < then and name in before):
            changed.append((then - now, f"  {then if name in before else f'at most {fewest}'} -> {now}  {name}"))
    return [line for _, line in sorted(changed)]


def _read_kept() -> dict[str, dict[str, Any]]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def _is_near(count: int, kept: int) -> bool:
    return abs(count - kept) * 100 <= SLACK * kept


def main() -> None:
    """Count everything and write the column of this Python."""
    kept = _read_kept()
    found = {work: count for piece in PIECES for work, count in measure(piece).items()}
    for work, count in found.items():
        most = dict(sorted(count.functions.items(), key=lambda one: (-one[1], one[0]))[:FUNCTIONS])
        column = {"calls": count.calls, "statements": dict(sorted(count.statements.items())), "functions": most}
        kept[work] = {**kept.get(work, {}), VERSION: column}
        print(f"{work:28} {count.calls:9,} calls {count.statements.total():5} statements")
    kept = {work: dict(sorted(columns.items())) for work, columns in kept.items() if work in found}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
