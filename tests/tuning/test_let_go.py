"""What a policy would let go is found through the tuning index as it is by judging everything."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from foregate.gates.replay.redecide import CallChange, Change, Side
from foregate.policy.source.layers import Layer
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning import what_if
from foregate.tuning.proposals import LetGoFinder, is_let_go
from foregate.tuning.reach_index import ReachIndex
from foregate.tuning.what_if import Row
from tests.varied import varied_log

LATE = "2999-01-01T00:00:00.000Z"
LOOSER: tuple[dict[str, Any], ...] = ({"narration": {"min_chars": 0}}, {"http": {"hosts": ["collect.evil.example"]}})


class Asked:
    """A log that counts the events that are read of it one by one or in ranges."""

    def __init__(self, log: SqliteLog) -> None:
        self._log, self.read = log, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def events(self, session: str, **about: Any) -> Any:
        for event in self._log.events(session, **about):
            self.read += 1
            yield event


def test_the_calls_are_those_of_judging_every_turn_and_fewer_are_read() -> None:
    log, names = varied_log()
    names = names[:8]
    plain, quick = Asked(log), Asked(log)
    index = ReachIndex(log, None)
    told: list[tuple[int, int]] = []
    finder = LetGoFinder(quick, names, LATE, index, lambda done, whole: told.append((done, whole)))
    assert told[-1][0] == told[-1][1] > 0, "bringing the index up is told"
    whole, found = LetGoFinder(plain, names, LATE), 0
    for data in LOOSER:
        layer = Layer("changed.yaml", "changed.yaml", data, {})
        told.clear()
        calls = finder.find(layer)
        assert calls == whole.find(layer)
        assert [done for done, _ in told] == [*range(1, told[-1][1] + 1)]
        found += len(calls)
    assert found > 0
    assert quick.read < plain.read, "and the index was made by the first of them"


def test_the_same_policy_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log, names = varied_log()
    finder = LetGoFinder(log, names[:3], LATE)
    layer = Layer("changed.yaml", "changed.yaml", dict(LOOSER[0]), {})
    first = finder.find(layer)
    monkeypatch.setattr(what_if.WhatIf, "find_changes", None)
    assert finder.find(Layer("another.yaml", "another.yaml", dict(LOOSER[0]), {})) == first


SIDES = {standing: Side(standing, "evidence", "stale_evidence") for standing in ("allow", "ask", "hold", "deny")}
LET_GO = {
    *(("newly_let_go", standing) for standing in SIDES),
    *(("no_longer_asked", standing) for standing in SIDES),
    ("not_decidable", "hold"),
    ("not_decidable", "deny"),
}


@pytest.mark.parametrize("change", get_args(Change))
@pytest.mark.parametrize("standing", SIDES)
def test_a_call_is_let_go_that_was_stopped_or_asked_about_and_would_or_might_run_without(
    change: Change, standing: str
) -> None:
    call = CallChange("c1.1", "edit_file", "a.txt", change, SIDES[standing])
    assert is_let_go(Row("s", 1, "", 1, 1, "model", call)) == ((change, standing) in LET_GO)
