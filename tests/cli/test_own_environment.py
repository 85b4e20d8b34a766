"""What the command line was started with stays with it: real processes, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.models.openai.scripted_server import KEY, message
from tests.agent.planning.test_worked_examples import wants
from tests.cli.conftest import Endpoint

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="this is how Linux tells of processes")
SECRET = "an-unshaped-value-7"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
WAITING = "import sys; print('ready', flush=True); sys.stdin.read()"
IN_PLACE = """
from foregate.agent.sandbox.probe import Probe
from foregate.agent.workspace import confinement, work_sandbox
from foregate.cli import main

for module in (confinement, work_sandbox):
    module._probe = lambda *_: Probe(tier="none", reason="this is a test", cure="")
main()
"""
"""The command line on a machine without sandboxes."""
READ = "for one in $PPID $(cat pid); do tr '\\0' '\\n' < /proc/$one/environ; done; echo the end is $((6 * 7))"


@pytest.fixture(params=["this user", "an ordinary user"])
def user(request: pytest.FixtureRequest) -> list[str]:
    """What to put before a command: nothing, or what gives up being root."""
    if request.param == "this user":
        return []
    if os.geteuid() != 0:
        pytest.skip("this user is an ordinary one already")
    if shutil.which("setpriv") is None or subprocess.run([*NOBODY, sys.executable, "-c", ""], check=False).returncode:
        pytest.skip("nobody cannot run this Python")
    return NOBODY


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may enter and write to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def environ_of(place: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return kept | {"FOREGATE_HOME": str(place / "home"), "HOME": str(place), "DB_PASSWORD": SECRET}


def start(user: list[str], place: Path, *command: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*user, sys.executable, "-I", *command],
        cwd=place,
        env=environ_of(place),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def read(user: list[str], path: str) -> str:
    return subprocess.run([*user, "cat", path], capture_output=True, text=True, check=False).stdout


def test_another_process_of_the_same_user_reads_nothing(user: list[str], place: Path) -> None:
    """Also what serves tools; the program beside it shows that the reader could."""
    open_to_all = start(user, place, "-c", WAITING)
    served = start(user, place, "-m", "foregate", "tools", "serve", "--ws", "127.0.0.1:0")
    try:
        assert SECRET in read(user, f"/proc/{open_to_all.pid}/environ")
        assert read(user, f"/proc/{served.pid}/environ").strip("\0") == ""
    finally:
        end(open_to_all)
        end(served)


def test_an_ordinary_user_cannot_open_its_memory(place: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        ordinary: list[str] = []
    else:
        ordinary = NOBODY
    if os.geteuid() == 0 and subprocess.run([*ordinary, sys.executable, "-c", ""], check=False).returncode:
        pytest.skip("nobody cannot run this Python")
    code = "import sys\ntry: open(sys.argv[1], 'rb'); print('opened')\nexcept PermissionError: print('refused')"
    open_to_all = start(ordinary, place, "-c", WAITING)
    served = start(ordinary, place, "-m", "foregate", "tools", "serve", "--ws", "127.0.0.1:0")
    try:
        said = [
            subprocess.run(
                [*ordinary, sys.executable, "-c", code, f"/proc/{pid}/maps"], capture_output=True, text=True, check=True
            ).stdout
            for pid in (open_to_all.pid, served.pid)
        ]
        assert said == ["opened\n", "refused\n"]
    finally:
        end(open_to_all)
        end(served)


def test_the_program_itself_and_what_it_starts_see_no_difference(place: Path) -> None:
    code = (
        "import ctypes, os, subprocess, sys\n"
        "from foregate.cli.own_environment import hide_environment\n"
        "before = dict(os.environ)\n"
        "hide_environment()\n"
        "library = ctypes.CDLL(None)\n"
        "library.getenv.restype = ctypes.c_char_p\n"
        "child = subprocess.run(['env'], capture_output=True, text=True).stdout.splitlines()\n"
        "os.environ['LATER'] = 'x'\n"
        "assert dict(os.environ) == before | {'LATER': 'x'}\n"
        "assert sorted(child) == sorted(f'{k}={v}' for k, v in before.items()), child\n"
        "assert library.getenv(b'DB_PASSWORD').decode() == before['DB_PASSWORD']\n"
        "assert library.getenv(b'LATER') == b'x'\n"
        "print(before['DB_PASSWORD'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], env=environ_of(place), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{SECRET}\n", "")


def test_hiding_an_empty_environment_is_no_error() -> None:
    code = "from foregate.cli.own_environment import hide_environment; hide_environment(); hide_environment()"
    done = subprocess.run([sys.executable, "-I", "-c", code], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("started", [("-Im", "foregate"), ("-Ic", IN_PLACE)], ids=["here", "without sandboxes"])
def test_a_command_a_person_allowed_gets_no_secret_of_its_parent(
    user: list[str], place: Path, endpoint: Endpoint, started: tuple[str, str]
) -> None:
    """Neither the log nor the model's next request holds the key or a password."""
    server = endpoint(wants("run_shell", {"command": READ, "access": ["network:example.org"]}), message("That is all."))
    (place / "work").mkdir()
    (place / "work").chmod(0o777)
    (place / "policy.yaml").write_text(
        "".join(
            f"{gate}: {{mode: 'off'}}\n"
            for gate in ("narration", "drift", "uncertainty", "evidence", "plan", "critique")
        )
    )
    chat = subprocess.Popen(
        [*user, sys.executable, *started, "chat", "--json", "--policy", str(place / "policy.yaml")],
        cwd=place / "work",
        env=environ_of(place) | {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert chat.stdin is not None
    assert chat.stdout is not None
    (place / "work/pid").write_text(str(chat.pid))
    shown = ""
    print(json.dumps({"message": "show it"}), file=chat.stdin, flush=True)
    for line in chat.stdout:
        shown += line
        if "asks" in (said := json.loads(line)):
            print(json.dumps({"answer": "yes", "request": said["request"]}), file=chat.stdin, flush=True)
        if said.get("kind") == "task_ended":
            print("/quit", file=chat.stdin, flush=True)
    chat.communicate()
    told = str(server.requests[-1]["messages"])
    assert "the end is 42" in told, shown
    assert "masked" not in told  # there was nothing to mask
    assert '"asks"' in shown
    recorded = b"".join(file.read_bytes() for file in (place / "home").rglob("*") if file.is_file())
    assert b"tool_finished" in recorded
    for secret in (SECRET, KEY):
        assert secret not in told
        assert secret not in shown
        assert secret.encode() not in recorded
