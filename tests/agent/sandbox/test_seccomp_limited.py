"""The filter of the tier `limited`, judged for both machines and for Landlock old and new."""

from __future__ import annotations

import errno
import os
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.sandbox.limited import (
    ALLOWED_CONTROLS,
    BEYOND,
    OWN_ONLY,
    REFUSED_CONTROLS,
    TRAITS,
    build_limited_filter,
)
from foregate.agent.sandbox.restrictions import REFUSED, refuse_with
from foregate.agent.sandbox.system_calls import NUMBERS
from tests.agent.sandbox.test_seccomp import ALLOW, EPERM, MACHINES, judge, number

OLDEST, NEWEST, PROCESS = 1, 7, 4242
WORD = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    """Each machine the filter knows."""
    return str(request.param)


def decide(machine: str, name: str, *arguments: int, landlock: int = NEWEST) -> int:
    build = partial(build_limited_filter, landlock, PROCESS)
    return judge(machine, number(machine, name), *arguments, build=build)


@given(name=st.sampled_from([*REFUSED, *TRAITS, *BEYOND]), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_a_refused_call_is_refused_whatever_its_arguments(machine: str, name: str, arguments: list[int]) -> None:
    if NUMBERS[name][MACHINES.index(machine)] is not None:
        assert decide(machine, name, *arguments) == EPERM


@given(name=st.sampled_from([*OWN_ONLY]), arguments=st.lists(st.sampled_from([0, 1, 2, PROCESS]), min_size=2))
def test_bounds_and_priorities_are_set_of_the_own_process_alone(machine: str, name: str, arguments: list[int]) -> None:
    own = all(arguments[place] == 0 for place in OWN_ONLY[name])
    assert decide(machine, name, *arguments[:6]) == (ALLOW if own else EPERM)


@given(above=WORD, control=st.one_of(WORD, st.sampled_from(ALLOWED_CONTROLS)))
def test_only_listed_controls_reach_what_is_open(machine: str, above: int, control: int) -> None:
    allowed = ALLOW if control in ALLOWED_CONTROLS else refuse_with(errno.ENOTTY)
    assert decide(machine, "ioctl", 1, above << 32 | control) == allowed


@given(above=WORD, control=st.integers(0, 2048))
def test_no_descriptor_sends_signals_or_makes_others_wait(machine: str, above: int, control: int) -> None:
    assert decide(machine, "fcntl", 1, above << 32 | control) == (EPERM if control in REFUSED_CONTROLS else ALLOW)


@given(target=st.one_of(WORD, st.sampled_from([0, 1, PROCESS, 2**32 - PROCESS, 2**32 - 1])))
def test_where_landlock_does_not_hold_signals_they_go_to_the_own_group(machine: str, target: int) -> None:
    own = target in (0, PROCESS, 2**32 - PROCESS)
    assert decide(machine, "kill", target, landlock=OLDEST) == (ALLOW if own else EPERM)
    assert decide(machine, "kill", target) == ALLOW
    assert decide(machine, "tgkill", target, landlock=OLDEST) == (ALLOW if target == PROCESS else EPERM)
    assert decide(machine, "pidfd_send_signal", target, landlock=OLDEST) == EPERM


@given(flags=WORD)
def test_where_landlock_does_not_hold_truncation_only_who_may_write_can_empty_a_file(machine: str, flags: int) -> None:
    emptied = flags & os.O_TRUNC and flags & os.O_ACCMODE not in (os.O_WRONLY, os.O_RDWR)
    assert decide(machine, "openat", 0, 0, flags, landlock=OLDEST) == (EPERM if emptied else ALLOW)
    assert decide(machine, "openat", 0, 0, flags) == ALLOW
    assert decide(machine, "truncate", landlock=OLDEST) == EPERM
    assert decide(machine, "openat2", landlock=OLDEST) == refuse_with(errno.ENOSYS)
