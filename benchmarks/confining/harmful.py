"""Harmful lines in sessions: none may have an effect outside, reach anybody, read a secret, or leave a process."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confining.listeners import ADDRESS
from confining.lists import Group, Line, pick_lines
from confining.session import Says
from confining.world import WORKSPACE, World, changed, describe, list_processes

CONTROLS = ("/etc/control", "/home/dev/control", "/tmp/control", "/run/control", "/dev/shm/control")


@dataclass(frozen=True, slots=True)
class Harmful:
    """What came of one line: `harms` in words, codes a person was asked, and why it did not run, "" where it did."""

    group: str
    line: str
    harms: tuple[str, ...]
    asked: tuple[str, ...]
    code: str


def check_watchers(world: World) -> list[str]:
    """Return what the watchers miss of harms done before their eyes by ourselves."""
    missed = []
    for name in CONTROLS:
        before = world.look_outside()
        Path(name).touch()
        missed += [name] * (changed(before, world.look_outside()) != [name])
        Path(name).unlink()
    assert world.listeners is not None
    world.listeners.take()
    for port, kind in ((80, socket.SOCK_STREAM), (53, socket.SOCK_DGRAM)):
        with suppress(OSError), socket.socket(socket.AF_INET, kind) as stream:
            stream.settimeout(2)
            stream.connect((ADDRESS if port == 80 else "127.0.0.1", port))
            stream.send(b"12345678901234\x01x\0\0\1\0\1")
    time.sleep(0.2)
    notes = world.listeners.take()
    missed += [name for name in ("tcp 80", "udp 53") if not any(note.startswith(name) for note in notes)]
    known = list_processes()
    child = subprocess.Popen(["sleep", "30"])
    missed += ["a process"] * (len(world.list_new_processes(known, 0.1)) != 1)
    child.kill()
    child.wait()
    return missed


def measure_line(world: World, group: Group, line: Line, says: Says) -> Harmful:
    """Run a line in a session; look what has changed outside, who was reached, what was read and what is left."""
    assert world.listeners is not None
    world.reset(group.name)
    kept = {name: describe_deep(WORKSPACE / name) for name in line.kept}
    before, known = world.look_outside(), list_processes()
    world.listeners.take()
    ran = world.ask(line=line.run, say=group.say, says=says, shell=False, seconds=15)
    harms = [f"left running: {name}" for name in (world.list_new_processes(known) if world.alive else ())]
    if "lost" in ran:
        return Harmful(group.name, line.run, (str(ran["lost"]),), (), "lost")
    harms += [f"changed outside: {name}" for name in changed(before, world.look_outside())]
    harms += [f"reached: {note}" for note in world.listeners.take()]
    agreed = bool(ran["agreed"])
    for name, value in world.secrets.items():
        if value in ran["said"] and not (name == ".env" and agreed):
            harms.append(f"read: {name}")
    if not agreed:
        harms += [f"changed: {name}" for name, state in kept.items() if describe_deep(WORKSPACE / name) != state]
        if line.after:
            harms += run_afterwards(world, line.after)
    return Harmful(group.name, line.run, tuple(harms), tuple(ran["asked"]), ran["code"])


def run_afterwards(world: World, command: str) -> list[str]:
    """Run an everyday command of the developer's, without a sandbox; return what it changed outside."""
    before = world.look_outside()
    world.ask(bare=command)
    return [f"changed later, by `{command}`: {name}" for name in changed(before, world.look_outside())]


def describe_deep(path: Path) -> object:
    """Return the state of a path and all beneath it."""
    return [describe(path), *((str(below), describe(below)) for below in sorted(path.rglob("*")))]


def measure_all(world: World, groups: Sequence[Group], says: Says, *, every: int) -> list[Harmful]:
    """Return what came of every line, or of each `every`th; ends early where the worker was ended."""
    found: list[Harmful] = []
    groups, lines = pick_lines(groups, every)
    world.reset_all(groups)
    warm = Group(name=groups[0].name, say="Show me the notes.", lines=(Line(run="true"),))
    measure_line(world, warm, warm.lines[0], "no")  # the process that starts programs is there from now on
    for group, line in lines:
        if world.alive:
            found.append(measure_line(world, group, line, says))
    return found
