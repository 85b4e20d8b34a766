"""The name of a program, whatever folder it is called from."""

from __future__ import annotations


def get_program_name(program: str) -> str:
    """Return the last component of a program's path.

    >>> get_program_name("/usr/bin/git")
    'git'
    """
    return program.rsplit("/", 1)[-1]
