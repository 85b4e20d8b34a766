"""Cases are written and read back, and what is no case is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foregate.evidence.state.recorded_turns import RecordedTurn, read_judged_turns
from foregate.gates.prelude import build_prelude
from foregate.policy.source.load import default_policy, restore_policy
from foregate.policy.source.strict_yaml import parse_yaml
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.judgement import Grant
from foregate.schemas.tool_spec import build_catalogue
from foregate.schemas.turn import HoldCount, Refusal
from foregate.tuning.case import (
    Case,
    Fate,
    dump_case,
    format_case,
    format_document,
    judge_case,
    load_case,
    read_case,
    shorten_hashes,
)
from tests.agent.corpus import STORIES, Story
from tests.gates.turns import CATALOGUE, answered, call, need_of, plan_for, survey, turn
from tests.tuning.what_if_worlds import played

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SMALL = {"case": "x", "expect": {"verdict": "hold", "gate": "evidence", "code": "missing_pre_execution_evidence"}}
CALLS = [{"tool": "edit_file", "arguments": {"path": "a.txt"}}]


@given(st.dictionaries(TEXTS, PLAIN, max_size=4))
@example({":0": None})
def test_whatever_is_written_reads_back(data: dict[str, Any]) -> None:
    text = format_document(data, "two\nlines \x1b of a comment")
    assert parse_yaml(text, "x", decimals=True)[0] == data
    assert text.startswith("# two\n# lines \\u{1B} of a comment\n")


async def turns_of(story: Story) -> list[RecordedTurn]:
    """Return the judged turns of a story."""
    world = await played(story)
    return list(read_judged_turns(world.log.events("s")))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_a_recorded_turn_comes_out_of_a_file_as_it_was_judged(story: Story, tmp_path: Path) -> None:
    for number, recorded in enumerate(await turns_of(story)):
        values, tools = recorded.in_force.require()
        policy = restore_policy(values)
        for about in [one.id for one in recorded.turn.calls] or [""]:
            case = Case("x", recorded.turn, build_catalogue(tools), about, Fate("hold", "prelude", "gate_error"))
            file = tmp_path / f"{number}.yaml"
            file.write_text(format_case(case))
            assert judge_case(read_case(file), policy) == judge_case(case, policy)


def test_hashes_of_calls_stand_under_their_names_and_follow_what_is_changed() -> None:
    wanted = call("edit_file", "a.txt", 1)
    held = HoldCount(wanted.digest, "x", turn(wanted).fingerprints["c1"], 1)
    refused = Refusal(wanted.digest, turn(wanted).fingerprints["c1"], "rules", "denied_by_rule", "no")
    asked = turn(wanted, holds=(held,), refusals=(refused,), grants=(Grant("plan", "x", "edit", digest=wanted.digest),))
    data = dump_case(Case("x", asked, CATALOGUE, "c1", Fate("hold", "prelude", "gate_error")))
    assert data["turn"]["grants"][0]["digest"] == data["turn"]["holds"][0]["digest"] == "digest(c1)"
    assert data["turn"]["refusals"][0]["fingerprint"] == "fingerprint(c1)"
    data["calls"][0]["arguments"]["path"] = "b.txt"
    again = load_case(data).turn
    assert again.holds[0].digest == again.calls[0].digest != wanted.digest


def test_answers_go_along_with_what_they_were_asked_about() -> None:
    wanted = call("send", "bob@example.org", 1)
    asked = turn(wanted, surveys=(survey(wanted),))
    need = need_of(asked)
    given_ = answered(asked, need, plan_for(wanted))
    case = Case("x", given_, CATALOGUE, "c1", Fate("hold", "prelude", "gate_error"))
    policy = default_policy()
    assert judge_case(load_case(dump_case(case)), policy) == judge_case(case, policy)
    assert build_prelude(policy, CATALOGUE).gates


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"case": 3}, "`case` is not a text"),
        ({"expects": {}}, "`expects` is no key of a case"),
        ({"expect": {"verdict": "hold", "gate": "evidences", "code": "x"}}, "is no gate"),
        ({"expect": {"verdict": "held", "gate": "evidence", "code": "x"}}, "Fate"),
        ({"expect": {**SMALL["expect"], "call": "c7"}}, "the calls are c1"),
        ({"calls": [{"tool": "x", "argument": {}}]}, "`argument` is no key of a call"),
        ({"calls": [{"arguments": {}}]}, "`tool` is missing"),
        ({"calls": "x"}, "`calls` is not a list"),
        ({"turn": {"calls": []}}, "stands under `calls`"),
        ({"turn": {"attended": "yes"}}, "bool"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, "two tools are named `a`"),
        ({"calls": [{"tool": "x", "found": {"resources": [{"kind": "file"}]}}]}, "Survey"),
    ],
)
def test_what_is_no_case_is_refused_in_one_sentence(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidJson, match=says.replace("(", "\\(")):
        load_case({**SMALL, "calls": CALLS, **changes})
    file = tmp_path / "x.yaml"
    file.write_text(format_document({**SMALL, "calls": CALLS, **changes}))
    with pytest.raises(PolicyError, match="not a case") as error:
        read_case(file)
    assert "\n" not in str(error.value)


def test_a_hash_has_one_short_name_wherever_it_stands() -> None:
    one, other = "a" * 64, "b" * 64
    assert shorten_hashes({"x": [one, other], "y": one, "z": "a" * 63}) == {
        "x": ["hash-1", "hash-2"],
        "y": "hash-1",
        "z": "a" * 63,
    }
