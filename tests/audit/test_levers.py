"""Levers: a key is ranked by what moving it turns, found by judging again."""

from __future__ import annotations

from foregate.audit.key_change import KeyChange, list_break_points, list_conditions
from foregate.audit.levers import LeverSearch
from foregate.audit.reach_index import ReachIndex
from foregate.audit.what_if import WhatIf
from tests.policies import policy_with
from tests.varied import varied_log


def test_each_lever_turns_what_judging_everything_again_finds() -> None:
    log, names = varied_log()
    few = names[:4]
    index = ReachIndex(log, None)
    index.catch_up(few, 1)
    search = LeverSearch(log, few, index)
    found = search.find_levers()
    assert found
    assert [lever.turned for lever in found] == sorted((lever.turned for lever in found), reverse=True)
    assert not {lever.key for lever in found} & set(search.quiet)
    best = found[0]
    judged = WhatIf(log, KeyChange({tuple(best.key.split(".")): best.after}), 1)
    assert len([row for row in judged.find_changes(few) if not row.apart]) == best.turned


def test_between_two_break_points_no_condition_turns() -> None:
    conditions = [
        ("number", ">=", 320, ("key", ("uncertainty", "threshold")), False),
        ("number", "<", ("key", ("uncertainty", "threshold")), 700, True),
    ]
    assert list(list_break_points(conditions, ("uncertainty", "threshold"), policy_with(), 0, 1000)) == [320, 700]
    assert list_conditions([]) == []
