"""Thresholds that tell nothing apart are named."""

from __future__ import annotations

import pytest

from foregate.policy.source.layers import build_layer
from foregate.tuning.lint import list_layer_remarks


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("uncertainty: {threshold: 0}", "each uncertainty reaches 0"),
        ("uncertainty: {threshold: 999}", "no uncertainty reaches 999"),
        ("critique: {level: call, risk: 80}", "each change's risk reaches 80"),
        ("critique: {level: call, risk: 81}", ""),
        ("critique: {level: call, risk: 990}", "no risk reaches 990"),
        ("critique: {uncertainty: 0}", "each uncertainty reaches 0"),
        ("critique: {uncertainty: 999}", "no uncertainty reaches 999"),
        ("critique: {risk_in_doubt: 40}", "each change's risk reaches 40"),
        ("critique: {risk_in_doubt: 999}", "no risk reaches 999"),
        ("critique: {risk_in_doubt: 0}", ""),
        ("critique: {risk: 300}", "there it is `critique.risk_in_doubt`"),
        ("critique: {level: plan, risk_in_doubt: 300}", "there it is `critique.risk`"),
        ("critique: {level: 'off', uncertainty: 300}", "with `critique.level: off` nothing is compared with it"),
        ("drift: {lasts: task, max_holds: 3}", "with `drift.lasts: task` nothing is compared with it"),
        ("narration: {min_chars: 0}", "no words are fewer than 0"),
        ("scope: {max_resources: 0}", "each is broad"),
        ("limits: {turns: 200}", "`limits.model_calls` ends it at 80"),
        ("limits: {turns: 200, model_calls: 0}", ""),
        ("limits: {futile_turns: 90}", "`limits.turns` ends it at 60"),
        ("safety: {rounds: 100}", "`safety.model_calls` ends them at 16"),
        ("rules: {list: [{id: a, then: ask, tool: x, risk_at_least: 0}]}", "the rule `a` is the same without it"),
        ("rules: {list: [{id: a, then: ask, tool: x, risk_at_least: 999}]}", "never matches: no risk reaches 999"),
    ],
)
def test_a_threshold_at_either_end_of_what_can_be_reached_is_named(text: str, says: str) -> None:
    said = [said for _, _, said in list_layer_remarks(build_layer("mine.yaml", "mine.yaml", text))]
    assert any(says in one for one in said) if says else said == []
