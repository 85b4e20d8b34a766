"""What counts as an observation changes nothing when the real program runs: GNU's, and BusyBox's where installed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from foregate.policy.risk.commands import effect_of_command
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import Command
from foregate.schemas.tool_spec import Effect
from tests.forever import FOREVER

POLICY = default_policy()
LISTED = POLICY.commands.read_only
RUNS = 24
"""Vectors of one program that are run."""
TRIES = 3000
"""Vectors of one program that are made up."""
NAMES = ("a.txt", "b.txt", "d", ".", "new.txt", "-", "1", "2,3", "teh", "+1", "+1f", "+f", "+2lf", "MARK", "-weird")
TOUCH = ("-exec", "touch", "MARK", ";"), ("-exec", "touch", "MARK", "{}", "+"), ("-execdir", "./payload", "{}", "+")
WRITES = (
    *(("-delete",), ("-fprint", "MARK"), ("-fls", "MARK"), ("-ok", "touch", "MARK", "+"), ("(", "-delete", ")")),
    *(("!", "-delete"), (",", "-delete"), ("-o", "MARK"), ("-oMARK",), ("-ro", "MARK"), ("-noMARK",), ("-uo", "a.txt")),
    *(
        ("--output=MARK",),
        ("--outp=MARK",),
        ("--outp", "MARK"),
        ("--compress-program=./payload",),
        ("--comp", "./payload"),
    ),
    *(
        ("--files0-from=a.txt",),
        ("--files0", "a.txt"),
        ("-T", "d"),
        ("-S", "1"),
        ("-C",),
        ("-m", "a.txt"),
        ("-Cm", "a.txt"),
    ),
    *(("-s", "01010000"), ("--set=now",), ("01010000",), ("-f",), ("-F",), ("--follow",), ("--foll",), ("--retry",)),
    *(("-qf",), ("-5f",), ("-n1f",), ("-z",), ("-i",), ("-w",), ("-f", "a.txt"), ("--file=a.txt",), ("-D", "exec")),
)
HARD = tuple(
    tuple(line.split(" "))
    for line in (
        "find -- . -maxdepth 0 -exec touch MARK {} +",
        "find -- -maxdepth 0 -exec touch MARK {} +",
        "find -- ( -exec touch MARK {} + )",
        "find -- ! -exec touch MARK {} +",
        "find -- . -name a.txt -delete",
        "find -- . -fprint MARK",
        "find . -name -- -exec touch MARK {} +",
        "find . -- -delete",
        "find -- -- . -delete",
        "sort -- -o MARK a.txt",
        "sort a.txt -- -o MARK",
        "sort -t -- -o MARK a.txt",
        "sort -k -- -oMARK a.txt",
        "sort +1 -2 -o MARK a.txt",
        "tail +1f a.txt",
        "tail +f a.txt",
        "tail +2lf a.txt",
        "tail +1f -- a.txt",
        "tail -- +1f",
        "date -- 01010000",
        "file -C -- -m a.txt",
        "wc -- --files0-from=a.txt",
    )
)
"""Vectors that look like more than they are, or like less."""
VARIANTS = [
    pytest.param(name, box, id=f"{'busybox ' if box else ''}{name}")
    for name in LISTED
    for box in (False, True)
    if shutil.which(name) and (not box or shutil.which("busybox"))
]


def observes(*argv: str) -> bool:
    return effect_of_command(Command(argv), POLICY) is Effect.OBSERVATION


def vectors(program: str) -> list[tuple[str, ...]]:
    """Return argument vectors of a program, each time the same: listed options, names, and words that write."""
    choice = random.Random(program)
    entry = LISTED[program]
    tame = [*((option,) for option in entry.options), *((name,) for name in NAMES), ("--",), ("--",)]
    tame += [(option, value) for option in entry.valued for value in ("1", "a.txt", "--", "-delete")]
    tame += [(f"{option}{value}",) for option in entry.valued for value in ("1", "=1", "a")]
    found: dict[tuple[str, ...], None] = dict.fromkeys(argv for argv in HARD if argv[0] == program)
    for _ in range(TRIES):
        pieces = [choice.choice(tame) for _ in range(choice.randint(0, 5))]
        if choice.random() < 0.6:
            pieces.insert(choice.randint(0, len(pieces)), choice.choice((*TOUCH, *WRITES)))
        found[program, *(word for piece in pieces for word in piece)] = None
    return list(found)


def lay_out(folder: Path) -> None:
    """Fill a folder with a few files, and a program that leaves a mark when anything runs it."""
    (folder / "d").mkdir(parents=True)
    (folder / "a.txt").write_text("teh\ncat\0b.txt\0")
    (folder / "b.txt").write_text("1,2,3\n" * 3)
    (folder / "d" / "a.txt").write_text("sat\n")
    (folder / "-weird").write_text("w\n")
    (folder / "payload").write_text("#!/bin/sh\n: > MARK\ncat\n")
    (folder / "payload").chmod(0o700)


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return kind and mode, time of change and content of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        found[str(path)] = (about.st_mode, about.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


def run(argv: tuple[str, ...], folder: Path, *, box: bool) -> None:
    """Run a program in the folder as the tools do: no shell, no input, a home of its own; it must come to an end."""
    program = shutil.which("busybox" if box else argv[0])
    assert program is not None
    home = folder.with_name("home")
    home.mkdir(exist_ok=True)
    subprocess.run(
        argv,
        executable=program,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=FOREVER,
        check=False,
    )


@pytest.mark.parametrize(("program", "box"), VARIANTS)
def test_what_counts_as_an_observation_changes_nothing_and_ends(program: str, box: bool, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    lay_out(folder)
    before = state(folder)
    chosen = [argv for argv in vectors(program) if observes(*argv)]
    assert chosen
    for argv in chosen[:RUNS]:
        run(argv, folder, box=box)
        assert state(folder) == before, argv


def test_the_check_sees_what_a_program_leaves_behind(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    lay_out(folder)
    before = state(folder)
    argv = ("find", "--", ".", "-maxdepth", "0", "-exec", "./payload", "{}", "+")
    assert not observes(*argv)
    run(argv, folder, box=False)
    assert state(folder).keys() - before.keys() == {str(folder / "MARK")}
