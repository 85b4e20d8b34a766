"""The statistics from the index are those of a fold over all events."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.filters import DecisionFilter
from foregate.telemetry.queries.statistics import count_selection
from tests.agent import corpus
from tests.telemetry.queries.counted import KINDS, FoldedStatistics
from tests.telemetry.queries.made_index import open_index, play, put_session


async def test_the_counts_of_every_story_are_those_of_its_events(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    for number, story in enumerate(corpus.STORIES):
        put_session(path, f"s{number}", await play(story))
    whole = FoldedStatistics()
    log = SqliteLog(path)
    with closing(open_index(path)) as index, closing(log):
        for number in reversed(range(len(corpus.STORIES))):
            own = FoldedStatistics()
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
