"""Rules that were never in force, tried on what is recorded."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Rule
from foregate.policy.source.load import default_policy
from foregate.tuning import rule_trial
from foregate.tuning.rule_trial import try_rules
from tests.agent.corpus import evidence, plan_accepted
from tests.tuning.what_if_worlds import played

EDITS = Rule(id="edits", then="ask", tool="edit_file")
EDITS_ELSEWHERE = Rule(id="elsewhere", then="ask", tool="edit_file", resource="docs/**")
COMMITS = Rule(id="commits", then="deny", tool="git_commit")


async def test_a_rule_is_left_where_it_matches_no_recorded_call() -> None:
    world = await played(evidence)
    found = try_rules(world.log, ["s"], [EDITS, EDITS_ELSEWHERE, COMMITS], default_policy())
    assert [rule.id for rule in found.left] == ["elsewhere", "commits"]
    said = f"was never in force, and matches none of the {found.calls} calls in the log"
    assert found.describe()["commits"] == said
    assert "edit_file" in found.tools


async def test_only_so_many_turns_are_read_and_the_words_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_trial, "MOST", 1)
    world = await played(plan_accepted)
    found = try_rules(world.log, ["s", "earlier"], [COMMITS], default_policy())
    assert found.turns == 1
    assert found.describe()["commits"].endswith("in the 1 turns of the newest sessions")


async def test_a_session_that_cannot_be_read_is_passed_over_and_of_no_calls_nothing_is_said() -> None:
    world = await played(evidence)
    assert try_rules(world.log, ["none", "s"], [EDITS], default_policy()).left == []
    assert try_rules(world.log, ["none"], [EDITS], default_policy()).describe() == {}


async def test_where_no_rule_is_new_only_the_tools_of_a_few_sessions_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await played(evidence)
    found = try_rules(world.log, ["s"], [], default_policy())
    assert (found.turns, "edit_file" in found.tools) == (0, True)
    monkeypatch.setattr(rule_trial, "_FEW", 1)
    assert try_rules(world.log, ["none", "s"], [], default_policy()).tools == {}
