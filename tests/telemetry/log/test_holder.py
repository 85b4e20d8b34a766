"""Holders: alive means the very process, not one that got its number."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from foregate.telemetry.log import holder
from foregate.telemetry.log.holder import me


def test_the_running_process_is_alive() -> None:
    assert me().alive
    assert me().name == f"this process ({os.getpid()})"


def test_a_process_with_our_number_that_started_at_another_time_is_dead() -> None:
    assert not replace(me(), started="1").alive


def test_a_process_of_another_boot_is_dead() -> None:
    assert not replace(me(), boot="another").alive


def test_a_process_of_another_container_counts_as_alive_because_it_cannot_be_seen() -> None:
    other = replace(me(), place="pid:[1]", started="1")
    assert other.alive
    assert other.name == f"process {os.getpid()} of another container"


def test_a_number_no_process_has_is_dead() -> None:
    assert not replace(me(), pid=2**22 + 1).alive


@pytest.mark.parametrize(("pid", "alive"), [(os.getpid(), True), (1, True), (2**22 + 1, False)])
def test_without_proc_a_process_is_alive_when_it_answers(
    pid: int, alive: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    assert replace(me(), pid=pid, started="").alive is alive
