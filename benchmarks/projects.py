"""Real small projects: tests, lint, format, build, install and use, outside and in sandboxes, compared.

Each step runs by `run_shell` in a session whose person says yes, and before that without a session in the same folder.
A step differs where its exit code, its output (without times and such) or the files it leaves do. Packages come from a
registry that this benchmark serves on the loopback network, and that a step is given by `access`.

    python benchmarks/projects.py            every project whose toolchain this machine has
    python benchmarks/projects.py go rust
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from building.projects import PROJECTS, Project, Step
from building.registry import serve_registry
from confining.everyday import settle
from confining.projects import GIT, run_script
from confining.session import play_line
from confining.world import changed, describe
from figures import Report
from sandbox import find_tier

SAY = (
    "Test the project, check and format the code, build it, install the package benchdep with what it needs and use it."
)
SECONDS = 120
UNCOMPARED = {".git", "__pycache__", "incremental"}
"""Folders whose files are not compared: caches, with names or contents that no two runs share."""
BUILT = {"target", ".venv", "node_modules"}
"""Folders whose files are compared by their names: what is built holds times."""
State = dict[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step: exit code, output, the files there are afterwards, and seconds."""

    code: int | None
    output: str
    files: State
    seconds: float
    refused: str = ""


def main(names: list[str]) -> int:
    """Print a table; return 1 where a step differs."""
    report = Report("projects", "agent/sandbox", "agent/workspace", "benchmarks/building")
    with tempfile.TemporaryDirectory() as name, serve_registry() as port:
        base = Path(name).resolve()
        (base / "workspace").mkdir()
        tier = find_tier(base / "workspace")
        if tier != "full":
            report.skip("all", f"the tier is {tier}, and only in `full` a sandbox is given a registry")
        else:
            measure(base, names or list(PROJECTS), port, report)
    return report.end()


def measure(base: Path, names: list[str], port: int, report: Report) -> None:
    """Print a line for every step, and report how many of each project's differ."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for name in names:
        project = PROJECTS[name]
        if missing := [program for program in project.needs if shutil.which(program) is None]:
            report.skip(name, f"there is no {missing[0]}")
            continue
        differing = 0
        outside = [run_outside(base, step, port) for step in begin(base, project, port)]
        inside = [run_inside(base, step, port) for step in begin(base, project, port)]
        for step, bare, ours in zip(project.steps, outside, inside, strict=True):
            differs = compare(step, bare, ours)
            print(
                f"{name:8} {step.name:12} exit {bare.code}  {len(ours.files):5} paths  {bare.seconds:5.1f} s outside,"
                f" {ours.seconds:5.1f} s in a session   {'; '.join(differs) or 'same'}",
                flush=True,
            )
            differing += bool(differs)
        report.add(f"{name}: steps that differ", differing, "", most=0, note=f"of {len(outside)}")


def begin(base: Path, project: Project, port: int) -> Iterator[Step]:
    """Make the project anew, then yield the steps."""
    workspace = base / "workspace"
    shutil.rmtree(workspace)
    for path, text in project.files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text.replace("{port}", str(port)))
    run_script(GIT, workspace, {"PATH": os.environ["PATH"]})
    yield from project.steps


def run_outside(base: Path, step: Step, port: int) -> Outcome:
    """Run a step as a person would, but in a home of the benchmark's own."""
    start, home = time.perf_counter(), base / "home"
    home.mkdir(exist_ok=True)
    ran = subprocess.run(
        ["/bin/sh", "-c", step.line.replace("{port}", str(port))],
        cwd=base / "workspace",
        env={**list_variables(), "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    seconds = time.perf_counter() - start
    return Outcome(ran.returncode, ran.stdout.decode("utf-8", "replace"), look(base / "workspace"), seconds)


def list_variables() -> Mapping[str, str]:
    """Return the environment outside: what sandboxes have as well, and where a toolchain of the real home lies."""
    rustup = Path(os.environ.get("RUSTUP_HOME", Path.home() / ".rustup"))
    found = {"RUSTUP_HOME": str(rustup)} if rustup.is_dir() else {}
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_audit": "false", "npm_config_fund": "false"}
    quiet |= {"npm_config_update_notifier": "false", "GOTOOLCHAIN": "local"}
    return {"PATH": os.environ["PATH"], "LANG": os.environ.get("LANG", "C.UTF-8"), **quiet, **found}


def run_inside(base: Path, step: Step, port: int) -> Outcome:
    """Run a step by the shell of a session."""
    start, access = time.perf_counter(), [f"port:{port}"] if step.installs else []
    line, workspace = step.line.replace("{port}", str(port)), base / "workspace"
    about = (line, SAY, workspace, base / "state", "yes")
    ran = asyncio.run(play_line(*about, shell=True, seconds=SECONDS, access=access))
    seconds = time.perf_counter() - start
    code = 0 if ran.exit_code is None and not ran.code else ran.exit_code
    output = ran.output.removesuffix(f"exit code {code}") if code else ran.output
    return Outcome(code, output, look(workspace), seconds, ran.code)


def look(workspace: Path) -> State:
    """Return what lies in a folder."""
    found: State = {}
    for path in workspace.rglob("*"):
        parts = path.relative_to(workspace).parts
        if UNCOMPARED.isdisjoint(parts):
            name = "/".join(parts)
            found[name] = describe(path) if BUILT.isdisjoint(parts) else ("built", path.is_dir(), path.is_symlink())
    return found


def compare(step: Step, bare: Outcome, ours: Outcome) -> list[str]:
    """Return in words what differs, or that the step does not work outside either."""
    if bare.code != step.code:
        return [f"ends with {bare.code} outside: {bare.output[-300:]!r}"]
    if ours.refused:
        return [f"did not run: {ours.refused}"]
    found = []
    if bare.code != ours.code:
        found.append(f"exit code {ours.code} and not {bare.code}")
    theirs, said = settle(bare.output), settle(ours.output)
    if theirs != said:
        found.append(f"says {said[-300:]!r} and not {theirs[-300:]!r}")
    if files := changed(bare.files, ours.files):
        found.append(f"{len(files)} files: {', '.join(files[:5])}")
    return found


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("names", nargs="*", choices=[[], *PROJECTS], metavar="PROJECT", help=", ".join(PROJECTS))
    sys.exit(main(reader.parse_args().names))
