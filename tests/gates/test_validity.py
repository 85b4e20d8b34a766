"""Gate `validity`."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from foregate.agent.session.result import DELEGATE
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.gates.prelude import build_prelude
from foregate.gates.support.schema_check import SchemaCheck
from foregate.gates.validity import ValidityGate
from foregate.policy.source.load import default_policy
from foregate.schemas.judgement import Standing
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.tool_spec import ToolSpec, build_catalogue
from tests.gates.turns import CATALOGUE, call, codes, judged, row, turn
from tests.policies import policy_with


def test_a_known_tool_with_fitting_arguments_passes() -> None:
    assert codes(judged(turn(call("read_file"))))["validity"] == "validity_passed"


def test_an_unknown_tool_is_denied_and_the_nearest_one_named() -> None:
    verdict = judged(turn(call("reed_file"))).verdicts[0]
    assert (verdict.standing, verdict.ruling.code) == (Standing.DENY, "unknown_tool")
    assert "`read_file`" in verdict.ruling.message


@pytest.mark.parametrize(
    ("name", "edition", "told"),
    [
        ("microsandbox.run_command", 1, True),
        ("microsandbox.run_comand", 1, False),
        ("run_comand", 1, False),
        ("microsandbox.run_command", 0, False),
    ],
)
def test_a_tool_of_ours_in_an_unknown_service_is_told_the_key_that_names_services(
    name: str, edition: int, told: bool
) -> None:
    message = judged(turn(ToolCall.of(name, {}, id="c1"), edition=edition)).verdicts[0].ruling.message
    assert message.startswith(f"there is no tool `{name}`; ")
    assert ("`dialect.services` of the configuration can lead `microsandbox`" in message) is told


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ('{"path": 3}', "path"),
        ("{}", "`path` is missing"),
        ('{"path": "a", "path": "b"}', "twice"),
        ('{"path": "a", "x": 1}', "no argument `x`"),
        ("[]", "not a JSON object"),
        ("", "not valid JSON"),
        ('{"path": NaN}', "NaN"),
        ('{"path": "\\ud800"}', "surrogate"),
        ('{"path": ' + "9" * 5000 + "}", "digits"),
        ('{"path": ' + "[" * 40 + "]" * 40 + "}", "deeper than 32"),
    ],
)
def test_arguments_that_cannot_be_used_are_held_with_one_sentence(raw: str, words: str) -> None:
    judgement = judged(turn(ToolCall.parse("read_file", raw, id="c1")))
    assert judgement.verdicts[0].standing is Standing.HOLD
    assert row(judgement, "validity").code == "invalid_arguments"
    assert words in row(judgement, "validity").summary


def test_arguments_over_the_policys_size_are_held_with_the_number() -> None:
    policy = policy_with({"validity.max_bytes": 20})
    decision = row(judged(turn(call("read_file", "x" * 50)), policy), "validity")
    assert decision.numbers[0].path == "validity.max_bytes"


def test_a_pattern_that_would_hang_a_backtracking_engine_is_harmless() -> None:
    check = SchemaCheck({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}, closed=False)
    assert "does not match" in check.find_first_defect({"a": "a" * 50_000 + "!"})


def test_a_reference_that_leaves_the_schema_is_never_fetched() -> None:
    check = SchemaCheck({"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}, closed=False)
    with pytest.raises(Exception, match="127"):
        check.find_first_defect({"a": 1})


def test_a_call_that_names_what_nobody_could_look_at_is_held_with_the_reason_and_no_rule_is_asked() -> None:
    result = judged(turn(call("read_file"), surveys=(Survey("c1", problem="the repository has no remote `origin`"),)))
    (verdict,) = result.verdicts
    assert (verdict.gate, verdict.ruling.code) == ("validity", "invalid_arguments")
    assert verdict.ruling.message == "the repository has no remote `origin`"
    assert [decision.gate for decision in result.decisions] == ["validity"]


def test_arguments_may_be_as_deep_and_as_large_as_the_policy_says_and_no_more() -> None:
    deep = ToolCall.parse("odd", '{"path": "a", "more": [[1]]}', id="c1")
    for key, at in (("validity.max_depth", 3), ("validity.max_bytes", len(deep.raw))):
        for bound, expected in ((at, "validity_passed"), (at - 1, "invalid_arguments")):
            policy = policy_with({key: bound, "validity.closed_arguments": "builtin"})
            gate = ValidityGate(policy, {"odd": replace(CATALOGUE["odd"], provenance="configured")})
            assert gate.rule_on_call(deep, "").code == expected


def test_as_many_changes_as_may_be_made_without_a_plan_pass_and_one_more_holds_them_all() -> None:
    first, second, read = call("edit_file"), call("edit_file", "b.txt", 2), call("read_file", "c.txt", 3)
    for unplanned, held in ((2, set()), (1, {"c1", "c2"}), (0, {"c1", "c2"})):
        verdicts = judged(turn(first, second, read, unplanned=unplanned)).verdicts
        assert {one.call for one in verdicts if one.ruling.code == "plan_required"} == held


def test_the_schema_of_each_built_in_tool_is_sound_which_a_session_takes_for_granted() -> None:
    tools = builtin_tools(MemoryWorkspace({}), default_policy(), memory=Path("memory"))
    specs = [DELEGATE, *(tool.spec for tool in tools)]
    assert len(specs) > 25
    for spec in specs:
        assert spec.provenance == "builtin"
        SchemaCheck(spec.parameters, closed=True)


@pytest.mark.parametrize("provenance", ["python", "mcp:files", "remote"])
def test_a_tool_of_somebody_else_whose_schema_is_none_begins_no_session(provenance: str) -> None:
    spec = ToolSpec("look", "Look.", {"type": "object", "properties": {"a": {"type": 5}}}, provenance=provenance)
    with pytest.raises(jsonschema.SchemaError):
        build_prelude(default_policy(), build_catalogue([spec]))
