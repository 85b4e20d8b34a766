"""The statistics from the index are those of a fold over all events."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from foregate.telemetry.audit.decisions import KINDS, Statistics
from foregate.telemetry.index.counting import count_selection
from foregate.telemetry.index.filters import DecisionFilter
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.agent import corpus
from tests.telemetry.index.made import open_index, play, put_session


async def test_the_counts_of_every_story_are_those_of_its_events(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    for number, story in enumerate(corpus.STORIES):
        put_session(path, f"s{number}", await play(story))
    whole = Statistics()
    log = SqliteLog(path)
    with closing(open_index(path)) as index, closing(log):
        for number in reversed(range(len(corpus.STORIES))):
            own = Statistics()
            for found in (own, whole):
                found.add_session(f"s{number}", log.events(f"s{number}", kinds=KINDS))
            assert count_selection(index, DecisionFilter(sessions=[f"s{number}"])).to_json() == own.to_json()
        assert count_selection(index, DecisionFilter()).to_json() == whole.to_json()
        nothing = count_selection(index, DecisionFilter(since=datetime(2027, 1, 1, tzinfo=UTC)))
        assert (nothing.sessions, nothing.tasks, nothing.turns, nothing.calls) == (0, 0, 0, 0)
        by_gate = count_selection(index, DecisionFilter(gate=["evidence"]))
        assert by_gate.gates["evidence"] == whole.gates["evidence"]
        assert by_gate.gates["validity"].asked == 0
        assert 0 < by_gate.turns <= whole.turns
