"""Gate `rules`."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.schemas.judgement import Standing
from foregate.schemas.tool_call import Survey, SurveyedResource, fingerprint
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Refusal
from tests.gates.turns import call, codes, judged, need_of, row, seen, survey, turn
from tests.policies import policy_with

EDIT = call("edit_file")


def policy(*rules: dict[str, Any], **keys: Any) -> Any:
    """Return the default policy with exactly these rules."""
    return policy_with({**keys, "rules.list": list(rules)})


def rule(then: str, **matchers: Any) -> dict[str, Any]:
    """Return a rule named after its verdict."""
    return {"id": f"r-{then}", "then": then, **matchers}


def test_without_a_matching_rule_a_call_passes() -> None:
    assert codes(judged(turn(EDIT)))["rules"] == "rules_passed"


@pytest.mark.parametrize("order", list(permutations(("deny", "ask", "allow"))))
def test_deny_beats_ask_beats_allow_whatever_their_order(order: tuple[str, ...]) -> None:
    decision = row(judged(turn(EDIT), policy(*(rule(then) for then in order))), "rules")
    assert (decision.code, decision.rules) == ("denied_by_rule", ("r-deny",))
    without = [rule(then) for then in order if then != "deny"]
    assert need_of(turn(EDIT), policy(*without)).code == "asked_by_rule"


def test_a_denial_carries_the_rules_own_words() -> None:
    verdict = judged(turn(EDIT), policy(rule("deny", message="a.txt is generated; edit a.in"))).verdicts[0]
    assert (verdict.standing, verdict.ruling.message) == (Standing.DENY, "a.txt is generated; edit a.in")


def test_an_ask_without_anybody_to_ask_is_a_no() -> None:
    verdict = judged(turn(EDIT, attended=False), policy(rule("ask"))).verdicts[0]
    assert verdict.ruling.code == "approval_required"


def test_what_no_rule_names_follows_the_policy() -> None:
    assert codes(judged(turn(EDIT), policy_with({"rules.unmatched": "deny"})))["rules"] == "denied_by_rule"


def refused(**more: Any) -> Any:
    """Return a turn in which this very edit was refused before."""
    looked = survey(EDIT, seen())
    refusal = Refusal(EDIT.digest, fingerprint(looked), "approval", "approval_denied", "the person said no", 7)
    return turn(EDIT, surveys=(looked,), refusals=(replace(refusal, **more),))


def test_a_refused_call_sent_again_unchanged_stays_refused_in_the_first_words() -> None:
    judgement = judged(refused())
    assert codes(judgement)["rules"] == "refused_before"
    assert judgement.verdicts[0].ruling.message == "the person said no"


def test_new_evidence_or_other_arguments_lift_a_refusal() -> None:
    assert codes(judged(refused(fingerprint="other")))["rules"] == "rules_passed"
    assert codes(judged(refused(digest="other")))["rules"] == "rules_passed"


def test_the_policy_may_forget_refusals() -> None:
    assert codes(judged(refused(), policy_with({"rules.refused_before": False})))["rules"] == "rules_passed"


@pytest.mark.parametrize("protected", ["outside_workspace", "git_internal", "foregate"])
def test_the_default_rules_deny_what_is_not_the_agents_to_touch(protected: str) -> None:
    looked = survey(EDIT, seen(), protected=protected)
    assert codes(judged(turn(EDIT, surveys=(looked,))))["rules"] == "denied_by_rule"


def test_secrets_ask() -> None:
    looked = survey(EDIT, seen(), protected="secret")
    assert need_of(turn(EDIT, surveys=(looked,))).code == "asked_by_rule"


def test_the_default_rules_ask_about_what_runs_by_itself_and_say_what_runs_it() -> None:
    edit = call("edit_file", path=".envrc")
    need = need_of(turn(edit, surveys=(survey(edit, seen(), protected="runs_by_itself"),)))
    (why,) = need.request["calls"][0]["why"]
    assert need.code == "asked_by_rule"
    assert why.endswith("(`.envrc`: direnv or mise runs it when somebody enters the folder)")


def request(url: str) -> Any:
    """Return a turn with a GET of a URL, as it is surveyed."""
    get = call("fetch", path=url)
    host = SurveyedResource(ResourceKind.HOST, url.split("/")[2], Effect.OBSERVATION, exists=True)
    return turn(get, surveys=(Survey("c1", Effect.OBSERVATION, (host,)),))


def test_a_host_that_is_not_listed_is_denied_when_it_is_judged() -> None:
    listed = policy_with({"http.hosts": ["*.example.org"]})
    verdict = judged(request("https://evil.example/x"), listed).verdicts[0]
    assert (verdict.standing, verdict.ruling.code) == (Standing.DENY, "denied_by_rule")
    assert "`evil.example` is not among the policy's http.hosts (*.example.org)" in verdict.ruling.message
    assert codes(judged(request("https://a.example.org/x"), listed))["rules"] == "rules_passed"


def test_a_policy_may_leave_an_unlisted_host_to_fail_when_the_request_runs() -> None:
    later = policy_with({"http.unlisted": "fail"})
    assert codes(judged(request("https://evil.example/x"), later))["rules"] == "rules_passed"
