"""What a call is, computed; and what it counts as when that cannot be computed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.policy.risk.facts import combine_reasons, compute_turn_facts, merge_capabilities
from foregate.policy.source.load import default_policy
from foregate.schemas.judgement import Standing
from foregate.schemas.plan import PlanInForce
from foregate.schemas.tool_call import Reason, Survey
from foregate.schemas.tool_spec import OBSERVER, UNDECLARED, Capabilities, Effect
from tests.gates.turns import CATALOGUE, call, facts_of, judged, survey, turn
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


def test_a_call_can_be_undone_only_where_everything_it_changes_can_be_restored() -> None:
    edit = call("edit_file")
    (kept,) = survey(edit).resources
    for restorable, irreversible in ((True, False), (False, True)):
        other = replace(kept, id="b.txt", restorable=restorable)
        for both in ((kept, other), (other, kept)):
            assert facts_of(edit, Survey(edit.id, resources=both)).irreversible is irreversible
    looked_at = replace(kept, id="b.txt", restorable=False, access=Effect.OBSERVATION)
    assert not facts_of(edit, Survey(edit.id, resources=(kept, looked_at))).irreversible


def test_a_change_of_more_things_than_the_policy_lets_is_broad_and_risky() -> None:
    edit, most = call("edit_file"), default_policy().scope.max_resources
    for entries, broad in ((most, False), (most + 1, True)):
        facts = facts_of(edit, survey(edit, entries=entries))
        assert (facts.broad, facts.risky) == (broad, broad)


def test_what_the_operator_says_a_command_does_no_command_line_lowers() -> None:
    looking = turn(call("run_command", "ls"))
    policy = policy_with({"tools.run_command": {"effect": "administer"}})
    assert compute_turn_facts(looking, policy, CATALOGUE)["c1"].effect is Effect.ADMINISTER


def test_a_score_is_rounded_once_to_the_nearest_thousandth() -> None:
    for weights, value in (((550, 350), 707), ((550, 340), 703), ((500,), 500), ((), 0)):  # 0.45 x 0.65 = 0.2925
        assert combine_reasons(Reason("x", weight, "x") for weight in weights).value == value


def test_an_accepted_plan_sets_bounds_to_a_deletion() -> None:
    delete = call("delete_path", "zebra.txt")
    for plan, unscoped in ((None, True), (PlanInForce(1, "goal", ()), False)):
        of = turn(delete, says="remove old stuff", plan=plan)
        facts = compute_turn_facts(of, default_policy(), CATALOGUE)["c1"]
        assert ("scope" in facts.uncertainty.slots) is unscoped
