"""How a sandboxed command ends, what ends with it, and what it may use up until then."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.sandbox.place import LAUNCH, LIMITS, PATH, Place
from tests.forever import FOREVER

PYTHON = shutil.which("python3", path=PATH)
DAEMON = "setsid setsid sh -c 'echo $0; exec sleep 6{token}' </dev/null >/dev/null 2>&1 & "


def is_running(token: str) -> bool:
    """Whether any process of the machine has the token among its arguments."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    return any(token.encode() in line for line in lines)


def start_inside(place: Place, script: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-IS", str(LAUNCH)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(place.request(["/bin/sh", "-c", script]))
    process.stdin.close()
    process.stdin = None  # so that `communicate` does not look for it
    return process


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15), ("kill -9 $$", -9)])
def test_a_call_ends_as_its_command_ends(place: Place, script: str, code: int) -> None:
    assert place.run_inside("/bin/sh", "-c", script).returncode == code


def test_a_daemon_is_gone_when_its_call_has_ended(place: Place) -> None:
    token = f"{os.getpid()}.{int.from_bytes(os.urandom(4))}"
    script = DAEMON.format(token=token) + "until ps -eo args | grep -q '^sleep 6'; do :; done; echo up"
    assert place.run_inside("/bin/sh", "-c", script).stdout == "up\n"
    assert not is_running(token)


def test_everything_inside_is_gone_when_the_keeper_was_killed(place: Place) -> None:
    """The streams are held by whatever is left inside, so that their end says that nothing is."""
    process = start_inside(place, "sleep 3600 & trap '' TERM INT HUP; echo up; while :; do sleep 3600; done")
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
        assert process.communicate(timeout=FOREVER)[0] == b""


def test_the_first_process_inside_cannot_be_ended_by_the_command(place: Place) -> None:
    script = "kill -9 1; kill -TERM 1; kill -INT 1; echo still here; exit 4"
    ran = place.run_inside("/bin/sh", "-c", script)
    assert (ran.stdout, ran.returncode) == ("still here\n", 4)


def test_a_command_has_a_session_of_its_own_and_no_terminal(place: Place) -> None:
    assert place.run_inside("/bin/ps", "-o", "pid=,sid=,tty=", "-p", "2").stdout.split() == ["2", "2", "?"]


@pytest.mark.parametrize(
    ("statement", "outcome"),
    [
        ("bytes(3 << 30)", "MemoryError"),
        ("[open('/dev/null') for _ in range(1000)]", "EMFILE"),
        ("open('/tmp/a', 'wb').write(bytes(12 << 20))", "ENOSPC"),
        ("[open(f'/tmp/{n}', 'w') for n in range(3)] and open('/dev/shm/b', 'wb').write(bytes(9 << 20))", "ENOSPC"),
        ("[os.fork() or signal.pause() for _ in range(1000)]", "EAGAIN"),
    ],
)
@pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
def test_what_a_command_may_use_up_is_bounded(place: Place, statement: str, outcome: str) -> None:
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if "fork" in statement and place.user is None and os.geteuid() == 0 and release < (6, 14):
        pytest.skip("before Linux 6.14 nothing here bounds the processes of root")
    code = f"""
import errno, os, signal
try:
    {statement}
    print("unbounded")
except MemoryError:
    print("MemoryError")
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    assert PYTHON is not None
    assert place.run_inside(PYTHON, "-c", code).stdout == f"{outcome}\n"


def test_a_file_cannot_grow_past_its_bound(place: Place) -> None:
    ran = place.run_inside("/bin/sh", "-c", "head -c 100000 /dev/zero > /tmp/a", limits={**LIMITS, "file_bytes": 1000})
    assert ran.returncode == 128 + signal.SIGXFSZ


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({"workspace": "/nowhere"}, "workspace"),
        ({"scratch_bytes": -1}, "root"),
    ],
)
def test_a_step_that_fails_is_told_in_a_sentence_and_nothing_runs(
    place: Place, changes: dict[str, object], step: str
) -> None:
    ran = place.run_inside("/bin/sh", "-c", "echo ran", **changes)
    failure = json.loads(ran.stderr)
    assert (ran.returncode, ran.stdout, failure["step"]) == (125, "", step)
    assert "sandbox" in failure["sentence"]


def test_a_program_that_is_not_seen_inside_is_told(place: Place) -> None:
    ran = place.run_inside("/nowhere/program")
    assert json.loads(ran.stderr)["sentence"] == (
        "/nowhere/program cannot be started in the sandbox: No such file or directory"
    )


def test_a_stream_that_is_a_file_is_refused(place: Place, tmp_path: Path) -> None:
    """Through a descriptor of a file outside its owner could change the file's mode, size and times."""
    with (tmp_path / "out").open("wb") as out:
        ran = subprocess.run(
            [sys.executable, "-IS", str(LAUNCH)],
            input=place.request(["/bin/true"]),
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=FOREVER,
            check=False,
        )
    assert json.loads(ran.stderr)["step"] == "streams"


def test_a_mask_whose_folder_has_become_a_link_stops_the_call(place: Place) -> None:
    link = place.workspace / "turned"
    link.symlink_to("conf")
    try:
        ran = place.run_inside("/bin/true", masks=[str(link / "app.toml")])
    finally:
        link.unlink()
    assert json.loads(ran.stderr)["step"] == "masks"
