"""How fast questions over many sessions are answered: 10,000 sessions with a million decisions, made from a fixed seed.

The rows are written into the index as reading a log would write them; the log itself holds only where each session
ends, which every question compares first. Against each time stands its bound.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from endless import opened, turns
from figures import Report

from foregate.schemas.codes import GATES
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.audit_index import AuditIndex
from foregate.telemetry.queries.filters import DecisionFilter, SessionFilter
from foregate.telemetry.queries.index_rows import RowWriter
from foregate.telemetry.queries.index_tables import open_index
from foregate.telemetry.queries.statistics import count_selection

SESSIONS, DECISIONS = 10_000, 1_000_000
ROUNDS = 5
TURNS = 500
SEED = 20260101
START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 90
LISTED, FILTERED, COUNTED = 1.0, 0.2, 2.0
"""Bounds in seconds: all sessions listed, a filtered list of decisions, statistics over everything."""
TOOLS = (
    "read_file",
    "list_dir",
    "search_text",
    "run_shell",
    "edit_file",
    "write_file",
    "http_get",
    "git_commit",
    "send",
)
WEIGHTS = (30, 12, 12, 18, 12, 6, 5, 3, 2)
FIRED = {
    "rules": (("asked_by_rule", 1), ("denied_by_rule", 3)),
    "narration": (("narration_required", 2),),
    "uncertainty": (("uncertainty_clarification", 2),),
    "evidence": (("missing_pre_execution_evidence", 2), ("stale_evidence", 2)),
    "plan": (("plan_accepted", 0), ("plan_rejected", 2)),
    "critique": (("critique_rejected", 2), ("critique_accepted", 0)),
    "approval": (("approval_granted", 0), ("approval_denied", 3), ("outside_mandate", 2)),
}
"""By their gates codes of decisions that say something, with the rank of their standing."""
NOUNS = ("invoice", "report", "letter", "table", "release", "backup", "account", "photo", "order", "ticket")


class Maker:
    """Writes sessions, each of a few tasks, as an agent at work leaves them."""

    def __init__(self, writer: RowWriter, names: list[tuple[str, int]]) -> None:
        self.draw = random.Random(SEED)
        self.writer, self.names, self.decisions = writer, names, 0
        self.policies = [writer.intern(f"{number:064x}") for number in range(12)]
        rules = [writer.intern(rule) for rule in ("outside-workspace", "ask-pushes", "secret-files", "never-matched")]
        for policy in self.policies:
            for place, rule in enumerate(rules):
                writer.insert_missing("policy_rules", policy, place, rule)
        self.rules = rules

    def make_session(self, number: int) -> None:
        draw, name = self.draw, f"20260101-{number:06}-{number % 65536:04x}"
        begin = START + timedelta(seconds=draw.random() * DAYS * 86_400)
        at, noun = round(begin.timestamp() * 1000), draw.choice(NOUNS)
        held = 0
        session = self.writer.insert(
            "sessions",
            name=name,
            number=number,
            seq=40,
            hash=f"{number:064x}",
            fold="{}",
            problem="",
            first_at=at,
            last_at=at + 600_000,
            state=draw.choice(("completed", "completed", "blocked")),
            asked=f"Please look after the {noun} number {number}.",
            started=stamp(at),
            ended=stamp(at),
            last=stamp(at + 600_000),
            workspace=f"/home/user/work-{number % 40}",
            model=f"model-{number % 4}",
            follows="",
            by=f"user{number % 7}@host",
            tasks=1,
            allowed=10,
            asked_about=1,
            held=2,
            denied=0,
        )
        self.names.append((name, number))
        self.writer.insert_missing("tasks", session, 2, at)
        policy = draw.choice(self.policies)
        self.writer.insert_missing("session_policies", session, policy)
        place = {"session": session, "seq": 3, "at": at, "time": stamp(at)}
        self.writer.add_text(f"Please look after the {noun} number {number}.", what="request", **place)
        for turn in range(DECISIONS // SESSIONS // (len(GATES) + 1)):
            at += draw.randrange(1_000, 60_000)
            held += self.make_turn(session, turn, at, policy, noun)

    def make_turn(self, session: int, turn: int, at: int, policy: int, noun: str) -> int:
        draw, intern = self.draw, self.writer.intern
        (tool,) = draw.choices(TOOLS, WEIGHTS)
        target = f"src/{noun}/part{draw.randrange(2_000)}.py"
        says = {gate: draw.choice(codes) for gate, codes in FIRED.items() if draw.random() < 0.04}
        place = {"session": session, "seq": 4 + 3 * turn, "at": at}
        stopped = int(any(rank >= 2 for _, rank in says.values()))
        row = self.writer.insert("turns", **place, time=stamp(at), task=1, early=False, calls=1, stopped=stopped)
        call, origin, risk = (
            intern(f"c{turn}.1"),
            intern(draw.choice(("user", "workspace", "external"))),
            draw.randrange(1000),
        )
        for part, gate in enumerate((*GATES, "prelude")):
            code, rank = says.get(gate, (f"{gate}_passed", 0))
            passed = gate not in says
            summary = "" if passed else f"`{target}` was not as the {noun} wants it, so it is {code}"
            asked = gate == "approval" and not passed
            decision = self.writer.insert(
                "decisions",
                **{"turn": row, **place, "part": part, "main": True, "gate": intern(gate), "code": intern(code)},
                mode=intern("enforce"),
                standing=rank,
                severity=int(not passed),
                passed=passed,
                fired=rank > 0,
                early=False,
                shadow=False,
                tool=intern(tool),
                target=intern(target),
                call=call,
                key=0 if passed else intern(f"{gate}.mode"),
                policy=policy,
                origin=origin,
                approver=intern(f"user{draw.randrange(7)}@host") if asked else 0,
                risk=risk,
                summary=summary,
            )
            self.decisions += 1
            if gate == "rules" and not passed:
                self.writer.insert_missing("decision_rules", decision, 0, draw.choice(self.rules[:3]))
            if not passed:
                where = {**place, "time": stamp(at), "what": "decision", "decision": decision}
                self.writer.add_text(f"{tool} {target} {summary}", **where)
            if asked:
                said = {"choice": "yes" if rank == 0 else "no", "yes": rank == 0, "took": draw.randrange(90_000)}
                counted = {"approver": 0, "model_calls": 0, "tokens": 0, "turn": row}
                said |= {"not_run": "", "by": gate, "key": ""}
                self.writer.insert("asks", **place, who="person", gate=gate, raised=True, answered=5, **said, **counted)
        return stopped


def stamp(at: int) -> str:
    """Return a time in milliseconds as events have it."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def make(home: Path) -> int:
    """Make a home with a log of heads and an index of rows; return how many decisions it holds."""
    names: list[tuple[str, int]] = []
    with closing(open_index(home / "index.db")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        writer = RowWriter(connection)
        # Made at the end they take a fraction of the time.
        indexes = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'decisions'"
        later = connection.execute(indexes).fetchall()
        for name, _ in later:
            connection.execute(f"DROP INDEX {name}")
        writer.begin()
        maker = Maker(writer, names)
        for number in range(1, SESSIONS + 1):
            maker.make_session(number)
        for _, statement in later:
            connection.execute(statement)
        connection.execute("COMMIT")
    SqliteLog(home / "events.db").close()
    with closing(sqlite3.connect(home / "events.db")) as log, log:
        log.executemany(
            "INSERT INTO leases (number, session, owner, pid, started, boot, place, fence, seq, hash) "
            "VALUES (?, ?, '', 0, '', '', '', 1, 40, ?)",
            [(number, name, f"{number:064x}") for name, number in names],
        )
    return maker.decisions


async def write_log(path: Path) -> None:
    """Write a session of TURNS judged turns to a log."""
    log = SqliteLog(path)
    session = await opened(log)
    await turns(session, TURNS)
    await session.close()
    log.close()


def measure(act: Callable[[], object]) -> float:
    """Return the median of the seconds that something takes."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def list_once(home: Path) -> list[Any]:
    """Open everything, catch up, and return all sessions, as a command does."""
    with closing(SqliteLog(home / "events.db")) as log, closing(AuditIndex(log, home / "index.db")) as index:
        index.catch_up()
        return index.list_sessions()


def command(home: Path) -> None:
    """List all sessions by the command, in a process of its own."""
    environment = {**os.environ, "FOREGATE_HOME": str(home)}
    subprocess.run(
        [sys.executable, "-m", "foregate", "audit", "list"], env=environment, check=True, capture_output=True
    )


def filters() -> dict[str, DecisionFilter]:
    """Return selections of all kinds, from nearly everything to next to nothing."""
    late = START + timedelta(days=DAYS - 2)
    return {
        "newest": DecisionFilter(),
        "newest, all": DecisionFilter(passed=True),
        "gate and verdict": DecisionFilter(gate=["evidence"], standing=["hold"]),
        "tool and time": DecisionFilter(tool=["run_*"], since=late),
        "one target": DecisionFilter(target=["src/order/part77.py"], passed=True),
        "target glob": DecisionFilter(target=["*/part7?.py"], passed=True),
        "risk range": DecisionFilter(risk=(990, 1000), passed=True),
        "rule": DecisionFilter(rule=["secret-*"]),
        "key and approver": DecisionFilter(key=["approval.*"], approver=["user3@*"]),
        "policy and origin": DecisionFilter(policy=["0" * 63 + "7"], origin=["external"], tool=["send"], passed=True),
        "workspace": DecisionFilter(workspace=["*/work-7"], code=["approval_denied"]),
        "text": DecisionFilter(text=["stale_evidence", "photo"]),
        "no such target": DecisionFilter(tool=["send"], target=["*.nowhere"], passed=True),
        "nothing, of everything": DecisionFilter(tool=["run_*"], risk=(1000, 1000), passed=True),
    }


def list_by_decision(index: AuditIndex) -> list[Any]:
    """Return the newest sessions that hold a decision of one kind."""
    decisions = DecisionFilter(gate=["evidence"], standing=["hold"], tool=["send"], passed=True)
    return index.list_sessions(SessionFilter(decisions=decisions), limit=100)


def main() -> int:
    """Print each time against its bound; return 1 where one does not hold."""
    report = Report("audit", "telemetry/queries", "telemetry/log", "src/foregate/cli")

    def time_it(name: str, act: Callable[[], object], bound: float | None, note: str = "") -> None:
        report.add(name, measure(act) * 1000, "ms", most=bound and bound * 1000, note=note)

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o700)
        start = time.perf_counter()
        count = make(home)
        size = sum(path.stat().st_size for path in home.iterdir()) // 1_000_000
        took = time.perf_counter() - start
        note = f"{SESSIONS} sessions, {count} decisions: made in {took:.0f} s, {size} MB"
        time_it("all sessions listed", lambda: list_once(home), LISTED, note)
        time_it("all sessions listed by the command", lambda: command(home), None, "its start included")
        with closing(SqliteLog(home / "events.db")) as log, closing(AuditIndex(log, home / "index.db")) as index:
            index.catch_up()
            blocked = SessionFilter(text=["invoice"], state=["blocked"])
            time_it("sessions: text and state", lambda: index.list_sessions(blocked, limit=100), FILTERED)
            time_it("sessions: by a decision", lambda: list_by_decision(index), FILTERED)
            for name, wanted in filters().items():
                time_it(f"decisions: {name}", lambda: index.find_decisions(wanted), FILTERED)  # noqa: B023
            own = DecisionFilter(tool=["run_shell"])
            time_it("statistics over everything", lambda: count_selection(index, DecisionFilter()), COUNTED)
            time_it("statistics of one tool", lambda: count_selection(index, own), COUNTED)
        asyncio.run(write_log(home / "long.db"))
        start = time.perf_counter()
        with closing(SqliteLog(home / "long.db")) as log, closing(AuditIndex(log, None)) as index:
            index.catch_up()
            count = sum(index.count_decisions(DecisionFilter()))
        speed = count / (time.perf_counter() - start)
        report.add("decisions read a second", speed, "", note=f"for the first time, of a session with {count}")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
