"""A sweep counts, at every value, what judging all turns there counts, and whether labels are met."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from foregate.cli.policy_sweep import format_sweep
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.redecide import replay_turn
from foregate.gates.replay.sweep_turn import find_numeric_key
from foregate.policy.source.load import restore_policy
from foregate.policy.source.values import replace_values
from foregate.schemas.errors import UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Standing
from foregate.schemas.review import LABELS, DecisionLabelled, Label
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import CHAIN, ReviewLog, SaidLabel
from foregate.telemetry.queries.reviews import Reviews
from foregate.telemetry.queries.rulings import find_ruling
from foregate.tuning.piece_judge import KeyChange
from foregate.tuning.pieces import read_turns, split_session
from foregate.tuning.reach_index import IndexedTurn, PageFrame, ReachIndex, ReachPage
from foregate.tuning.sweep import SweepResult, find_labelled, is_met, sweep_sessions
from foregate.tuning.turn_figures import list_reached, read_turn_end
from foregate.tuning.what_if import WhatIf
from tests.varied import varied_log

KEYS = ("uncertainty.threshold", "narration.min_chars", "critique.risk", "plan.changed_resources")
BY = Identity(user="ann", host="here")


async def label_calls(kept: ReviewLog, sessions: list[str], count: int) -> Reviews:
    """Label the first call of some turns, with each label in its turn."""
    log, given = varied_log()[0], 0
    for session in sessions:
        for piece in split_session(log, session):
            for turn in read_turns(log, piece):
                if turn.turn.calls and given < count:
                    gate = turn.judgement.decisions[0].gate
                    ruled = find_ruling(log, session, turn.seq, gate, turn.turn.calls[0].id)
                    said = SaidLabel(LABELS[given % len(LABELS)])
                    await kept.label(log, ruled, said, BY, "2026-11-28T06:00:00Z")
                    given += 1
    return await kept.read()


def rank_calls(key: str, value: int, session: str) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield how strictly each call of a session is treated at a value: 2 stopped, 1 asked about, 0 neither."""
    log, _ = varied_log()
    for turn in (turn for piece in split_session(log, session) for turn in read_turns(log, piece) if turn.turn.calls):
        values, catalogue = turn.in_force.require()
        policy = restore_policy(values)
        policy = replace_values(policy, {find_numeric_key(key, policy)[0]: value})
        prelude = build_prelude(policy, build_catalogue(catalogue))
        found = replay_turn(turn.turn, policy, prelude, prelude.facts(turn.turn))
        asked = {digest for answer in found.used if answer.who == "person" for digest in answer.digests}
        asked |= {digest for need in found.missing.values() if need.who == "person" for digest in need.digests}
        for one in found.judgement.verdicts:
            yield (turn.seq, one.call), 2 if one.standing is not Standing.ALLOW else int(one.digest in asked)


def test_judging_only_the_turns_that_rest_on_a_key_counts_what_judging_all_does() -> None:
    log, names = varied_log()
    index, turned = ReachIndex(log, None), 0
    index.catch_up(names[:10], 1)
    for key in KEYS:
        found = sweep_sessions(log, names[:10], [key], Reviews(), index, 1)
        assert found == sweep_sessions(log, names[:10], [key], Reviews(), None, 1)
        turned += len(found.points) > 1
    assert turned >= 2


def test_a_sweep_rests_on_the_turns_that_a_what_if_judges() -> None:
    log, names = varied_log()
    few = names[10:]
    found, judged = sweep_sessions(log, few, KEYS[:1], Reviews(), None, 1), WhatIf(log, KeyChange({}), 1)
    list(judged.find_changes(few))
    assert (found.turns, found.calls + 1) == (judged.tally.turns, judged.tally.changes.total())


async def test_at_every_value_agreement_is_what_judging_the_labelled_calls_there_says(tmp_path: Path) -> None:
    log, names = varied_log()
    few, key = names[:5], "uncertainty.threshold"
    with ReviewLog(tmp_path / "reviews.db") as kept:
        reviews = await label_calls(kept, few, 24)
    found = sweep_sessions(log, few, [key], reviews, None, 1)
    labelled = find_labelled(log, reviews, few).calls
    assert found.labels == len(labelled) == 24
    then = {one.key: 2 if one.held else int(one.asked > 0) for one in labelled}
    for point in found.points:
        now = {(name, *call): rank for name in few for call, rank in rank_calls(key, point.low[0], name)}
        assert point.agreed == sum(is_met(one.label, then[one.key], now[one.key]) for one in labelled)
        assert point.held == sum(rank == 2 for rank in now.values())
    assert len({point.agreed for point in found.points}) > 1


@pytest.mark.parametrize(
    ("label", "then", "met"),
    [
        ("right", 2, {2}),
        ("right", 0, {0}),
        ("too strict", 2, {0, 1}),
        ("too strict", 1, {0}),
        ("too strict", 0, {0}),
        ("too lax", 2, {2}),
        ("too lax", 0, {1, 2}),
        ("too lax", 1, {2}),
        ("unclear", 1, set()),
    ],
)
def test_a_label_is_met_by_a_call_that_is_treated_as_it_wants(label: Label, then: int, met: set[int]) -> None:
    assert {now for now in range(3) if is_met(label, then, now)} == met


def test_nothing_is_known_of_a_decision_that_is_another_than_was_labelled() -> None:
    log, names = varied_log()
    event = next(iter(log.events(names[0], kinds=("turn_judged",))))
    assert read_turn_end(log, names[0], event.seq, event.hash) == read_turn_end(log, names[0], event.seq) is not None
    assert read_turn_end(log, names[0], event.seq, "another") is None
    assert read_turn_end(log, names[0], 1) is None


def test_nothing_is_known_of_a_labelled_decision_whose_words_were_changed_and_whose_hash_was_not(
    tmp_path: Path,
) -> None:
    known, names = varied_log()
    event = next(iter(known.events(names[0], kinds=("turn_judged",))))
    with closing(sqlite3.connect(tmp_path / "events.db")) as copy:
        with closing(sqlite3.connect(known.path)) as written:
            written.backup(copy)
        words = "UPDATE events SET text = replace(text, ?, ?) WHERE session = ? AND seq = ?"
        with copy:
            assert copy.execute(words, (event.time, "2001-01-01T00:00:00.000000Z", names[0], event.seq)).rowcount == 1
    with closing(SqliteLog(tmp_path / "events.db", create=False, read_only=True)) as log:
        assert read_turn_end(log, names[0], event.seq) is not None
        assert read_turn_end(log, names[0], event.seq, event.hash) is None


async def test_labels_of_changed_decisions_and_turns_of_another_version_are_named_and_claim_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, names = varied_log()
    with ReviewLog(tmp_path / "reviews.db") as kept:
        await label_calls(kept, names[:2], 3)
    written, reviews = SqliteLog(tmp_path / "reviews.db", create=False), Reviews()
    for number, event in enumerate(written.events(CHAIN)):
        body = event.body
        assert isinstance(body, DecisionLabelled)
        changed = structs.replace(body, ruled=structs.replace(body.ruled, event="0" * 64)) if number == 1 else body
        reviews.apply(structs.replace(event, body=changed))
    written.close()
    monkeypatch.setattr("foregate.tuning.turn_figures.__version__", "another")
    found = sweep_sessions(log, names[:2], KEYS[:1], reviews, None, 1)
    assert (found.labels, found.changed, found.others) == (2, 1, found.turns)
    told = "\n".join(format_sweep(found, 80))
    assert "Left out: 1 label, since" in told
    assert f"Judged by another version of Foregate: {found.turns} turns" in told


def test_a_turn_that_does_not_come_out_as_recorded_is_judged_whatever_it_rests_on() -> None:
    turns = [IndexedTurn(seq, 1, digests, (), seq == 1, 0, (), ()) for seq, digests in enumerate((("a",), ("b",)))]
    words = IndexedTurn(2, 1, ("",), (), False, 0, (), ())
    page = ReachPage((PageFrame(("p", "l", "c"), {}, ()),), (), (*turns, words))
    assert list(list_reached(page, [("narration", "min_chars")])) == [0]


def test_what_each_gate_comes_to_adds_up_to_the_whole() -> None:
    log, names = varied_log()
    found: SweepResult = sweep_sessions(log, names[:8], KEYS[:2], Reviews(), None, 1)
    for one in found.points:
        assert sum(gate.held for gate in one.gates) == one.held
        assert sum(gate.prompts for gate in one.gates) == one.prompts
        assert sum(gate.requests for gate in one.gates) == one.requests


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_table_names_both_keys_in_full_and_is_no_wider_than_the_terminal(width: int) -> None:
    log, names = varied_log()
    found = sweep_sessions(log, names[:8], KEYS[:2], Reviews(), None, 1)
    lines = list(format_sweep(found, width))
    table = lines[: next(at for at, line in enumerate(lines) if " turns, recorded with " in line)]
    assert max(map(len, table)) <= width
    assert " / ".join(KEYS[:2]) in " ".join(table)
    assert ("#" in "".join(table)) == (width >= 80)


def test_a_key_named_twice_is_refused() -> None:
    log, names = varied_log()
    with pytest.raises(UsageError, match="named twice"):
        sweep_sessions(log, names[:1], (KEYS[0], KEYS[0]), Reviews())


def test_sessions_without_a_call_come_to_nothing() -> None:
    log, _ = varied_log()
    assert replace(sweep_sessions(log, [], KEYS[:1], Reviews()), now={}) == SweepResult(KEYS[:1], [], 0, 0, 0, {})
