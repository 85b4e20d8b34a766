"""Decision points, replay notes and summaries of real sessions and of made decisions."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import Draft, Event, TurnJudged
from foregate.schemas.judgement import CallRuling, Decision, Judgement, Standing
from foregate.schemas.turn import TurnRecord
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.decisions import check_names, read_decisions
from tests.conftest import OpenSession
from tests.telemetry.made import NOW, event

EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


def judged(*decisions: Decision) -> Event:
    """Return a `turn_judged` with these decisions."""
    turn = TurnRecord(
        response=3,
        task=1,
        turn=2,
        now=NOW,
        policy_hash="",
        catalogue_hash="",
        prompts_hash="",
        surveys=(),
        user_messages=(),
    )
    body = TurnJudged(turn=turn, judgement=Judgement((), decisions), survey_hash="", fingerprints={})
    return event(body, seq=7)


async def test_a_held_edit_is_a_row_with_tool_target_and_ruling(
    folder: Path, open_session: OpenSession, tmp_path: Path
) -> None:
    (folder / "a.txt").write_text("teh cat")
    log = SqliteLog(tmp_path / "log.db")
    session = await open_session(calls(EDIT), calls(EDIT), says("done"), log=log)
    await run(session, "fix the typo in a.txt")
    await session.close()
    points = list(read_decisions(log.events("s", kinds=("turn_judged",))))
    log.close()
    held = [point for point in points if point.code == "missing_pre_execution_evidence"]
    assert [(p.gate, p.tool, p.target, p.severity, p.actor, p.turn) for p in held] == [
        ("evidence", "edit_file", "a.txt", "warning", "model", 1)
    ]
    assert held[0].address == f"{held[0].seq}.evidence"
    assert held[0].rulings[0].standing is Standing.HOLD
    assert any(point.actor == "runner" for point in points)
    assert len({point.address for point in points}) == len(points)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"gate": ["evidnce"]}, "there is no gate `evidnce`; did you mean `evidence`"),
        ({"code": ["stale"]}, "there is no code `stale`; did you mean `"),
        ({"severity": ["warn"]}, "there is no severity `warn`; did you mean `warning`"),
    ],
)
def test_a_name_nobody_gives_is_refused_with_the_nearest(wanted: dict[str, list[str]], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_names(**wanted)


def test_a_row_as_json_has_every_column() -> None:
    (point,) = read_decisions([judged(Decision("rules", "rules_passed"))])
    assert set(point.to_json()) == set(point.__slots__)


def test_rulings_are_kept_call_by_call() -> None:
    rulings = (CallRuling("c3.1", Standing.ALLOW, "rules_passed"), CallRuling("c3.2", Standing.DENY, "denied_by_rule"))
    (point,) = read_decisions([judged(Decision("rules", "denied_by_rule", rulings=rulings))])
    assert point.rulings == rulings


async def test_decisions_that_cannot_be_read_are_one_clear_error(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    lease = await log.claim("s", create=True)
    await log.append(lease, [Draft(judged(Decision("rules", "rules_passed")).body, "foregate")], policy="p", time=NOW)
    await log.settle(lease)
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute("UPDATE events SET text = replace(text, '\"rules\"', '3')")
    with pytest.raises(LogError, match=r"event 1 cannot be read \(its turn_judged cannot be read: .*gate"):
        list(read_decisions(log.events("s", kinds=("turn_judged",))))
    log.close()
