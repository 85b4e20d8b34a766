"""The agent that `classic` follows, scenario by scenario: the same codes and calls, but where a page says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.agent.classic.play import Scenario, play, read_scenarios

SCENARIOS = list(read_scenarios())
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "classic.md"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{one['gate']}: {one['name']}" for one in SCENARIOS])
async def test_classic_does_what_the_agent_it_follows_did(scenario: Scenario) -> None:
    came = await play(scenario)
    assert came.turns == scenario.get("here", scenario["wants"])
    assert came.steps == scenario.get("steps", came.steps)
    assert came.tools == scenario.get("tools", came.tools)
    assert came.status == scenario.get("status", came.status)


def test_a_scenario_with_another_outcome_differs_indeed_and_says_why() -> None:
    for scenario in SCENARIOS:
        assert ("here" in scenario) == ("differs" in scenario)
        assert scenario.get("here") != scenario["wants"]


def test_the_page_lists_exactly_the_differences_that_scenarios_show() -> None:
    listed = re.findall(r"^- \*\*(.+?)\*\*:", PAGE.read_text("utf-8"), re.M)
    assert sorted(listed) == sorted({scenario["differs"] for scenario in SCENARIOS if "differs" in scenario})
