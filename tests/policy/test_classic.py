"""The shipped policy `classic`: each key it changes makes the one difference it names, and no key is left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import answers, calls, says
from foregate.assembly.choices import find_policy_file
from foregate.gates.prelude import build_prelude, judge
from foregate.policy.policy import Policy
from foregate.policy.source.load import (
    SHIPPED,
    default_policy,
    load_policy_layers,
    resolve_policy_file,
)
from foregate.policy.source.strict_yaml import format_path, parse_yaml, walk_values
from foregate.schemas.codes import GATES
from foregate.schemas.event import TurnJudged
from foregate.schemas.judgement import Need
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.turn import Counters, Turn
from tests.agent import world
from tests.events import bodies
from tests.gates.turns import (
    ACCEPT,
    CATALOGUE,
    answered,
    call,
    codes,
    judged,
    need_of,
    plan_for,
    row,
    seen,
    step,
    survey,
    turn,
)
from tests.policies import check_policy_file, policy_with

CLASSIC = load_policy_layers(resolve_policy_file("classic")).policy
DEFAULT = default_policy()
BOB = "bob@example.org"
EDIT, RUN, SEND = call("edit_file"), call("run_command", "make test"), call("send", BOB)
WORDS = "just tell me what a.txt is for"


def says_gate(of: Turn, policy: Policy, gate: str) -> str:
    """Return the code of a gate, `asks` where it raises a Need, `passes` where a later gate raises one."""
    result = judge(of, build_prelude(policy, CATALOGUE))
    if not isinstance(result, Need):
        return codes(result).get(gate, "not asked")
    return "asks" if result.gate == gate else "passes" if GATES.index(gate) < GATES.index(result.gate) else "not asked"


def standing(of: Turn, policy: Policy, gate: str) -> tuple[str, str]:
    """Return code and standing of a gate's ruling on the one call, to which a person says yes in the end."""
    need = need_of(of, policy)
    assert need.who == "person"
    found = row(judged(answered(of, need, {"choice": "yes", "text": "", "by": "person"}), policy), gate)
    return found.code, found.rulings[0].standing.value


def planned(policy: Policy, plan: Any, **more: Any) -> Turn:
    """Return a turn that sends a message, with the planner's answer."""
    of = turn(SEND, says=f"greet {BOB} and send it", **more)
    return answered(of, need_of(of, policy), plan, "" if plan else "plan_generation_failed")


def criticised(policy: Policy, critique: Any) -> Turn:
    """Return the same turn with a plan that fits and the critic's answer."""
    of = planned(policy, plan_for(SEND))
    need = need_of(of, policy)
    assert need.who == "critic"
    return answered(of, need, critique, "" if critique else "critique_generation_failed")


def in_force(*items: ScopeItem) -> PlanInForce:
    """Return an accepted plan with this scope and the classes of sending a message."""
    return PlanInForce(1, "greet and fix", items, classes=("external", "irreversible", "send"))


def silent_look(policy: Policy) -> object:
    return says_gate(turn(call("read_file"), narrated=0), policy, "narration")


def unknown_wish(policy: Policy) -> object:
    return says_gate(turn(EDIT, says="hello there, a.txt"), policy, "drift")


def words_wanted_again(policy: Policy) -> object:
    first = judged(turn(EDIT, says=WORDS), policy).consequence
    return first and first.lasts, says_gate(turn(EDIT, says=WORDS, fired={"drift": 1}), policy, "drift")


def innocent_read(policy: Policy) -> object:
    look, edit = call("read_file", "b.txt", 2), call("edit_file")
    of = turn(edit, look, surveys=(survey(edit), survey(look, seen())))
    return judged(of, policy).verdicts[1].standing.value


def first_tame_change(policy: Policy) -> object:
    return says_gate(turn(EDIT), policy, "plan")


def child_task(policy: Policy) -> object:
    return says_gate(turn(RUN, depth=1), policy, "plan")


def beyond_the_plan(policy: Policy) -> object:
    return says_gate(turn(RUN, plan=in_force()), policy, "plan")


def no_planner(policy: Policy) -> object:
    uncriticised = policy_with({"critique.mode": "off"}, policy)
    return standing(planned(uncriticised, None), uncriticised, "plan")


def accepted_plan(policy: Policy) -> object:
    return says_gate(planned(policy, plan_for(SEND)), policy, "critique")


REVIEWED = {"critique.level": "plan"}


def no_critic(policy: Policy) -> object:
    policy = policy_with(REVIEWED, policy)
    return standing(criticised(policy, None), policy, "critique")


def empty_critique(policy: Policy) -> object:
    policy = policy_with(REVIEWED, policy)
    return standing(criticised(policy, ACCEPT | {"summary": " "}), policy, "critique")


def no_budget(policy: Policy) -> object:
    policy = policy_with(REVIEWED, policy)
    return standing(planned(policy, plan_for(SEND), counters=Counters(safety_rounds=8)), policy, "critique")


def traced_values(policy: Policy) -> object:
    return policy.mandate.mode


def planned_form(policy: Policy) -> object:
    return policy.plan.form


def unchecked_promise(policy: Policy) -> object:
    """Edit under a plan whose criterion a look cannot tell, and return what the postlude recorded."""
    plan = world.plan_json("edit_file", "a.txt")
    plan["success_criteria"] = [{"text": "tests", "check": "command_succeeds", "target": "make test", "expected": None}]
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})

    async def session() -> list[str]:
        place = world.World(policy=policy_with({"plan.changed_resources": 1}, policy))
        look = calls(("read_file", {"path": "a.txt"}), text="I will mend the typo you named.")
        steps = [look, calls(edit), answers(plan), says("fixed"), says("fixed, I am sure")]
        await run(await place.open(steps), "fix the typo in a.txt")
        judged = bodies(await place.log.read("s"), TurnJudged)
        return [d.code for body in judged for d in body.judgement.decisions if d.gate == "postlude"]

    return asyncio.run(session())


DRIFT = "text_only_turn_side_effecting_tool_drift"
PROCEED = {"dangerous": "proceed", "other": "proceed"}
Scene = Callable[[Policy], object]
TABLE: dict[str, tuple[Scene, object, object]] = {
    "holds": (innocent_read, "allow", "hold"),
    "narration.scope": (silent_look, "narration_passed", "narration_required"),
    "drift.trigger": (unknown_wish, "drift_passed", DRIFT),
    "drift.lasts": (words_wanted_again, ("request", "drift_passed"), ("task", DRIFT)),
    "plan.due": (first_tame_change, "plan_passed", "asks"),
    "plan.depth": (child_task, "asks", "passes"),
    "plan.binding": (beyond_the_plan, "asks", "passes"),
    "plan.on_unavailable.dangerous": (
        no_planner,
        ("plan_unavailable", "ask"),
        ("plan_unavailable_let_go", "allow"),
    ),
    "critique.level": (accepted_plan, "passes", "asks"),
    "critique.on_unavailable.dangerous": (
        no_critic,
        ("critique_unavailable", "ask"),
        ("critique_unavailable", "allow"),
    ),
    "critique.on_invalid.dangerous": (empty_critique, ("critique_invalid", "ask"), ("critique_invalid", "allow")),
    "critique.on_budget_exhausted": (
        no_budget,
        ("critique_skipped_budget", "ask"),
        ("critique_skipped_budget", "allow"),
    ),
    "mandate.mode": (traced_values, "enforce", "off"),
    "plan.form": (planned_form, "blind", "call"),
    "postlude.mode": (unchecked_promise, ["verification_pending", "unverified"], []),
}
"""For each key of classic.yaml a scene, and what it comes to under the default policy and under the other."""


def values() -> dict[str, Any]:
    """Return what classic.yaml says, by dotted key."""
    data, _ = parse_yaml(resolve_policy_file("classic").read_text("utf-8"), "classic.yaml")
    return {format_path(path): value for path, value in walk_values(data) if not isinstance(value, dict)}


def value_in(policy: Policy, key: str) -> Any:
    """Return the value of a policy at a dotted key."""
    place: Any = policy.model_dump(mode="json")
    for part in key.split("."):
        place = place[part]
    return place


def test_classic_holds_only_keys_that_differ_and_the_table_has_a_scene_for_each() -> None:
    assert values().keys() == TABLE.keys()
    for key, value in values().items():
        assert value_in(DEFAULT, key) != value == value_in(CLASSIC, key)
    assert policy_with(values()) == CLASSIC


@pytest.mark.parametrize("key", TABLE)
def test_each_key_differs_as_it_says(key: str) -> None:
    scene, default, classic = TABLE[key]
    seen = DEFAULT if key == "plan.form" else policy_with()
    assert (scene(seen), scene(CLASSIC)) == (default, classic)


@pytest.mark.parametrize("key", TABLE)
def test_each_key_makes_its_difference_by_itself(key: str) -> None:
    scene, _, classic = TABLE[key]
    assert scene(policy_with({key: values()[key]})) == classic


@pytest.mark.parametrize("key", TABLE)
def test_without_its_key_nothing_else_in_classic_makes_the_difference(key: str) -> None:
    scene, _, classic = TABLE[key]
    assert scene(policy_with({key: value_in(DEFAULT, key)}, CLASSIC)) != classic


def test_a_shipped_name_is_never_a_file_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classic").write_text("approval: {mode: never}\n")
    ours = find_policy_file("classic", {})
    assert load_policy_layers(ours).policy.hash == CLASSIC.hash
    assert load_policy_layers(find_policy_file(None, {"FOREGATE_POLICY": "classic"})).policy.hash == CLASSIC.hash
    for named in ("./classic", Path("classic")):
        assert load_policy_layers(find_policy_file(named, {})).policy.approval.mode == "never"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_policy_is_usable_and_its_values_know_their_lines(name: str) -> None:
    loaded = load_policy_layers(resolve_policy_file(name))
    assert check_policy_file(resolve_policy_file(name)) == []
    assert any(origin.startswith(f"{name}.yaml:") for origin in loaded.provenance.values())


def test_a_plan_for_the_first_change_leaves_the_others_of_its_response_alone() -> None:
    other = call("edit_file", "b.txt", 2)
    of = turn(EDIT, other, says="fix a.txt and b.txt")
    need = need_of(of, CLASSIC)
    assert need.calls == ("c1",)
    judgement = judged(answered(of, need, plan_for(EDIT, planned_steps=[step("edit_file", "a.txt")])), CLASSIC)
    assert [verdict.standing.value for verdict in judgement.verdicts] == ["allow", "allow"]
    assert judgement.plan is not None
