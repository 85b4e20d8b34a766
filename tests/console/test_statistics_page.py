"""The figures of each gate, as the page of the statistics lays them out."""

from __future__ import annotations

from foregate.console.statistics_page import list_gates, list_labels
from foregate.schemas.judgement import Standing
from foregate.telemetry.queries.statistics import AdviceCost, Statistics


def test_a_gate_says_what_it_ruled_what_that_cost_and_how_often_reviewers_called_it_wrong() -> None:
    found = Statistics()
    found.gates["rules"].add(Standing.DENY, fired=1, asked=10)
    found.gates["plan"].add(Standing.ALLOW, fired=0, asked=3)
    found.gates["plan"].add(Standing.HOLD, fired=2, asked=2)
    found.advice["planner"] = AdviceCost(3, 100, 4_200)
    labels = list_labels({"plan": {"right": 1, "too strict": 1, "too lax": 0, "unclear": 5}})
    rules, plan = list_gates(found, labels)
    assert (rules.asked, rules.denied, rules.requests, rules.seconds, rules.wrong) == (10, 1, "", "", "")
    assert (plan.asked, plan.asked_person, plan.held, plan.denied) == (5, 0, 2, 0)
    assert (plan.requests, plan.seconds, plan.wrong) == ("3", "4.2 s", "1 of 2, 50 %")
    assert (plan.width, [(part.kind, part.width) for part in plan.bar]) == (180, [("hold", 72)])


def test_approval_costs_the_questions_to_people_and_the_seconds_they_took() -> None:
    found = Statistics()
    found.gates["approval"].add(Standing.ASK, fired=2, asked=2)
    found.approvals["asked"] = 2
    found.waited.update({5: 1, 60: 2})
    (row,) = list_gates(found)
    assert (row.requests, row.seconds) == ("2", "125 s")
