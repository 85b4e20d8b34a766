"""Filters of system calls as programs of BPF, assembled by hand from a few kinds of steps."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable

from foregate.agent.sandbox.system_calls import call, name_step, number_of

Instruction = tuple[int, int, int, int]

# Load a word, and with a mask, jump if equal, jump if at least, jump if a bit is set, return.
LOAD, AND, IF_EQUAL, IF_AT_LEAST, IF_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
NUMBER, ARCHITECTURE = 0, 4
_SET_MODE_FILTER = 1


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_with(number: int) -> int:
    """Return the verdict that lets a call fail with this errno."""
    return 0x00050000 | number


def low(argument: int) -> int:
    """Return where the low half of an argument is; both machines are little-endian."""
    return 16 + 8 * argument


def give(verdict: int) -> Instruction:
    """Return the step that ends with a verdict."""
    return _RETURN, 0, 0, verdict


def when_called(name: str, *body: Instruction) -> list[Instruction]:
    """Return what is done for one system call; `body` must end in a verdict. Nothing where it does not exist."""
    number = number_of(name)
    return [] if number is None else [(IF_EQUAL, 0, len(body), number), *body]


def only(*values: int, refusal: int) -> list[Instruction]:
    """Return a verdict: the loaded word must be one of the values."""
    tests = [(IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, give(refuse_with(refusal)), give(ALLOW)]


def none_of(*values: int, refusal: int) -> list[Instruction]:
    """Return a verdict: the loaded word must be none of the values."""
    tests = [(IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, give(ALLOW), give(refuse_with(refusal))]


def assemble(program: Iterable[Instruction]) -> bytes:
    """Return a program as the kernel takes it."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def load_filter(program: bytes) -> None:
    """Put this process and all it starts under the filter. Needs `no_new_privs`; raises StepFailed."""
    with name_step("seccomp", "the filter of system calls could not be loaded"):
        call("seccomp", _SET_MODE_FILTER, 0, _Program(len(program) // 8, program))
