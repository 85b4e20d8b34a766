"""A recorded turn is cut to a case with the same verdict that notices the same changes of the policy."""

from __future__ import annotations

import pytest

from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Turn
from foregate.tuning.case import Case, Fate, dump_case, judge_case
from foregate.tuning.case_cutting import cut_case, find_noticed, list_entries
from foregate.tuning.mutations import MutationJudge, list_mutations
from tests.gates.turns import CATALOGUE, answered, call, need_of, plan_for, survey, turn

TRIED = ("rules", "narration", "uncertainty", "evidence", "plan", "approval")
MUTATIONS = [one for one in list_mutations(default_policy()) if one.path[0] in TRIED]
BENCHES = MutationJudge(default_policy(), MUTATIONS)
EDIT, SEND, SHELL = (
    call("edit_file", text="x" * 40),
    call("send", "bob@example.org", 2),
    call("run_shell", "rm -r b", 3),
)
UNREAD = turn(EDIT, SEND, surveys=(survey(EDIT), survey(SEND)))
READ = turn(EDIT, says="please fix the spelling of a.txt and of nothing else", narrated=0)
ASKING = turn(SEND, SHELL, surveys=(survey(SEND), survey(SHELL)))
PLANNED = answered(turn(SHELL), need_of(turn(SHELL)), plan_for(SHELL, "rm -r b"))


def size(value: object) -> int:
    """Return how many entries a value holds."""
    return sum(1 + size(value[entry]) for entry in list_entries(value))  # type: ignore[index]


@pytest.mark.parametrize(("of", "about"), [(UNREAD, "c1"), (READ, "c1"), (ASKING, "c2"), (PLANNED, "c3")])
def test_a_cut_case_has_the_same_verdict_and_notices_the_same_changes(of: Turn, about: str) -> None:
    policy = default_policy()
    whole = Case("x", of, CATALOGUE, about, Fate("hold", "prelude", "gate_error"))
    small = cut_case("x", of, about, policy, CATALOGUE, MUTATIONS)
    assert judge_case(small, policy) == judge_case(whole, policy) == small.expected
    noticed = [[one.says for one in find_noticed(case, BENCHES)] for case in (whole, small)]
    assert noticed[0] == noticed[1] != []
    assert size(dump_case(small)) < size(dump_case(whole)) / 2


def test_a_case_of_an_unread_file_says_no_more_than_that() -> None:
    data = dump_case(cut_case("x", UNREAD, "c1", default_policy(), CATALOGUE, MUTATIONS))
    assert data["expect"] == {"verdict": "hold", "gate": "evidence", "code": "missing_pre_execution_evidence"}
    (only,) = data["calls"]
    assert only["tool"] == "edit_file"
    assert only["found"] == {"resources": [{"kind": "file", "id": "a.txt", "access": "edit", "exists": True}]}
