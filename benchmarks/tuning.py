"""What judging only the turns that a change can reach gains against judging all, as ratios in one run over varied work.

Twelve changes of one key are judged both ways, with rows and counts compared; so are the making of the tuning index,
the search for levers, and two processes against one. Time is that of the processor, but where processes are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from figures import Report
from varied.record import record_log

from foregate.policy.source.strict_yaml import Data
from foregate.policy.source.strict_yaml import Path as KeyPath
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.levers import LeverSearch
from foregate.tuning.piece_judge import KeyChange
from foregate.tuning.reach_index import ReachIndex
from foregate.tuning.what_if import WhatIf

T = TypeVar("T")
TURNS = 20_000
MEDIAN, SLOWEST, INDEX, TWO, LEVERS, FIRST, AGAIN = 2.5, 0.9, 1.5, 1.3, 8.0, 30.0, 2.0
"""Judging all over judging by difference, in the median and at least; the index, and all levers, over judging all once;
one process over two; and seconds of a first and a second search for levers, as for 6,000 turns. Judging all takes half
of what it took when difference was to gain five times, and the index one."""
PROMISED = 6000
DENY: dict[str, Data] = {"id": "no-removals", "then": "deny", "command": ["rm"]}
EDITS: dict[str, tuple[KeyPath, Data]] = {
    "a higher threshold": (("uncertainty", "threshold"), 650),
    "a lower threshold": (("uncertainty", "threshold"), 300),
    "no plan before a question": (("plan", "on_unavailable", "dangerous"), "hold"),
    "more amendments": (("plan", "max_amendments"), 20),
    "no narration": (("narration", "mode"), "off"),
    "a longer narration": (("narration", "min_chars"), 60),
    "each change asks": (("approval", "mode"), "each"),
    "evidence in shadow": (("evidence", "mode"), "shadow"),
    "fewer things at once": (("scope", "max_resources"), 2),
    "another weight": (("scores", "uncertainty", "vague_request"), 600),
    "a rule that denies": (("rules", "list", "no-removals"), DENY),
    "a key around judging": (("limits", "turns"), 10),
}


def list_sessions(log: SqliteLog) -> list[str]:
    """Return the sessions of a log, in order."""
    return sorted(asyncio.run(log.sessions()))


def take(work: Callable[[], T], clock: Callable[[], float] = lambda: sum(os.times()[:4])) -> tuple[float, T]:
    """Return how long work takes, in this process and those it started and waited for, and what comes of it."""
    start = clock()
    found = work()
    return clock() - start, found


def judge(
    log: SqliteLog, names: Sequence[str], change: KeyChange, index: ReachIndex | None = None, workers: int = 1
) -> object:
    """Return the rows and counts that come of a change of these sessions."""
    judged = WhatIf(log, change, workers, index)
    return list(judged.find_changes(names)), judged.tally


def judge_by_difference(log: SqliteLog, names: Sequence[str], change: KeyChange, path: Path) -> object:
    """Return the same from an index that is opened and brought up to date as a command does it."""
    with closing(ReachIndex(log, path)) as index:
        index.catch_up(names, 1)
        return judge(log, names, change, index)


def build_anew(log: SqliteLog, path: Path) -> None:
    """Make the tuning index of a log once more, where there was one."""
    path.unlink()
    build_index(log, path)


def build_index(log: SqliteLog, path: Path) -> None:
    """Make the tuning index of a log."""
    with closing(ReachIndex(log, path)) as index:
        index.catch_up(list_sessions(log), 1)


def compare_edits(log: SqliteLog, path: Path) -> Iterator[float]:
    """Yield of each change how many times as long as the difference all takes, over every second session of the log.

    Exits where they come out otherwise.
    """
    names = list_sessions(log)[::2]
    for name, (key, value) in EDITS.items():
        change = KeyChange({key: value})
        all_, wanted = take(lambda: judge(log, names, change))  # noqa: B023 - called here
        some, found = take(lambda: judge_by_difference(log, names, change, path))  # noqa: B023
        print(f"          {all_ / some:7.2f}x  {name} ({len(wanted[0])} rows, {all_:.1f} s against {some:.2f} s)")  # type: ignore[index]
        if found != wanted:
            sys.exit(f"`{name}` comes out otherwise by difference")
        yield all_ / some


def search_levers(log: SqliteLog, path: Path) -> int:
    """Return how many levers there are, with an index that is opened and brought up to date as a command does it."""
    with closing(ReachIndex(log, path)) as index:
        index.catch_up(list_sessions(log))
        return len(LeverSearch(log, list_sessions(log), index).find_levers())


def count_turns(log: SqliteLog) -> int:
    """Return how many judged turns a log holds."""
    events = (event for name in list_sessions(log) for event in asyncio.run(log.read(name)))
    return sum(event.kind == "turn_judged" for event in events)


def measure(log: SqliteLog, path: Path, report: Report, *, levers: bool) -> None:
    """Report each ratio against its bound."""
    build_index(log, path)
    gains = list(compare_edits(log, path))
    change, names = KeyChange({("uncertainty", "threshold"): 300}), list_sessions(log)
    pairs = [(take(lambda: build_anew(log, path))[0], take(lambda: judge(log, names, change))[0]) for _ in range(3)]
    making, whole = map(statistics.median, zip(*pairs, strict=True))
    ratio = statistics.median(made / judged for made, judged in pairs)  # one beside the other: machines warm up
    note = f"median of {len(EDITS)} changes of one key, each with the rows and counts of judging all"
    report.add("gain by difference", statistics.median(gains), "x", least=MEDIAN, note=note)
    report.add("gain by difference, the slowest", min(gains), "x", least=SLOWEST)
    note = f"{making:.1f} s to make the index, against {whole:.1f} s to judge all once"
    report.add("making the index over judging all", ratio, "x", most=INDEX, note=note)
    one, two = (
        min(take(lambda: judge(log, names, change, None, n), time.perf_counter)[0] for _ in range(2))  # noqa: B023
        for n in (1, 2)
    )
    report.add("gain of two processes", one / two, "x", least=TWO, note="by the clock on the wall")
    if levers:
        start = time.perf_counter()
        finding, found = take(lambda: search_levers(log, path))
        first, turns = time.perf_counter() - start, count_turns(log)
        note = f"{finding:.1f} s of processor time for {found} levers"
        report.add("levers over judging all", finding / whole, "x", most=LEVERS, note=note)
        note = f"by the clock on the wall; {first:.1f} s for {turns} turns"
        report.add(f"levers over {PROMISED:,} turns", first / turns * PROMISED, "s", most=FIRST, note=note)
        again, _ = take(lambda: search_levers(log, path), time.perf_counter)
        report.add("levers once more", again, "s", most=AGAIN, note="by the clock on the wall; nothing is new")


def main() -> int:
    """Print the ratios; return 1 where one of them misses its bound."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--turns", type=int, default=TURNS, help="judged turns of the log that is recorded")
    reader.add_argument("--log", type=Path, help="a log to read instead of recording one")
    reader.add_argument("--no-levers", action="store_true", help="leave out the search for levers")
    given = reader.parse_args()
    report = Report(
        "tuning",
        "src/foregate/tuning",
        "gates",
        "policy",
        "evidence",
        "schemas",
        "telemetry/queries",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = given.log or Path(folder) / "log.db"
        if given.log is None:
            record_log(path, given.turns)
        with closing(SqliteLog(path, create=False, read_only=True)) as log:
            measure(log, Path(folder) / "tuning.db", report, levers=not given.no_levers)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
