"""What programs need to start: the installations of their interpreters, found by links, `#!` and `pyvenv.cfg`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

_HEAD, _MOST, _MOST_LINKS = 1024, 4096, 40
# Where `#!` would be too long for the kernel, installers write a script for the shell that starts the interpreter.
# "#!/usr/bin/python3".
_INTERPRETER = re.compile(rb"#![ \t]*(/\S+)(?:[^\n]*\n'''exec' [\"']?(/[^\"'\n]+?)[\"']? \"\$0\")?")
# "home = /usr/bin".
_BASE = re.compile(r"^home *= *(/.*?) *$", re.MULTILINE)
_VENV, _VENVS = "pyvenv.cfg", (".venv", "venv", "env")
# What lies in a folder that is an installation of an interpreter, or a virtual environment.
_MARKS = (
    ("bin/python*", _VENV),
    ("bin/python*", "lib*/python*/os.py"),
    ("bin/pypy*", "lib/pypy*/os.py"),
    ("bin/node", "lib/node_modules/npm/package.json"),
    ("bin/ruby", "lib/ruby/*/rubygems.rb"),
)
_PARTS = ("bin", "lib", "lib64", "include", _VENV)


class Needs:
    """Collects what programs need: resolved folders and files in `paths`, and the `links` that lead to them.

    Whoever wrote a program may want to look into somebody's files. So of what it names only installations of
    interpreters count, and of these only the parts that a program is started from. `may_show` refuses a folder, and
    what `is_shown` holds anyway is left out.
    """

    def __init__(self, may_show: Callable[[str], bool], is_shown: Callable[[str], bool]) -> None:
        self.paths: set[str] = set()
        self.links: dict[str, str] = {}
        self._may_show, self._is_shown = may_show, is_shown
        self._seen: set[str] = set()
        self._pending: list[str] = []
        self._installations: dict[str, bool] = {}

    def add_folder(self, folder: str) -> None:
        """Add what the programs in a folder need, and what it was made from where it is a virtual environment's."""
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in list(islice(entries, _MOST)):
                self._pending += [entry.path] if entry.is_symlink() else read_interpreters(entry.path)
        self._add_base(_name_parent(folder))
        self._add_pending()

    def add_program(self, path: str) -> None:
        """Add what a program needs, given by an absolute path, and what its interpreter needs."""
        self._pending.append(path)
        self._add_pending()

    def _add_pending(self) -> None:
        """Add one after the other, for a chain of programs may be longer than calls can be nested."""
        while self._pending:
            self._add_one(self._pending.pop())

    def _add_one(self, path: str) -> None:
        if path in self._seen or len(self._seen) > _MOST:
            return
        self._seen.add(path)
        links: dict[str, str] = {}
        real = follow_links(path, links)
        # The interpreter of a virtual environment is a link, and needs what lies at both its ends.
        folders = (_name_parent(real), os.path.realpath(_name_parent(path)))
        if True in {self._add_installation(folder) for folder in folders}:
            self.links |= links
        self._pending += read_interpreters(real)

    def _add_installation(self, folder: str) -> bool:
        """Add the installation whose resolved folder of programs this is; return whether it will be seen."""
        if folder not in self._installations:
            prefix = _name_parent(folder)
            is_one = folder.endswith("/bin") and self._may_show(prefix) and is_installation(prefix)
            self._installations[folder] = is_one or self._is_shown(folder)
            if is_one and not self._is_shown(folder):
                self._add_parts(prefix)
            self._add_base(prefix)
        return self._installations[folder]

    def _add_parts(self, prefix: str) -> None:
        for part in _PARTS:
            links: dict[str, str] = {}
            real = follow_links(f"{prefix}/{part}", links)
            if os.path.exists(real) and real.startswith(f"{prefix}/"):  # noqa: PTH110 - all paths here are text
                self.paths.add(real)
                self.links |= links

    def _add_base(self, prefix: str) -> None:
        """Add what a folder was made from where it is a virtual environment."""
        for base in _BASE.findall(_read(f"{prefix}/{_VENV}").decode("utf-8", "surrogateescape")):
            self._pending.append(f"{base}/python3")


def is_installation(prefix: str) -> bool:
    """Whether a folder holds an interpreter with its library, or is a virtual environment."""
    return any(all(any(Path(prefix).glob(mark)) for mark in marks) for marks in _MARKS)


def is_linked_python(path: str, target: str) -> bool:
    """Whether a path is that of a virtual environment's Python, and what it leads to is an installation's."""
    folder, name = os.path.split(os.path.realpath(target))
    ends = (path.split("/")[-2:], [folder.rpartition("/")[2], name])
    is_named = all(end[0] == "bin" and end[-1].startswith(("python", "pypy")) for end in ends)
    return is_named and is_installation(_name_parent(folder))


def list_venvs(folder: str) -> Iterator[str]:
    """Yield the folders of programs of the virtual environments of a project and of those of its folders."""
    with suppress(OSError), os.scandir(folder) as entries:
        inner = (entry.path for entry in islice(entries, _MOST) if entry.is_dir(follow_symlinks=False))
        for path in (folder, *inner):
            for venv in (path, *(f"{path}/{name}" for name in _VENVS)):
                if os.path.isfile(f"{venv}/{_VENV}"):  # noqa: PTH113 - many of them
                    yield f"{venv}/bin"


def read_interpreters(path: str) -> list[str]:
    """Return the programs that start a script, none for what is no script."""
    found = _INTERPRETER.match(_read(path))
    return [os.fsdecode(name) for name in found.groups() if name] if found else []


def follow_links(path: str, links: dict[str, str]) -> str:
    """Return what an absolute path leads to, and add every link on the way to `links`, with its target."""
    rest, at = path.split("/"), ""
    for _ in range(_MOST_LINKS * len(rest)):
        if not rest:
            break
        name = rest.pop(0)
        step = f"{at}/{name}"
        if name in ("", "."):
            continue
        if name == "..":
            at = at.rpartition("/")[0]
        elif os.path.islink(step):  # noqa: PTH114 - many of them
            links[step] = target = os.readlink(step)  # noqa: PTH115
            rest = target.split("/") + rest
            at = "" if target.startswith("/") else at
        else:
            at = step
    return "/" if rest else at or "/"


def _name_parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _read(path: str) -> bytes:
    """Return how a file begins, nothing for what is none: a pipe would be waited for."""
    with suppress(OSError, ValueError):
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(file, _HEAD) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        finally:
            os.close(file)
    return b""
