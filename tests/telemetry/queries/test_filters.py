"""Each filter finds what it says, and no text from outside is ever more than a value."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from foregate.schemas.errors import UsageError
from foregate.telemetry.queries.audit_index import AuditIndex
from foregate.telemetry.queries.filters import DecisionFilter, SessionFilter
from tests.agent import corpus
from tests.telemetry.queries.made_index import open_index, play, put_session


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditIndex]:
    """Three sessions: a rule asks, a path outside is denied, a plan is accepted and a person says yes."""
    path = tmp_path_factory.mktemp("home") / "events.db"
    for name, story in (("ask", corpus.rules_ask), ("deny", corpus.rules_deny), ("plan", corpus.plan_accepted)):
        put_session(path, name, asyncio.run(play(story)))
    with closing(open_index(path)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("wanted", "sessions"),
    [
        (DecisionFilter(code=["denied_by_rule"]), {"deny"}),
        (DecisionFilter(standing=["deny"], sessions=["ask"]), {"ask"}),
        (DecisionFilter(tool=["edit_*"]), {"ask"}),
        (DecisionFilter(tool=["send"], gate=["approval"]), {"plan"}),
        (DecisionFilter(target=["../x"]), {"deny"}),
        (DecisionFilter(target=["*a.txt"], gate=["rules"]), {"ask"}),
        (DecisionFilter(rule=["ask-edits"]), {"ask"}),
        (DecisionFilter(key=["rules.list.*"]), {"ask", "deny"}),
        (DecisionFilter(approver=["*"], gate=["approval"], code=["approval_granted"]), {"plan"}),
        (DecisionFilter(text=["not now"]), {"ask"}),
        (DecisionFilter(text=["nowhere to be found"]), set()),
        (DecisionFilter(risk=(0, 1000), code=["approval_granted"]), {"plan"}),
        (DecisionFilter(risk=(1001, 1001)), set()),
        (DecisionFilter(since=datetime(2027, 1, 1, tzinfo=UTC)), set()),
        (DecisionFilter(until=datetime(2025, 1, 1, tzinfo=UTC)), set()),
        (DecisionFilter(policy=["nothing"]), set()),
        (DecisionFilter(who=["nobody"]), set()),
        (DecisionFilter(tool=["x' OR 1=1 --", '"; DROP TABLE decisions']), set()),
        (DecisionFilter(text=["tool:send OR NOT ("]), set()),
    ],
)
def test_a_filter_finds_the_decisions_it_says(index: AuditIndex, wanted: DecisionFilter, sessions: set[str]) -> None:
    found = index.find_decisions(wanted, limit=0)
    assert {row.session for row in found} == sessions
    assert index.count_decisions(wanted).notable == len(found)


def test_a_row_says_what_the_gate_ruled_on_which_call_by_which_key(index: AuditIndex) -> None:
    first, *_ = index.find_decisions(DecisionFilter(code=["denied_by_rule"]))
    assert (first.gate, first.standing, first.severity) == ("rules", "deny", "warning")
    assert (first.tool, first.target, first.rules) == ("read_file", "../x", ("outside-workspace",))
    assert (first.key, first.origin, first.approver) == ("rules.list.outside-workspace", "nobody", "")
    assert first.risk is not None
    (yes,) = index.find_decisions(DecisionFilter(code=["approval_granted"]))
    assert (yes.approver, yes.key) == ("person", "approval.mode")


def test_what_only_passed_is_counted_and_left_out(index: AuditIndex) -> None:
    counted = index.count_decisions(DecisionFilter())
    everything = index.find_decisions(DecisionFilter(passed=True), limit=0)
    assert counted.passed > 0
    assert sum(counted) == len(everything)
    assert not [row for row in index.find_decisions(DecisionFilter(), limit=0) if row.code.endswith("_passed")]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (SessionFilter(), ["plan", "deny", "ask"]),
        (SessionFilter(sessions=["ask", "plan"]), ["plan", "ask"]),
        (SessionFilter(state=["blocked"]), ["ask"]),
        (SessionFilter(model=["scr*"]), ["plan", "deny", "ask"]),
        (SessionFilter(workspace=["/nowhere*"]), []),
        (SessionFilter(text=["greeting"]), ["plan", "deny", "ask"]),
        (SessionFilter(text=["not now", "teh"]), []),
        (SessionFilter(since=datetime(2027, 1, 1, tzinfo=UTC)), []),
        (SessionFilter(waiting=True), []),
    ],
)
def test_a_filter_finds_the_sessions_it_says(index: AuditIndex, wanted: SessionFilter, names: list[str]) -> None:
    assert [row.session for row in index.list_sessions(wanted)] == names


def test_words_are_found_where_they_stand_together(index: AuditIndex) -> None:
    found = index.search(["greeting"], SessionFilter(sessions=["ask"]))
    assert "request" in {passage.what for passage in found}
    assert index.search(["greet*"], SessionFilter(sessions=["ask"]))
    assert not index.search(["greet"], SessionFilter(sessions=["ask"]))
    assert not index.search(["greeting a"], SessionFilter(sessions=["ask"]))
    with pytest.raises(UsageError, match="no word"):
        index.search(["---"], SessionFilter())
