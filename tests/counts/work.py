"""The pieces of work that are counted, each in a process of its own, which `counting.py` starts.

Most are of the benchmarks' sessions, which make one covered edit a turn, or read another file in each.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import beside
import endless
from counting import Count, counted

from foregate.agent.loop.runner import run, run_to_outcome, take_step
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls, says
from foregate.agent.session.session import Session
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.assembly.open import open_session as assemble
from foregate.assembly.setting import SessionOptions
from foregate.cli.app import main as list_sessions
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.redecide import redecide
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.protocols import Log
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.log import chain, group_commit
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog

ONCE = 5
"""Turns that are counted together, since each begins with what the one before it left to do."""
RESUMED = 400
"""Turns of the session that is resumed."""
SESSIONS = 6
SHELL = 3
"""Calls of a shell; the last one is counted, since the first ones load and remember what all need."""
Counts = dict[str, Count]

group_commit.LINGER = 60.0  # what is written together hangs on who waits for it, and not on time


async def open_session(kind: str, log: Log) -> Session:
    """Return an open session that edits, or one that reads."""
    if kind == "edit":
        return await endless.opened(log, MemoryWorkspace({endless.NAME: endless.TEXT}))
    return await endless.opened(log, endless.many_files(), model=endless.Reader())


def count_turns(kind: str, log_class: type[MemoryLog] | type[SqliteLog]) -> Callable[[], Counts]:
    """Return what counts a turn of a young session, of one that has become older, and of an old one: as the benchmark
    `beside` does, and then by function and statement."""

    async def count() -> Counts:
        log = log_class(Path("events.db")) if log_class is SqliteLog else MemoryLog()
        session, found = await open_session(kind, log), Counts()
        place = "durable" if log_class is SqliteLog else "in memory"
        for number in beside.TURNS:
            every = await beside.count_calls(endless, session, number)
            found[f"all calls of turn {number}, {kind} {place}"] = Count(Counter({"of everything": int(every)}))
            await log.settle(session.log.lease)
            total = Count()
            with counted(total):
                await endless.turns(session, ONCE)
            found[f"turn, {kind}, {place}, {number}"] = total // ONCE
        if log_class is SqliteLog:
            log.close()
        return found

    return lambda: asyncio.run(count())


async def write_home(first: Count, further: Count) -> SessionOptions:
    """Write a home with some short sessions and one long one that is still open; return what opens one there.

    Count opening the first two.
    """
    home, workspace = Path(os.environ["FOREGATE_HOME"]), Path("workspace").absolute()
    workspace.mkdir()
    (workspace / endless.NAME).write_bytes(endless.TEXT)
    options = SessionOptions(model=ScriptedModel([]), workspace=workspace)
    await count_opening(first, options)
    await count_opening(further, options)
    log, files = SqliteLog(home / "events.db"), endless.many_files()
    files.root = workspace
    session = await endless.opened(log, files, model=endless.Reader())
    await endless.turns(session, RESUMED)
    await session.close(end=False)
    log.close()
    for _ in range(SESSIONS):
        model = ScriptedModel([calls(("read_file", {"path": endless.NAME})), says("It has three lines.")])
        opened = await assemble(SessionOptions(model=model, workspace=workspace))
        await run(opened.session, f"How many lines has {endless.NAME}?")
        await opened.close()
    return options


def count_home() -> Counts:
    """Count what is done with a home: a session opened, the first of a process, and then another; one resumed after
    many turns; and `audit list` over sessions that the index knows already."""
    first, further, resuming, listing = Count(), Count(), Count(), Count()
    options = asyncio.run(write_home(first, further))
    options.resume = endless.SESSION
    asyncio.run(count_opening(resuming, options))
    for count in (Count(), listing):
        with counted(count), contextlib.redirect_stdout(io.StringIO()):
            assert list_sessions(["audit", "list"]) == 0
    return {
        "opening, the first": first,
        "opening, a further one": further,
        f"resuming, {RESUMED} turns": resuming,
        f"audit list, {SESSIONS + 3} sessions": listing,
    }


async def count_opening(count: Count, options: SessionOptions) -> None:
    """Count opening a session."""
    with counted(count):
        opened = await assemble(options)
    await opened.close(end=False)


async def count_shell() -> Counts:
    """Count the turn of a shell call, with the yes of a person to what it changed in its sandbox.

    What the sandbox does in other processes and threads is not counted. Nothing where this machine has no whole one.
    """
    workspace = Path("workspace").absolute()
    workspace.mkdir()
    rules = default_policy().model_dump(mode="json")
    rules["approval"]["mode"] = "each"
    lines = [calls(("run_shell", {"command": f"echo {n} >> {endless.NAME}"})) for n in range(SHELL)]
    options = SessionOptions(
        model=ScriptedModel([response for line in lines for response in (line, says("It is done."))]),
        workspace=workspace,
        policy=Policy.model_validate_json(json.dumps(rules)),
        person=ScriptedPerson(["yes"] * SHELL),
    )
    opened = await assemble(options)
    session, found = opened.session, Counts()
    turns = SHELL if find_tier(session.workspace, session.policy)["tier"] == "full" else 0
    for _ in range(turns):
        await session.record_message(f"Run echo in a shell to add a line to {endless.NAME}")
        found["turn, shell with a yes"] = count = Count()
        with counted(count):
            while session.state.running_task.used["turns"] < 1 or session.state.open is not None:
                assert await take_step(session) is None
        assert (await run_to_outcome(session)).status == "completed"
    await opened.close()
    return found


async def count_judging_again() -> Counts:
    """Count judging the recorded turns of a session again, one of them."""
    found = Counts()
    for kind in ("edit", "read"):
        log = MemoryLog()
        await endless.turns(await open_session(kind, log), 2 * ONCE)
        events = [chain.read_line(text, hash_) for _, text, hash_ in log.lines(endless.SESSION)]
        began = events[0].body
        assert isinstance(began, SessionStarted)
        policy, catalogue = Policy.model_validate_json(json.dumps(began.policy)), build_catalogue(began.catalogue)
        bench, total = build_prelude(policy, catalogue), Count()
        for turn in [*read_judged_turns(events)][-ONCE:]:
            with counted(total):
                assert redecide(turn.turn, turn.judgement, policy, bench, policy, catalogue).is_unchanged
        found[f"judging again, {kind}"] = total // ONCE
    return found


WORK = {
    "edit in memory": count_turns("edit", MemoryLog),
    "read in memory": count_turns("read", MemoryLog),
    "edit durable": count_turns("edit", SqliteLog),
    "read durable": count_turns("read", SqliteLog),
    "home": count_home,
    "shell": lambda: asyncio.run(count_shell()),
    "judging again": lambda: asyncio.run(count_judging_again()),
}
