"""Levers: a key is ranked by what moving it turns, found by judging again."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

import pytest

from foregate.cli.policy_sweep import format_levers
from foregate.gates.replay.assumption import Assumption
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.values import list_values
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning import levers
from foregate.tuning.change_set import list_break_points
from foregate.tuning.levers import Lever, LeverSearch
from foregate.tuning.piece_judge import KeyChange
from foregate.tuning.reach_index import ReachIndex, ReachPage
from foregate.tuning.what_if import WhatIf
from tests.policies import policy_with
from tests.varied import varied_log

TRIED = (
    *("uncertainty.threshold", "scores.uncertainty.target_unmentioned", "scores.risk.effect.edit", "approval.mode"),
    *(
        "narration.max_holds",
        "files.max_hash",
        "critique.mode",
        "limits.turns",
        "rules.unmatched",
        "rules.refused_before",
    ),
    *(
        "critique.level",
        "plan.binding",
        "plan.form",
        "drift.trigger",
        "narration.scope",
        "scope.max_resources",
        "holds",
    ),
    *("validity.closed_arguments", "validity.max_depth", "mandate.mode", "approval.reads", "scores.risk.irreversible"),
)
"""Keys of every sort: of a gate, carried on by a score, a gate's mode, one of looking, and one around judging."""
SESSIONS = 8


def list_sessions(count: int | None = SESSIONS) -> tuple[SqliteLog, list[str]]:
    """Return a log and sessions of nobody's children: a what-if counts those with their parents."""
    log, names = varied_log()
    return log, [name for name in names if "." not in name][:count]


def count_by_what_if(path: Path, after: Data) -> tuple[int, ...]:
    """Return what judging everything again finds of a change, in the order a lever tells it."""
    log, names = list_sessions()
    judged = WhatIf(log, KeyChange({path: after}), 1, assume=Assumption())
    unseen = [row.call.is_unseen for row in judged.find_changes(names) if not row.apart]
    phases, changes = (judged.phases.before, judged.phases.at), judged.tally.changes
    more = [sum(one.asked[who] - one.was[who] for one in phases) for who in ("planner", "critic", "person")]
    calls = unseen.count(False), changes["newly_held"], changes["newly_let_go"]
    return *calls, judged.tally.diverged, *more, unseen.count(True)


@pytest.mark.parametrize("each", [3, 100])
def test_each_lever_turns_what_judging_everything_again_finds(monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    monkeypatch.setattr(levers, "_EACH", each)
    paths = {key: path for path in list_values(policy_with()) if (key := format_path(path)) in TRIED}
    assert set(paths) == set(TRIED)
    monkeypatch.setattr(levers, "is_movable", lambda path: format_path(path) in TRIED)
    log, names = list_sessions()
    index = ReachIndex(log, None)
    index.catch_up(names, 1)
    search = LeverSearch(log, names, index, 1)
    found = search.find_levers()
    assert len(found) > 4
    assert [one.turned for one in found] == sorted((one.turned for one in found), reverse=True)
    assert {one.key for one in found} | set(search.quiet) == set(TRIED) - {"limits.turns"}
    assert search.beside == ["limits.turns"]
    assert {one.key for one in found if one.unseen and not one.is_told} == {"files.max_hash"}
    for one in found:
        told = (one.turned, one.held, one.let_go, one.sessions, one.plans, one.critiques, one.prompts, one.unseen)
        assert told == count_by_what_if(paths[one.key], one.after), one.key


def reach_every_turn(page: ReachPage, sets: object, numbers: Collection[int]) -> dict[int, frozenset[int]]:
    """Let each trial reach each turn."""
    return {turn.seq: frozenset(numbers) for turn in page.turns}


def test_asking_what_a_trial_can_reach_finds_the_levers_of_judging_every_turn_for_every_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, names = list_sessions(None)
    names, found = names[-6:], list[tuple[list[Lever], list[str]]]()
    for reach in (levers.find_reached, reach_every_turn):
        monkeypatch.setattr(levers, "find_reached", reach)
        with closing(ReachIndex(log, None)) as index:
            index.catch_up(names, 1)
            search = LeverSearch(log, names, index, 1)
            found.append((search.find_levers(), search.quiet))
    assert found[0] == found[1]
    assert len(found[0][0]) > 30


def test_between_two_break_points_no_condition_turns() -> None:
    conditions = [
        ("number", ">=", 320, ("key", ("uncertainty", "threshold")), False),
        ("number", "<", ("key", ("uncertainty", "threshold")), 700, True),
    ]
    assert list(list_break_points(conditions, ("uncertainty", "threshold"), policy_with(), 0, 1000)) == [320, 700]


@pytest.mark.parametrize("width", [40, 80])
def test_the_table_and_the_keys_that_turned_none_fit_the_terminal_and_are_whole(width: int) -> None:
    log, _ = varied_log()
    search = LeverSearch(log, (), ReachIndex(log, None))
    quiet = [f"section{number % 7}.some_key_of_it.{number}" for number in range(200)]
    search.quiet, search.unread, search.beside = quiet, quiet[:90], ["limits.turns"]
    rows = [Lever("scores.uncertainty.destructive_without_scope", 250, 0, *range(1_234, 1_241))]
    rows += [Lever("files.max_hash", 1_000, bytes_, *[0] * 7, 77) for bytes_ in (500, 2_000)]
    lines = list(format_levers(rows, 1, search, width))
    assert max(map(len, lines)) <= width
    assert all(key.partition(".")[2] in "\n".join(lines) for key in quiet)
    told = " ".join(lines)
    for sentence in (
        "May turn calls that the log cannot tell of (1 key), by section:",
        "Turned no recorded decision, whatever the value (110 keys), by section:",
        "Not tried, for no recorded turn has to do with them (90 keys), by section:",
        "Not judged by recorded turns, so not tried: 1 key of limits (--json names them).",
    ):
        assert sentence in told
