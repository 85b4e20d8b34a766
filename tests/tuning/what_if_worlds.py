"""A policy file and a log for judging again: the corpus' stories, and sessions nobody wrote down."""

from __future__ import annotations

from typing import Any

from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES, Layer
from foregate.policy.source.load import default_policy
from foregate.policy.source.values import compare_policies
from foregate.tuning.what_if import Row, WhatIf, WhatIfTally
from tests.agent.corpus import Story
from tests.agent.world import World
from tests.policies import policy_with


def layer_of(policy: Policy) -> Layer:
    """Return the user's file that turns the default into `policy`."""
    data: dict[str, Any] = {}
    rules = []
    for path, (_, value) in compare_policies(default_policy(), policy).items():
        if path[: len(RULES)] == RULES:
            rules.append(value)
            continue
        place = data
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = value
    if rules:
        data.setdefault("rules", {})["list"] = rules
    return Layer("mine.yaml", "mine.yaml", data, {})


async def played(story: Story) -> World:
    """Return the world of a story after it has been played."""
    world = World()
    await story(world)
    return world


def judged(
    world: World, changes: dict[str, Any] | None = None, *rules: dict[str, Any]
) -> tuple[list[Row], WhatIfTally]:
    """Return what a world's session comes to under its own policy with changes and further rules."""
    layer = layer_of(policy_with(changes, world.policy))
    layer.data.setdefault("rules", {}).setdefault("list", []).extend(rules)
    judge = WhatIf(world.log, layer)
    return list(judge.find_changes(["s"])), judge.tally
