"""What a call is, computed; and what it counts as when that cannot be computed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.policy.risk.facts import compute_turn_facts, merge_capabilities
from foregate.policy.source.load import default_policy
from foregate.schemas.judgement import Standing
from foregate.schemas.tool_spec import OBSERVER, UNDECLARED, Capabilities, Effect
from tests.gates.turns import CATALOGUE, call, judged, turn
from tests.policies import policy_with


def test_facts_that_cannot_be_computed_hold_the_call_and_count_as_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr("foregate.policy.risk.facts.measure_risk", broken)
    of = turn(call("edit_file"))
    facts = compute_turn_facts(of, default_policy(), CATALOGUE)["c1"]
    assert (facts.effect, facts.risk.value, facts.irreversible) == (Effect.UNKNOWN, 1000, True)
    assert judged(of).verdicts[0].standing is Standing.HOLD


def test_what_a_foreign_tool_says_of_itself_never_lowers_a_risk() -> None:
    spec = replace(CATALOGUE["read_file"], provenance="mcp:server")
    assert merge_capabilities(spec, None) == UNDECLARED
    mild = policy_with({"tools.read_file": {"read_only": True, "external_side_effect": False}}).tools["read_file"]
    assert merge_capabilities(spec, mild).read_only
    loud = replace(spec, capabilities=replace(OBSERVER, external_side_effect=True))
    assert merge_capabilities(loud, mild).external_side_effect


def test_the_operators_entry_beats_the_declaration() -> None:
    policy = policy_with({"tools.read_file": {"effect": "send"}})
    facts = compute_turn_facts(turn(call("read_file")), policy, CATALOGUE)["c1"]
    assert (facts.effect, facts.external) == (Effect.SEND, True)


def test_a_foreign_tool_that_calls_its_text_a_harmless_command_is_not_believed() -> None:
    foreign = {**CATALOGUE, "run_command": replace(CATALOGUE["run_command"], provenance="mcp:server")}
    looking = turn(call("run_command", "ls"))
    assert compute_turn_facts(looking, default_policy(), CATALOGUE)["c1"].effect is Effect.OBSERVATION
    assert compute_turn_facts(looking, default_policy(), foreign)["c1"].effect is Effect.UNKNOWN


@pytest.mark.parametrize("flag", Capabilities.__struct_fields__)
def test_a_second_opinion_raises_a_risk_and_never_lowers_one(flag: str) -> None:
    eases = flag in ("read_only", "idempotent", "reversible", "personal_memory")
    with_it, without = Capabilities(**{flag: True}), Capabilities(**{flag: False})
    assert getattr(with_it.raise_by(without), flag) is getattr(without.raise_by(with_it), flag) is not eases
