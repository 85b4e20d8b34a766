"""Holders: alive means the very process, not one that got its number."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from foregate.telemetry.log import sqlite_log
from foregate.telemetry.log.sqlite_log import get_own_holder


def test_the_running_process_is_alive() -> None:
    assert get_own_holder().is_alive
    assert get_own_holder().description == f"this process ({os.getpid()})"


def test_a_process_with_our_number_that_started_at_another_time_is_dead() -> None:
    assert not replace(get_own_holder(), started="1").is_alive


def test_a_process_of_another_boot_is_dead() -> None:
    assert not replace(get_own_holder(), boot="another").is_alive


def test_a_process_of_another_container_counts_as_alive_because_it_cannot_be_seen() -> None:
    other = replace(get_own_holder(), place="pid:[1]", started="1")
    assert other.is_alive
    assert other.description == f"process {os.getpid()} of another container"


def test_a_number_no_process_has_is_dead() -> None:
    assert not replace(get_own_holder(), pid=2**22 + 1).is_alive


@pytest.mark.parametrize(("pid", "alive"), [(os.getpid(), True), (1, True), (2**22 + 1, False)])
def test_without_proc_a_process_is_alive_when_it_answers(
    pid: int, alive: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(sqlite_log, "_PROC", tmp_path)
    assert replace(get_own_holder(), pid=pid, started="").is_alive is alive
