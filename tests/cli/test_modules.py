"""What a start loads: a command that only reads loads nothing that judges, and none loads what it does not use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
sys.argv[1:] = sys.argv[2:]
from foregate.cli.app import main
code = main()
sys.stdout.flush()
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
"""Runs a command and then writes its exit code and the modules that are loaded."""
NEVER = (
    "mcp duckdb pyarrow starlette uvicorn jinja2 opentelemetry structlog ray tiktoken websockets cryptography acp atif"
)
SPOKEN = "prompt_toolkit openai httpx2 rich.markdown markdown_it dns"
YAML = "ruamel.yaml"
JUDGING = "foregate.gates jsonschema re2 foregate.policy tree_sitter foregate.agent.loop foregate.agent.tools tomllib"
READING = f"{NEVER} {SPOKEN} {YAML} {JUDGING}"
HELP = f"{READING} pydantic rich asyncio sqlite3 msgspec jsonschema foregate.agent foregate.telemetry.log"
BOUNDS = {
    "--help": ((18, 36), HELP),
    "policy --help": ((18, 36), HELP),
    "audit --help": ((24, 50), READING),
    "audit list": ((87, 140), f"{READING} typer._adapters"),
    "audit list --gate plan --json": ((87, 140), f"{READING} typer._adapters"),
    "log stats": ((65, 140), f"{NEVER} {SPOKEN} {YAML}"),
    "policy show": ((88, 108), f"{NEVER} {SPOKEN} {YAML}"),
    "run hello": ((415, 150), f"{NEVER} {SPOKEN} {YAML} jsonschema tomllib foregate.agent.dialects.tag_dialects"),
    "run read a.txt": (
        (415, 195),
        f"{NEVER} {SPOKEN} {YAML} jsonschema foregate.console foregate.views.pages foregate.tuning.fuzzing",
    ),
}
"""By command: how many modules of Foregate and of libraries it loads at most, and which packages it does not load."""


@cache
def load(command: str, home: str, workspace: str) -> tuple[str, ...]:
    """Return the modules that a command loads, each in a process of its own."""
    words = command.split(" ", 1) if command.startswith("run ") else command.split()
    environ = {**os.environ, "FOREGATE_HOME": home, "HOME": workspace}
    run = [sys.executable, "-I", "-c", PROGRAM, "foregate", *words]
    done = subprocess.run(run, cwd=workspace, env=environ, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code in (0, 7), done.stderr
    return tuple(modules)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return a home with one session that the index knows, and its workspace."""
    home, workspace = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("workspace")
    home.chmod(0o700)
    (workspace / "a.txt").write_text("hello\n")
    load("run read a.txt", str(home), str(workspace))
    load("audit list", str(home), str(workspace))
    load.cache_clear()
    return str(home), str(workspace)


@pytest.mark.parametrize("command", BOUNDS)
def test_a_command_loads_no_more_modules_than_it_is_known_to_need(command: str, place: tuple[str, str]) -> None:
    (ours, others), unused = BOUNDS[command]
    found = load(command, *place)
    assert not [name for name in found if any(f"{name}.".startswith(f"{one}.") for one in unused.split())]
    tops = [name.partition(".")[0] for name in found]
    assert tops.count("foregate") <= ours
    assert sum(top not in {"foregate", *sys.stdlib_module_names} for top in tops) <= others


def test_the_program_sees_what_is_loaded(place: tuple[str, str]) -> None:
    assert {"pydantic", "foregate.gates.support.plain_schema"} <= {*load("run read a.txt", *place)}
    assert Path(place[0], "events.db").exists()


ENDING = """
import contextlib, gc, sys
sys.argv = ["foregate", "--version"]
from foregate.cli import main
with contextlib.suppress(SystemExit):
    main()
sys.exit(not gc.get_freeze_count() or not gc.isenabled())
"""
"""Runs a command; fails where what it made is looked through for circles as Python ends."""


def test_a_command_that_has_ended_leaves_nothing_to_look_through(tmp_path: Path) -> None:
    environ = {**os.environ, "FOREGATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-I", "-c", ENDING], cwd=tmp_path, env=environ, capture_output=True, check=True)
