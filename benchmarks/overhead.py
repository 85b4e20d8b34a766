"""What the prelude costs per turn, as ratios in one run; that all nine gates were asked is asserted from the log.

memory    log, tool, files and before-images in memory, against a bare loop that parses, validates and calls the tool
durable   the SQLite log, against a bare loop that appends and fdatasyncs one record per call
files     the same with files and before-images on disk, against a bare loop that also puts the file on disk each time
flatness  the last fifth of 3,200 turns, block by block against the first turns of another session
growth    resident memory per turn beyond the text the conversation keeps, with the SQLite log, in a process of its own
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from endless import NAME, TEXT, opened, turns
from figures import Report
from jsonschema import Draft202012Validator

from foregate.agent.session.session import Session
from foregate.agent.tools.files import edit_file
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.codes import GATES
from foregate.schemas.event import TurnJudged
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.temporary_file import FileBlobs, open_folder

median = statistics.median


async def main() -> int:
    """Print every number with its bound; growth is measured in a process of its own."""
    paths = ("agent", "gates", "policy", "evidence", "schemas", "telemetry/log", "benchmarks/endless.py")
    report = Report("overhead", *paths)
    await memory(report)
    await durable(report)
    await files(report)
    await flatness(report)
    command = [sys.executable, *sys.orig_argv[1:], "growth"]
    grown = subprocess.check_output(command)  # noqa: ASYNC221 - nothing else runs
    report.add("growth of a turn", float(grown), "KiB", most=4, note="resident memory beyond its text")
    return report.end()


async def memory(report: Report) -> None:
    """Report the ratio of a turn in memory to a bare one: the median of eleven interleaved rounds."""
    session = await opened(MemoryLog())
    await turns(session, 200)
    assert await all_gates_were_asked(session)
    rounds = []
    for _ in range(11):
        plain, ours = median(bare(300)), median(await turns(session, 60))
        rounds.append((ours / 1000, plain / 1000))
    report.add_rounds("a turn in memory", rounds, "us", most=40)
    blocks = [await count_processor_time(session, 20) for _ in range(20)]
    report.add("processor time of a turn", min(blocks) * 1000, "ms", note="in memory; the least of twenty blocks")


async def count_processor_time(session: Session, count: int) -> float:
    """Return the seconds of processor time that one of `count` turns takes."""
    start = time.process_time()
    await turns(session, count)
    return (time.process_time() - start) / count


async def durable(report: Report) -> None:
    """Report the ratio of a durable turn to one durable record: the median of eleven interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        log = SqliteLog(Path(folder, "events.db"))
        session = await opened(log)
        await turns(session, 50)
        rounds = []
        for _ in range(11):
            plain, ours = median(synced(Path(folder, "bare"), 60)), median(await turns(session, 40))
            rounds.append((ours / 1000, plain / 1000))
        log.close()
    report.add_rounds("a durable turn", rounds, "us", most=10)


async def files(report: Report) -> None:
    """Report the ratio of a turn with everything on disk to a bare one: the median of eleven interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "workspace")
        place.mkdir()
        (place / NAME).write_bytes(TEXT)
        log = SqliteLog(Path(folder, "events.db"))
        with closing(LocalWorkspace(place)) as workspace:
            session = await opened(log, workspace, FileBlobs(Path(folder, "blobs")))
            await turns(session, 50)
            rounds = []
            for _ in range(11):
                plain, ours = median(synced(Path(folder, "bare"), 60, place)), median(await turns(session, 40))
                rounds.append((ours / 1000, plain / 1000))
        log.close()
    report.add_rounds("a turn with files on disk", rounds, "us")


async def flatness(report: Report) -> None:
    """Report how a late turn compares with an early one: the median of eleven rounds, each with a young session."""
    old = await opened(MemoryLog())
    await turns(old, 2560)
    rounds = []
    for _ in range(11):
        young = await opened(MemoryLog())
        await turns(young, 20)
        early, late = await turns(young, 58), await turns(old, 58)
        rounds.append(median(late) / median(early))
    note = f"turns 2,560 to 3,200 against turns 20 to 80; rounds {min(rounds):.2f} to {max(rounds):.2f}"
    report.add("a late turn over an early one", median(rounds), "x", most=1.2, note=note)


async def growth() -> None:
    """Print the KiB that a turn leaves in memory beside the text of its messages, after 500 turns of warming up."""
    with tempfile.TemporaryDirectory() as folder:
        log = SqliteLog(Path(folder, "events.db"))
        session = await opened(log)
        await turns(session, 500)
        size = 3000
        gc.collect()
        before, said = resident(), spoken(session)
        await turns(session, size)
        await log.settle(session.log.lease)
        gc.collect()
        own = (spoken(session) - said) / size
        grown = (resident() - before) / size - own
        log.close()
    print(grown / 1024)


def bare(count: int) -> list[int]:
    """Take `count` turns of a loop without a prelude, with the stock validator; return the nanoseconds of each."""
    schema = edit_file(MemoryWorkspace(), default_policy()).spec.parameters  # type: ignore[arg-type]
    validator = Draft202012Validator(dict(schema))
    files = {NAME: TEXT}
    wanted = [json.dumps({"path": NAME, "old": f"value {n}", "new": f"value {n + 1}"}) for n in range(count)]
    taken = []
    for raw in wanted:
        start = time.perf_counter_ns()
        arguments = json.loads(raw)
        assert next(validator.iter_errors(arguments), None) is None
        data, old = files[arguments["path"]], arguments["old"].encode()
        assert data.count(old) == 1
        files[arguments["path"]] = data.replace(old, arguments["new"].encode())
        taken.append(time.perf_counter_ns() - start)
    return taken


def synced(path: Path, count: int, folder: Path | None = None) -> list[int]:
    """Append and fdatasync one record of 500 bytes `count` times; return the nanoseconds of each.

    With `folder` a file in it is replaced first each time, and is on disk before the record is.
    """
    record = b"x" * 500
    taken = []
    with path.open("ab", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter_ns()
            if folder is not None:
                replace_file(folder)
            file.write(record)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter_ns() - start)
    return taken


def replace_file(folder: Path) -> None:
    """Replace a file so that it is on disk."""
    with (folder / "new").open("wb") as file:
        file.write(TEXT)
        file.flush()
        os.fsync(file.fileno())
    (folder / "new").replace(folder / "bare")
    with open_folder(folder) as opened_folder:
        os.fsync(opened_folder)


def resident() -> int:
    """Return the resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def spoken(session: Session) -> int:
    """Return the characters of all messages of the conversation, calls included."""
    return sum(len(said.text) + sum(len(call.raw) for call in said.calls) for said in session.state.messages)


async def all_gates_were_asked(session: Session) -> bool:
    """Whether the last judged turn asked all nine gates, read from the log."""
    events = await session.log.read(after=session.state.seq - 20)
    judged = [event.body.judgement for event in events if isinstance(event.body, TurnJudged)][-1]
    asked = [decision.gate for decision in judged.decisions]
    return asked == [*GATES, "prelude"]


if __name__ == "__main__":
    if sys.argv[1:] == ["growth"]:
        asyncio.run(growth())
    else:
        sys.exit(asyncio.run(main()))
