"""Varied work: recorded by the real loop, the same from the same seed, and never all of one kind."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from foregate.schemas.event import TurnJudged
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.rejudging import judge_sessions_again

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def beside() -> Iterator[None]:
    """Make the benchmarks' own modules importable, as they are beside the scripts."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def test_varied_work_is_judged_again_as_it_was_and_many_gates_say_something(tmp_path: Path) -> None:
    names = import_module("varied.record").record_log(tmp_path / "log.db", 120)
    log = SqliteLog(tmp_path / "log.db", create=False)
    assert sorted(asyncio.run(log.sessions())) == names
    assert [found.defects for found in judge_sessions_again(log, names, workers=1)] == [[]] * len(names)
    bodies = [event.body for name in names for event in log.events(name, kinds=("turn_judged",))]
    judged = [body for body in bodies if isinstance(body, TurnJudged)]
    log.close()
    assert len(judged) >= 120
    fired = {row.gate for body in judged for row in body.judgement.decisions if not row.code.endswith("_passed")}
    assert len(fired) >= 7
    assert len({row.tool for body in judged for row in body.judgement.decisions}) >= 7


def test_the_same_seed_draws_the_same_jobs() -> None:
    jobs = import_module("varied.jobs")
    once, again = (jobs.JobMaker(random.Random(7), git=True) for _ in range(2))
    assert [once.make_job() for _ in range(50)] == [again.make_job() for _ in range(50)]
