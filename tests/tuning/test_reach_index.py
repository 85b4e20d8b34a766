"""Judging by difference: what a changed policy cannot reach is not judged, and nothing comes out otherwise for it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from foregate.gates.replay.reach import list_condition_paths
from foregate.policy.source.layers import Layer
from foregate.policy.source.users import is_outside_judging
from foregate.schemas.errors import PolicyError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning import piece_store, pieces, what_if
from foregate.tuning.change_set import ChangeSet, find_reached
from foregate.tuning.piece_judge import JudgedPiece, PieceJudge, Revision, Row, WhatIfTally
from foregate.tuning.pieces import SessionPiece
from foregate.tuning.reach_index import ReachIndex, read_condition
from foregate.tuning.what_if import WhatIf
from tests.varied import varied_log


def layer(data: Mapping[str, Any]) -> Layer:
    return Layer("changed.yaml", "changed.yaml", dict(data), {})


def judge(data: Mapping[str, Any], index: ReachIndex | None = None) -> tuple[list[Row], WhatIfTally]:
    """Return what comes of the varied log under a user's file, with the index or without."""
    log, names = varied_log()
    judged = WhatIf(log, layer(data), 1, index)
    return list(judged.find_changes(names)), judged.tally


@pytest.fixture(scope="module")
def index() -> ReachIndex:
    log, names = varied_log()
    made = ReachIndex(log, None)
    made.catch_up(names, 1)
    return made


def count_reached(index: ReachIndex, data: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many turns a user's file can reach, and of how many."""
    _, names = varied_log()
    pages = [page for name in names for page in index.find_pages(name) or []]
    revision, sets = Revision(layer(data)), {}
    for key in {frame.key for page in pages for frame in page.frames}:
        policy, layers = index.get_frame(key)
        sets[key] = ChangeSet(policy)
        sets[key].add(0, (), partial(revision.revise, policy, layers))
    found = sum(len(find_reached(page, sets, [0])) for page in pages)
    return found, sum(len(page.turns) for page in pages)


def test_no_turn_rests_on_a_key_that_nothing_which_judges_is_said_to_use(index: ReachIndex) -> None:
    pages = [page for name in varied_log()[1] for page in index.find_pages(name) or []]
    texts = {text for page in pages for text in page.list_conditions()}
    paths = {path for text in texts for path in list_condition_paths(read_condition(text))}
    written = {("approval", "expires"), ("limits", "malformed_calls")}  # into a question, and into the words of a hold
    assert {path for path in paths if is_outside_judging(path)} <= written
    assert len(paths) > 100


MODE = st.sampled_from(["enforce", "shadow", "off"])
SCORE = st.integers(0, 1000)
EDITS: dict[str, st.SearchStrategy[Any]] = {
    **{f"{gate}.mode": MODE for gate in ("rules", "narration", "drift", "uncertainty", "evidence", "plan", "critique")},
    "uncertainty.threshold": SCORE,
    "critique.risk": SCORE,
    "critique.uncertainty": SCORE,
    "critique.risk_in_doubt": SCORE,
    "critique.level": st.sampled_from(["off", "doubt", "plan", "call"]),
    "critique.on_budget_exhausted": st.sampled_from(["ask", "proceed"]),
    "narration.min_chars": st.integers(0, 120),
    "narration.max_holds": st.integers(0, 3),
    "narration.scope": st.sampled_from(["risky", "first_side_effect", "first_response"]),
    "drift.trigger": st.sampled_from(["contract", "no_mutation_no_observation"]),
    "plan.form": st.sampled_from(["blind", "call"]),
    "plan.due": st.sampled_from(["risky", "first_side_effect"]),
    "plan.max_amendments": st.integers(0, 5),
    "plan.changed_resources": st.integers(0, 5),
    "plan.on_unavailable.dangerous": st.sampled_from(["ask", "hold", "proceed"]),
    "approval.mode": st.sampled_from(["each", "scope", "never"]),
    "approval.reads": st.sampled_from(["free", "ask"]),
    "scope.max_resources": st.integers(0, 30),
    "safety.model_calls": st.integers(0, 4),
    "limits.needs_per_gate": st.integers(0, 3),
    "limits.malformed_calls": st.integers(0, 3),
    "limits.turns": st.integers(0, 50),
    "validity.closed_arguments": st.sampled_from(["builtin", "all"]),
    "validity.max_bytes": st.integers(1, 4000),
    "mandate.mode": st.sampled_from(["enforce", "off"]),
    "mandate.polite": st.lists(st.sampled_from(["please", "kindly", "now"]), max_size=2),
    "scores.destructive_words": st.lists(st.sampled_from(["clean", "remove", "fix"]), max_size=2),
    "scores.risk.external": SCORE,
    "scores.risk.irreversible": SCORE,
    "scores.risk.effect": st.dictionaries(st.sampled_from(["edit", "execute", "send"]), SCORE, max_size=2),
    "scores.uncertainty.target_unmentioned": SCORE,
    "scores.uncertainty.vague_request": SCORE,
    "scores.uncertainty.just_failed": SCORE,
    "http.hosts": st.lists(st.sampled_from(["api.example.org", "*.example.org", "collect.evil.example"]), max_size=2),
    "http.unlisted": st.sampled_from(["deny", "fail"]),
    "files.secret": st.lists(st.sampled_from([".env", "*.txt", "src/**"]), max_size=2),
    "files.max_hash": st.integers(1, 5000),
    "commands.read_only": st.sampled_from([{}, {"make": {"options": []}}, {"ls": {"options": ["-z"]}}]),
    "commands.deletes": st.lists(st.sampled_from(["rm", "git clean"]), max_size=2),
    "commands.confinement.read": st.sampled_from(["limited", "full", "none"]),
    "holds": st.sampled_from(["call", "whole_response"]),
}
RULES = st.fixed_dictionaries(
    {"id": st.just("drawn"), "then": st.sampled_from(["deny", "ask", "allow"])},
    optional={
        "tool": st.sampled_from(["*", "run_*", "edit_file", "Bash", "send_mail"]),
        "effect": st.sampled_from([["edit"], ["send", "execute"], ["observation"]]),
        "command": st.sampled_from([["rm"], ["git", "push"], ["py*"]]),
        "resource": st.sampled_from(["src/**", "README.md", "*.txt"]),
        "kind": st.sampled_from(["file", "directory", "host"]),
        "host": st.sampled_from(["*.example.org", "collect.evil.example"]),
        "protected": st.sampled_from([["secret"], ["runs_by_itself"]]),
        "risk_at_least": SCORE,
        "origin": st.sampled_from(["external", "nobody"]),
        "secrets": st.booleans(),
        "capability": st.just(["reversible"]),
    },
).filter(lambda rule: len(rule) > 2)
TOOLS = st.fixed_dictionaries(
    {},
    optional={
        "effect": st.sampled_from(["observation", "edit", "send"]),
        "reversible": st.booleans(),
        "high_impact_write": st.booleans(),
        "external_side_effect": st.booleans(),
    },
)


@st.composite
def edits(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a user's file of a few keys."""
    data: dict[str, Any] = {"http": {"hosts": ["api.example.org", "files.example.org", "status.partner.example"]}}
    for key in draw(st.lists(st.sampled_from(sorted(EDITS)), max_size=3, unique=True)):
        *sections, last = key.split(".")
        place = data
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = draw(EDITS[key])
    if draw(st.integers(0, 3)) == 0:
        data["rules"] = {"list": [draw(RULES)], **data.get("rules", {})}
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(["run_command", "edit_file", "send_mail", "pay", "find_customer"]))
        data["tools"] = {name: draw(TOOLS)}
    return data


# Without shrinking: an edit of three keys at most is short enough, and judging all takes a while.
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(data=edits())
def test_judging_what_a_change_can_reach_is_judging_all(index: ReachIndex, data: dict[str, Any]) -> None:
    try:
        wanted = judge(data)
    except PolicyError:
        return  # no policy: such a file is refused before anything is judged
    assert judge(data, index) == wanted


def test_a_threshold_reaches_few_turns_and_a_key_around_judging_none(index: ReachIndex) -> None:
    hosts = {"http": {"hosts": ["api.example.org", "files.example.org", "status.partner.example"]}}
    found, of = count_reached(index, {**hosts, "limits": {"turns": 7}})
    more, _ = count_reached(index, {**hosts, "limits": {"turns": 7}, "uncertainty": {"threshold": 200}})
    assert found <= more < of


def test_what_cannot_be_reached_is_not_judged(index: ReachIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SessionPiece] = []

    class Watching(PieceJudge):
        def __call__(self, piece: SessionPiece) -> JudgedPiece:
            asked.append(piece)
            return super().__call__(piece)

    monkeypatch.setattr(what_if, "PieceJudge", Watching)
    _, tally = judge({"uncertainty": {"threshold": 549}}, index)
    assert sum(len(piece.only or ()) for piece in asked) < tally.turns


@pytest.mark.parametrize("damage", ["body", "hash", "page", "frame", "file"])
def test_a_damaged_index_costs_time_and_changes_nothing(tmp_path: Path, damage: str) -> None:
    log, names = varied_log()
    path = tmp_path / "tuning.db"
    with closing(ReachIndex(log, path)) as made:
        made.catch_up(names[:8], 1)
    if damage == "file":
        path.write_bytes(b"no database" * 500)
    else:
        with closing(sqlite3.connect(path)) as connection, connection:
            statement = {
                "body": "UPDATE pages SET body = zeroblob(length(body))",
                "hash": "UPDATE pages SET hash = 'other'",
                "page": "DELETE FROM pages",
                "frame": "UPDATE frames SET value = '{}'",
            }[damage]
            connection.execute(statement)
    with closing(ReachIndex(log, path)) as damaged:
        assert all(damaged.find_pages(name) is None for name in names[:8])
        changed = layer({"narration": {"mode": "off"}})
        plain, by_index = WhatIf(log, changed, 1), WhatIf(log, changed, 1, damaged)
        assert list(by_index.find_changes(names[:8])) == list(plain.find_changes(names[:8]))
        assert by_index.tally == plain.tally


def test_an_index_of_other_code_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, names = varied_log()
    with closing(ReachIndex(log, tmp_path / "tuning.db")) as made:
        made.catch_up(names[:2], 1)
        assert made.find_pages(names[0]) is not None
    monkeypatch.setattr(piece_store, "hash_code", lambda: "other")
    with closing(ReachIndex(log, tmp_path / "tuning.db")) as made:
        assert made.find_pages(names[0]) is None


def test_nobody_but_its_owner_may_read_it(tmp_path: Path) -> None:
    log, _ = varied_log()
    with closing(ReachIndex(log, tmp_path / "tuning.db")):
        assert (tmp_path / "tuning.db").stat().st_mode & 0o777 == 0o600


class Growing:
    """A log that is read while its sessions go on: of each there are so many events yet."""

    def __init__(self, log: SqliteLog, there: int) -> None:
        self.log, self.there = log, there

    def head_anchor(self, session: str) -> tuple[int, str]:
        last = min(self.there, self.log.head_anchor(session)[0])
        return last, next(iter(self.log.events(session, after=last - 1, until=last))).hash

    def events(self, session: str, after: int = 0, until: int = 0, kinds: Any = ()) -> Any:
        return self.log.events(session, after=after, until=min(self.there, until or self.there), kinds=kinds)


@pytest.mark.parametrize("chunk", [12, 2000])
def test_sessions_that_go_on_are_followed_and_come_out_the_same_in_any_pieces(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(pieces, "EVENTS_PER_PIECE", chunk)
    log, names = varied_log()
    few = names[:5]
    growing: Any = Growing(log, 0)
    index = ReachIndex(growing, None)
    for there in (10, 24, 31, 10_000):
        growing.there = there
        assert there == 10 or any(index.find_pages(name) is None for name in few)
        index.catch_up(few, 1)
        assert all(index.find_pages(name) is not None for name in few)
        changed = layer({"narration": {"mode": "off"}})
        plain, by_index = WhatIf(growing, changed, 1), WhatIf(growing, changed, 1, index)
        assert list(by_index.find_changes(few)) == list(plain.find_changes(few))
        assert by_index.tally == plain.tally


def test_nothing_is_kept_of_a_session_that_was_erased(tmp_path: Path) -> None:
    recorded, names = varied_log()
    shutil.copy(recorded.path, tmp_path / "events.db")
    with closing(SqliteLog(tmp_path / "events.db", create=False)) as log:
        with closing(ReachIndex(log, tmp_path / "tuning.db")) as index:
            index.catch_up(names[:2], 1)
        asyncio.run(log.erase(names[0], at="2026-03-01T10:00:00.000Z", by="ann", why="asked for"))
        with closing(ReachIndex(log, tmp_path / "tuning.db")) as index:
            assert index.find_pages(names[0]) is index.find_pages(names[1]) is None
            index.catch_up(names[1:2], 1)
            assert index.find_pages(names[1]) is not None
            (kept,) = index.kept.connection.execute(
                "SELECT count(*) FROM pages WHERE session = ?", (names[0],)
            ).fetchone()
            assert kept == 0
