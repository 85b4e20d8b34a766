"""Work on a Ray cluster comes to what it comes to in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from foregate.cli.reports import build_summary_json
from foregate.policy.source.layers import Layer
from foregate.schemas.errors import LogError, UsageError
from foregate.telemetry.queries.reviews import Reviews
from foregate.tuning.piece_store import hash_code
from foregate.tuning.pieces import split_session
from foregate.tuning.ray_workers import RayWorker, SentLog, open_ray
from foregate.tuning.sweep import sweep_sessions
from foregate.tuning.turn_figures import PieceCounter
from foregate.tuning.what_if import WhatIf
from tests.varied import varied_log

KEY = "narration.min_chars"
CHANGE: dict[str, Any] = {"narration": {"min_chars": 0}, "evidence": {"mode": "off"}}


RUN = """
import json, sys
from contextlib import nullcontext
from foregate.tuning import ray_workers
from foregate.cli.app import main
with ray_workers.open_ray("local") as crew:
    ray_workers.open_ray = lambda address: nullcontext(crew)
    for command in json.loads(sys.argv[1]):
        used = []
        crew.work = lambda *about: used.append(about) or ray_workers.RayWorkers.work(crew, *about)
        assert main(command) == 0
        assert used, "the cluster did nothing"
        print("end", flush=True)
"""
"""Commands on one cluster, since it takes much longer to start one than to do the work."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What a sweep and a what-if say that run on a local cluster, in a workspace that would lead its workers astray."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'foregate[ray]'")
    log, names = varied_log()
    folder, home = tmp_path_factory.mktemp("workspace"), tmp_path_factory.mktemp("home")
    (home / "events.db").write_bytes(log.path.read_bytes())
    (folder / "msgspec.py").write_text("raise SystemExit('a workspace is no place to look for modules')")
    (folder / "new.yaml").write_text(json.dumps(CHANGE))
    more = [*names[:6], "--ray", "local", "--json"]
    commands = json.dumps([["policy", "sweep", KEY, *more], ["policy", "what-if", "new.yaml", *more]])
    environ = {**os.environ, "FOREGATE_HOME": str(home)}
    command = [sys.executable, "-P", "-c", RUN, commands]
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [[json.loads(line) for line in part.splitlines()] for part in done.stdout.split("end\n")[:2]]


def test_a_sweep_on_a_local_cluster_is_that_of_this_process(answers: list[list[dict[str, Any]]]) -> None:
    log, names = varied_log()
    (found,), wanted = answers[0], sweep_sessions(log, names[:6], [KEY], Reviews(), None, 1)
    assert (found["turns"], found["calls"]) == (wanted.turns, wanted.calls)
    assert [(one["low"], one["held"], one["prompts"], one["requests"]) for one in found["points"]] == [
        (list(one.low), one.held, one.prompts, one.requests) for one in wanted.points
    ]


def test_a_what_if_on_a_local_cluster_is_that_of_this_process(answers: list[list[dict[str, Any]]]) -> None:
    log, names = varied_log()
    *rows, summary = answers[1]
    judged = WhatIf(log, Layer("new.yaml", "new.yaml", CHANGE, {}), 1)
    wanted = [row.to_json() for row in judged.find_changes(names[:6])]
    assert rows
    assert rows == json.loads(json.dumps(wanted))
    assert summary == build_summary_json(judged.tally, "new.yaml")


def test_what_is_sent_of_a_session_reads_as_the_log_does() -> None:
    log, names = varied_log()
    sent = SentLog()
    for name in names[:3]:
        sent.take(name, list(log.lines(name)))
        assert sent.head_anchor(name) == log.head_anchor(name)
        assert list(sent.lines(name)) == list(log.lines(name))
        for after, until in ((0, 0), (3, 0), (2, 9), (0, 5)):
            for kinds in ((), ("turn_judged", "need_answered")):
                wanted = list(log.events(name, after=after, until=until, kinds=kinds))
                assert list(sent.events(name, after=after, until=until, kinds=kinds)) == wanted
    with pytest.raises(LogError, match="was not sent"):
        sent.head_anchor("another")


def test_a_node_with_other_code_does_no_work() -> None:
    log, names = varied_log()
    (piece,) = split_session(log, names[0])
    lines = list(log.lines(names[0]))
    assert RayWorker(PieceCounter, hash_code()).work(piece, lines).counts
    with pytest.raises(UsageError, match="install the same version"):
        RayWorker(PieceCounter, "other").work(piece, lines)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("nonsense", "is no address of Ray"),
        ("127.0.0.1:1", "nothing answers"),
        ("ray://127.0.0.1:1", "nothing answers"),
    ],
)
def test_a_cluster_that_is_not_there_is_told_in_a_sentence(address: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence), open_ray(address):
        pass


def test_without_ray_one_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foregate.tuning.ray_workers.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'foregate\[ray\]'"), open_ray("local"):
        pass
