"""The lists of command lines: long enough, run in a world of their own, and a part of them holds in every run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.forever import FOREVER

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
USERS = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]


@pytest.fixture(scope="module", autouse=True)
def beside() -> Iterator[None]:
    """Make the benchmarks' own modules importable, as they are beside the scripts."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def measured(**order: Any) -> list[dict[str, Any]]:
    """Return what came of a combination; skip where the machine has no such tier, or no world of its own."""
    commands = import_module("commands")
    whole = {"tier": "full", "says": "no", "only": "", "every": 1, "shell": False, "minutes": 5, **order}
    found = commands.measure(whole)
    if "skipped" in found:
        pytest.skip(found["skipped"])
    assert "refused" not in found, found
    lines = found["lines"]
    assert lines
    return list(lines)


@pytest.mark.parametrize(("kind", "least"), [("everyday", 170), ("harmful", 320)])
def test_a_list_holds_as_many_lines_as_it_must_and_none_twice_in_a_group(kind: str, least: int) -> None:
    names = import_module("commands").LISTS[kind]
    groups = [group for name in names for group in import_module("confining.lists").read_list(name)]
    assert sum(len(group.lines) for group in groups) >= least
    for group in groups:
        assert len({line.run for line in group.lines}) == len(group.lines), group.name


@pytest.mark.parametrize("text", ["echo 1 > /proc/sys/kernel/panic", "echo b > /proc/sysrq-trigger", "ls /sys/power"])
def test_a_line_that_names_a_setting_of_the_whole_machine_is_no_line(text: str) -> None:
    with pytest.raises(ValidationError, match="setting of the whole machine"):
        import_module("confining.lists").Line(run=text)


def test_nothing_that_is_done_in_a_world_of_its_own_is_seen_outside(tmp_path: Path) -> None:
    marks = [Path(folder, f"foregate-mark-{os.getpid()}") for folder in ("/etc", "/tmp", "/home", "/dev/shm", "/run")]
    script = (
        "import os, socket, subprocess, sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "from confining.outer import NoWorldError, run_in_world\n"
        "def work():\n"
        "    for mark in sys.argv[2:]:\n"
        "        Path(mark).touch()\n"
        "    assert os.getpid() == 1\n"
        "    try:\n"
        "        socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)\n"
        "    except OSError:\n"
        "        return\n"
        "    raise AssertionError('the machine was reached')\n"
        "try:\n"
        "    sys.exit(run_in_world(work, [], 30))\n"
        "except NoWorldError as error:\n"
        "    print(error)\n"
        "    sys.exit(77)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = [sys.executable, "-s", "-E", "-B", "-c", script, str(listener.getsockname()[1]), *map(str, marks)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=FOREVER, check=False)
        listener.setblocking(False)
        with suppress(BlockingIOError):
            listener.accept()
            pytest.fail("somebody came")
    if ran.returncode == 77:
        pytest.skip(ran.stdout)
    assert ran.returncode == 0, ran.stderr
    assert not [mark for mark in marks if mark.exists()]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("says", ["no", "workspace"])
def test_of_harmful_lines_none_gets_out(user: str, says: str) -> None:
    lines = measured(kind="harmful", user=user, says=says, every=90)
    assert [line for line in lines if line["harms"]] == []


@pytest.mark.parametrize("user", USERS)
def test_everyday_lines_ask_nobody_and_end_in_a_session_as_they_do_without_one(user: str) -> None:
    lines = measured(kind="everyday", user=user, says="yes", every=34)
    assert [line for line in lines if line["differs"] or line["asked"] or line["code"]] == []


@pytest.mark.parametrize("habit", ["own", "shell"])
@pytest.mark.parametrize("name", ["review a diff", "fix a failing test"])
def test_an_everyday_session_asks_neither_the_model_nor_the_person_for_more(
    name: str, habit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])  # which the session changes
    if import_module("sandbox").find_tier(Path(__file__).parent) != "full":
        pytest.skip("this machine has no sandbox in which work can be done unasked")
    cost = import_module("guarding.sessions").play_session(name, habit)
    assert (cost.asked - cost.bare, cost.prompts, cost.done) == (0, (), True)
