"""Who tails a service's log sees each call that does not run, each advisor that is away, and each score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.judgement import Standing
from foregate.telemetry import diagnostics
from foregate.telemetry.decision_lines import open_decision_lines
from foregate.telemetry.queries.decisions import read_decisions
from foregate.testing import MemoryLog, ScriptedModel, calls, says
from tests.agent.corpus import STORIES, Story
from tests.agent.world import World

SECRET = "hunter2-hunter2-hunter2"
AWAY = {
    "plan_unavailable": [("plan_unavailable", "ask")],
    "plan_let_go": [("plan_unavailable_let_go", "allow")],
    "critique_invalid": [("critique_invalid", "ask")],
    "critique_unavailable": [("critique_unavailable", "ask")],
    "critique_skipped": [("critique_skipped_budget", "ask")],
}
"""By story what is said of advice that could not be had, and how the policy goes on."""


@pytest.fixture(autouse=True)
def at_info(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logger of its own for each test, bound to its standard error."""
    diagnostics._for_level.cache_clear()
    monkeypatch.setenv("FOREGATE_LOG", "info")


def write_lines(events: Sequence[Event], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the lines of a session's events."""
    (lines,) = open_decision_lines()
    capsys.readouterr()
    for event in events:
        lines.take_event(event)
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_each_call_that_does_not_run_is_one_line_with_the_address_of_its_decision(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    await story(world)
    events = await world.log.read("s")
    lines = write_lines(events, capsys)
    told = [line for line in lines if line["event"] in ("call_held", "call_refused")]
    assert [(line["decision"], line["call"], line["code"], line["event"] == "call_held") for line in told] == [
        (f"s:{event.seq}.{one.gate}", one.call, one.ruling.code, one.standing is Standing.HOLD)
        for event in events
        if isinstance(event.body, TurnJudged)
        for one in event.body.judgement.verdicts
        if one.standing is not Standing.ALLOW
    ]
    assert all(bool(line["tool"]) is (line["code"] != "unknown_tool") for line in told)
    away = [(line["code"], line["then"]) for line in lines if line["event"] == "advice_unavailable"]
    assert away == AWAY.get(story.__name__, [])
    rows = {f"s:{row.address}": row for row in read_decisions(events) if row.mode == "enforce"}
    for line in (line for line in lines if line["event"] == "score"):
        row = rows[line["decision"]]
        assert (line["gate"], line["code"]) == (row.gate, row.code)
        assert (line["value"], line["bound"], line["key"]) in [(one.value, one.bound, one.path) for one in row.numbers]


async def test_a_score_below_and_one_above_its_threshold_are_told_with_the_key_that_sets_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tests.agent.corpus import plan_accepted, uncertainty

    found = {}
    for story in (uncertainty, plan_accepted):
        await story(world := World())
        for line in write_lines(await world.log.read("s"), capsys):
            told = line["numbers"] if "numbers" in line else [line] if line["event"] == "score" else []
            found |= {(line["event"], one["key"]): one["value"] >= one["bound"] for one in told}
    assert found["call_held", "uncertainty.threshold"]
    assert not found["score", "uncertainty.threshold"]


async def test_an_agents_lines_hold_no_argument_no_secret_and_no_line_break_of_a_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_API_TOKEN", SECRET)
    odd = f"no\nsuch\u202etool {SECRET} " + "x" * 300
    model = ScriptedModel(
        [calls((odd, {"key": SECRET}), ("read_file", {"path": f"../{SECRET}"}), ("read_file", {"path": 3})), says("ok")]
    )
    async with foregate.Agent(model=model, workspace=tmp_path, log=MemoryLog()) as agent:
        await agent.run("read my files")
        name = agent.session
    err = capsys.readouterr().err
    lines = [json.loads(line) for line in err.splitlines()]
    assert [(line["event"], line["gate"], line["code"]) for line in lines] == [
        ("call_refused", "validity", "unknown_tool"),
        ("call_refused", "rules", "denied_by_rule"),
        ("call_held", "validity", "invalid_arguments"),
    ]
    assert all(line["decision"].startswith(f"{name}:") for line in lines)
    assert [line["tool"] for line in lines] == ["", "read_file", "read_file"]
    assert SECRET not in err


async def test_without_a_level_nothing_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for level, count in (("", 0), ("warning", 1)):
        monkeypatch.setenv("FOREGATE_LOG", level)
        async with foregate.Agent(model=ScriptedModel([]), workspace=tmp_path, log=MemoryLog()) as agent:
            assert len((await agent.open()).log.listeners) == count
