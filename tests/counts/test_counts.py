"""Work is promised by counts: the Python calls and SQL statements of a turn and of what people wait for."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from importlib import import_module

import pytest

from tests.counts.counting import Count, measure
from tests.counts.kept_counts import PIECES, VERSION, describe_difference, read_column
from tests.floors import ROOT, sources
from tests.varied import BENCHMARKS

sys.path.insert(0, str(BENCHMARKS))
beside = import_module("beside")
sys.path.remove(str(BENCHMARKS))
counts_of = functools.cache(measure)
MAX_FILES_OF_A_TURN = {"edit durable": 48, "shell": 94}
"""Files of the house whose functions one turn calls, by the piece of work; the aim is 40 for an edit, and 60 for a
shell call with a yes. A bound only ever falls. The scripted model and person are no part of the house here."""


@pytest.mark.parametrize("piece", PIECES)
def test_no_work_takes_a_twentieth_more_or_less_than_is_kept(piece: str) -> None:
    found, column = counts_of(piece), read_column()
    if not column:
        told = [f"{work}: {one.calls:,} calls, {one.statements.total()} statements" for work, one in found.items()]
        pytest.skip(f"no counts are kept for Python {VERSION}; `make counts` keeps them: {'; '.join(told)}")
    if other := [said for work, count in found.items() if (said := describe_difference(work, count, column.get(work)))]:
        pytest.fail("\n".join(other), pytrace=False)


@pytest.mark.parametrize("place", beside.CALLS)
@pytest.mark.parametrize("kind", beside.KINDS)
def test_a_turn_makes_no_more_calls_than_are_promised_however_old_its_session_is(kind: str, place: str) -> None:
    found = counts_of(f"{kind} {place}")
    taken = [found[f"all calls of turn {number}, {kind} {place}"].calls for number in beside.TURNS]
    assert beside.TURNS == (10, 100, 1000)
    assert beside.CALLS == {"in memory": 800, "durable": 950}
    assert max(taken) <= beside.CALLS[place]
    assert max(taken) - min(taken) <= 5, "a turn of an old session makes other calls than one of a young"


def test_work_that_nobody_counted_yet_is_told() -> None:
    assert "make counts" in describe_difference("a turn", Count(), None)


def test_a_function_that_is_called_more_often_is_named_with_both_counts() -> None:
    kept = {"calls": 100, "statements": {"INSERT events": 4}, "functions": {"a.py f": 60, "a.py g": 30}}
    found = Count(Counter({"a.py f": 60, "a.py g": 45, "a.py h": 35}), Counter({"INSERT events": 4}))
    message = describe_difference("a turn", found, kept)
    assert "30 -> 45  a.py g" in message
    assert "at most 30 -> 35  a.py h" in message
    assert "a.py f" not in message
    assert "make counts" in message


@pytest.mark.parametrize(("calls", "statements"), [(94, 4), (106, 4), (100, 3), (100, 5)])
def test_more_and_less_are_both_told(calls: int, statements: int) -> None:
    kept = {"calls": 100, "statements": {"INSERT events": 4}, "functions": {"a.py f": 100}}
    found = Count(Counter({"a.py f": calls}), Counter({"INSERT events": statements}))
    assert describe_difference("a turn", found, kept)


@pytest.mark.parametrize("calls", [95, 100, 105])
def test_what_is_within_a_twentieth_is_the_same(calls: int) -> None:
    kept = {"calls": 100, "statements": {}, "functions": {"a.py f": 100}}
    assert not describe_difference("a turn", Count(Counter({"a.py f": calls})), kept)


@pytest.mark.parametrize(
    ("piece", "work"), [("edit durable", "turn, edit, durable, 100"), ("shell", "turn, shell with a yes")]
)
def test_a_turn_walks_through_no_more_files_than_before(piece: str, work: str) -> None:
    if work not in (found := counts_of(piece)):
        pytest.skip("this machine has no whole sandbox for a shell")
    own = {str(path.relative_to(ROOT)).removeprefix("src/foregate/") for path in sources().values()}
    walked = {name.partition(" ")[0] for name, times in found[work].functions.items() if times}
    ours = sorted(file for file in walked & own if not file.startswith("agent/models/"))
    assert len(ours) <= MAX_FILES_OF_A_TURN[piece], f"{work} walks through {len(ours)} files: {', '.join(ours)}"
