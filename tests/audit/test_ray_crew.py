"""Work on a Ray cluster comes to what it comes to in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from foregate.audit.pieces import split_session
from foregate.audit.ray_crew import RayWorker, SentLog, open_ray_crew
from foregate.audit.reach_index import hash_code
from foregate.audit.recorded_counts import PieceCounter
from foregate.audit.sweep import sweep_sessions
from foregate.schemas.errors import LogError, UsageError
from foregate.telemetry.review.reviews import Reviews
from tests.varied import varied_log

KEY = "narration.min_chars"


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'foregate[ray]'")
def test_a_sweep_on_a_local_cluster_is_that_of_this_process(tmp_path: Path, folder: Path) -> None:
    log, names = varied_log()
    home = tmp_path / "home"
    home.mkdir()
    (home / "events.db").write_bytes(log.path.read_bytes())
    (folder / "msgspec.py").write_text("raise SystemExit('a workspace is no place to look for modules')")
    command = [sys.executable, "-P", "-m", "foregate", "policy", "sweep", KEY, *names[:6], "--ray", "local", "--json"]
    environ = {**os.environ, "FOREGATE_HOME": str(home)}
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found, wanted = json.loads(done.stdout), sweep_sessions(log, names[:6], [KEY], Reviews(), None, 1)
    assert (found["turns"], found["calls"]) == (wanted.turns, wanted.calls)
    assert [(one["low"], one["held"], one["prompts"], one["requests"]) for one in found["points"]] == [
        (list(one.low), one.held, one.prompts, one.requests) for one in wanted.points
    ]


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
    with pytest.raises(UsageError, match=sentence), open_ray_crew(address):
        pass


def test_without_ray_one_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foregate.audit.ray_crew.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'foregate\[ray\]'"), open_ray_crew("local"):
        pass
