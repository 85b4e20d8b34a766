"""The filter of system calls, judged instruction by instruction for both machines, and its numbers."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.sandbox import restrictions, system_calls
from foregate.agent.sandbox.restrictions import NEW_NAMESPACES, REFUSED, REFUSED_CONTROLS, build_filter, refuse_with
from foregate.agent.sandbox.system_calls import NUMBERS

MACHINES = ("x86_64", "aarch64")
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = refuse_with(errno.EPERM), refuse_with(errno.ENOSYS)
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}
OTHERS = {"socket", "socketpair", "ioctl", "clone", "clone3"}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    """Each machine the filter knows."""
    return str(request.param)


def judge(
    machine: str, number: int, *arguments: int, architecture: str = "", build: Callable[[], bytes] = build_filter
) -> int:
    """Return the verdict of the machine's filter on a call, as the kernel would compute it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system_calls, "_COLUMN", MACHINES.index(machine))
        patch.setattr(restrictions, "MACHINE", machine)
        program = [*struct.iter_unpack("<HBBI", build())]
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, ARCHITECTURES[architecture or machine], 0, *padded)
    at = word = 0
    while True:
        code, yes, no, value = program[at]
        at += 1
        match code:
            case 0x20:
                word = int.from_bytes(data[value : value + 4], "little")
            case 0x54:
                word &= value
            case 0x15:
                at += yes if word == value else no
            case 0x35:
                at += yes if word >= value else no
            case 0x45:
                at += yes if word & value else no
            case 0x06:
                return int(value)
            case _:
                pytest.fail(f"an instruction the kernel does not know: {code:#x}")


def number(machine: str, name: str) -> int:
    found = NUMBERS[name][MACHINES.index(machine)]
    assert found is not None
    return found


@given(name=st.sampled_from(REFUSED), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_a_refused_call_is_refused_whatever_its_arguments(machine: str, name: str, arguments: list[int]) -> None:
    if NUMBERS[name][MACHINES.index(machine)] is not None:
        assert judge(machine, number(machine, name), *arguments) == EPERM


@given(called=st.integers(0, 600), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_a_call_that_is_not_listed_passes(machine: str, called: int, arguments: list[int]) -> None:
    listed = {NUMBERS[name][MACHINES.index(machine)] for name in {*REFUSED, *OTHERS}}
    assert called in listed or judge(machine, called, *arguments) == ALLOW


@given(flags=st.integers(0, 2**64 - 1))
def test_clone_passes_exactly_without_a_new_namespace(machine: str, flags: int) -> None:
    assert judge(machine, number(machine, "clone"), flags) == (EPERM if flags & NEW_NAMESPACES else ALLOW)


@given(above=st.integers(0, 2**32 - 1), control=st.sampled_from(REFUSED_CONTROLS))
def test_a_control_of_terminals_is_refused_whatever_the_upper_half_holds(
    machine: str, above: int, control: int
) -> None:
    assert judge(machine, number(machine, "ioctl"), 1, above << 32 | control) == EPERM
    assert judge(machine, number(machine, "ioctl"), 1, 0x5401) == ALLOW


@given(family=st.integers(0, 2**32 - 1), kind=st.integers(0, 2**32 - 1), protocol=st.integers(0, 300))
def test_sockets_are_those_that_reach_nothing(machine: str, family: int, kind: int, protocol: int) -> None:
    passes = family in (2, 10) or (family == 16 and protocol == 0)
    assert (judge(machine, number(machine, "socket"), family, kind, protocol) == ALLOW) == passes


@given(family=st.sampled_from([1, 2, 16, 30]), kind=st.integers(0, 2**32 - 1))
def test_pairs_are_those_that_cannot_be_turned_elsewhere(machine: str, family: int, kind: int) -> None:
    passes = family == 1 and kind & 0xF in (1, 5)
    assert judge(machine, number(machine, "socketpair"), family, kind) == (ALLOW if passes else EPERM)


def test_clone3_does_not_exist(machine: str) -> None:
    assert judge(machine, number(machine, "clone3")) == ENOSYS


@given(called=st.integers(0, 2**31))
def test_calls_of_another_machine_end_the_process(called: int) -> None:
    assert judge("x86_64", called, architecture="i386") == KILL
    assert judge("aarch64", called, architecture="arm") == KILL


@given(called=st.integers(0x40000000, 2**32 - 1))
def test_the_calls_of_x32_do_not_exist(called: int) -> None:
    assert judge("x86_64", called) == ENOSYS


def test_an_unknown_machine_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_calls, "_COLUMN", None)
    monkeypatch.setattr(system_calls, "MACHINE", "vax")
    with pytest.raises(system_calls.StepFailed, match=r"system calls of this machine \(vax\)"):
        build_filter()


def test_the_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text()))
    column = MACHINES.index(machine)
    known = {name: numbers[column] for name, numbers in NUMBERS.items() if name in defined}
    assert known == {name: int(defined[name]) for name in known}
    newer = {"fchmodat2", "file_setattr", "open_tree_attr", "removexattrat", "setxattrat"}
    assert {name for name, numbers in NUMBERS.items() if numbers[column] is not None} - known.keys() <= newer


@given(kind=st.integers(0, 2**32 - 1))
def test_unix_sockets_exist_only_where_they_are_given(machine: str, kind: int) -> None:
    assert judge(machine, number(machine, "socket"), 1, kind) == EPERM
    given = partial(build_filter, unix_sockets=True)
    assert judge(machine, number(machine, "socket"), 1, kind, build=given) == ALLOW
    assert judge(machine, number(machine, "socketpair"), 1, 2, build=given) == EPERM
