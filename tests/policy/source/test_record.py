"""What a session records of where its policy comes from, and the policy it would have had over another file."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from pydantic import ValidationError

from foregate.policy.source.layers import read_layer
from foregate.policy.source.load import (
    add_protected_globs,
    default_policy,
    describe_origin,
    load_policy_layers,
    narrow_limits,
    record_layers,
    replace_user_layer,
    restore_policy,
)

SPENT = {"limits": {"turns": 50, "tokens": 9}, "safety": {"model_calls": 15, "rounds": 20}}


def test_a_session_of_the_defaults_records_nothing_and_gets_them_again() -> None:
    assert record_layers(load_policy_layers()) == {}
    assert replace_user_layer(None, {}) is default_policy()


def test_the_same_file_over_what_was_recorded_gives_the_recorded_policy(tmp_path: Path) -> None:
    mine, own = tmp_path / "mine.yaml", tmp_path / ".foregate.yaml"
    mine.write_text(
        "uncertainty: {threshold: 500}\nfiles: {secret: [x]}\ncommands: {read_only: {tree: {options: [-a]}}}\n"
    )
    own.write_text(
        "uncertainty: {threshold: 400}\nfiles: {secret: [y]}\ncommands: {read_only: {tree: {options: []}, ls: null}}\n"
    )
    loaded = load_policy_layers(mine, tmp_path)
    layers = {**record_layers(loaded, ["state"]), "spent": [SPENT]}
    assert layers["from"]["uncertainty.threshold"] == "workspace .foregate.yaml:1"
    user = read_layer(mine, "mine.yaml", trusted=True)
    said = copy.deepcopy(user.data)
    wanted = narrow_limits(add_protected_globs(loaded.policy, ["state"]), SPENT)
    assert [replace_user_layer(user, layers).hash for _ in range(2)] == [wanted.hash] * 2
    assert user.data == said


def test_another_file_keeps_what_the_workspace_tightened(tmp_path: Path) -> None:
    (tmp_path / ".foregate.yaml").write_text("uncertainty: {threshold: 400}\n")
    layers = record_layers(load_policy_layers(None, tmp_path))
    other = tmp_path / "other.yaml"
    other.write_text("uncertainty: {threshold: 300}\nlimits: {turns: 5}\n")
    found = replace_user_layer(read_layer(other, "other.yaml", trusted=True), layers)
    assert (found.uncertainty.threshold, found.limits.turns) == (300, 5)
    assert replace_user_layer(None, layers).uncertainty.threshold == 400


def test_a_policy_recorded_by_an_earlier_version_has_the_defaults_of_what_it_did_not_know() -> None:
    data = default_policy().model_dump(mode="json")
    del data["uncertainty"]
    del data["plan"]["due"]
    data["plan"]["mode"] = "off"
    found = restore_policy(data)
    assert (found.plan.due, found.plan.mode) == ("risky", "off")
    assert found.uncertainty == default_policy().uncertainty
    for wrong in (3, None, {"nope": 1}, data | {"holds": 3}, data | {"commands": 3}, data | {"limits": 3}):
        with pytest.raises(ValidationError):
            restore_policy(wrong)


def test_what_is_restored_again_is_the_same_policy_and_what_differs_is_another() -> None:
    data = default_policy().model_dump(mode="json")
    found = restore_policy(data)
    assert restore_policy(dict(default_policy().recorded)) is found
    data["holds"] = "whole_response"
    assert (found.holds, restore_policy(data).holds) == ("call", "whole_response")
    assert found.hash != restore_policy(data).hash
    assert found.recorded == found.model_dump(mode="json")


@pytest.mark.parametrize(
    ("section", "key", "without"),
    [
        ("commands", "open_ended", ()),
        ("commands", "checks", ()),
        ("commands", "completes", ()),
        ("commands", "code", {}),
        ("critique", "risk_in_doubt", 0),
    ],
)
def test_a_session_that_did_not_know_a_key_is_judged_without_it(section: str, key: str, without: object) -> None:
    data = default_policy().model_dump(mode="json")
    del data[section][key]
    found = restore_policy(data)
    assert getattr(getattr(found, section), key) == without
    assert getattr(getattr(default_policy(), section), key) != without
    assert found.commands.timeout == default_policy().commands.timeout


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_an_answer_goes_back_once_under_a_policy_of_when_the_number_of_rounds_changed_nothing(rounds: int) -> None:
    data = default_policy().model_dump(mode="json")
    data["limits"]["verification_rounds"] = rounds
    assert restore_policy(data).limits.verification_rounds == rounds
    del data["commands"]["code"]
    assert restore_policy(data).limits.verification_rounds == 2


@pytest.mark.parametrize(
    ("key", "layers", "default", "words"),
    [
        ("a.b", {"from": {"a.b": "mine.yaml:3"}}, False, "mine.yaml:3"),
        ("a.b", {}, True, "the default policy"),
        ("a.b", {"given": True}, False, "a policy given by the program"),
        ("a.b", {"given": True}, True, "the default policy"),
        ("a.b", None, False, "the log does not say where it comes from"),
        ("a.b", None, True, "the default policy"),
        ("files.protected", {"guarded": ["x"]}, False, "the default policy and Foregate's own files"),
        ("safety.rounds", {"spent": [SPENT], "from": {"safety.rounds": "x:1"}}, False, "what its parent task had left"),
    ],
)
def test_the_origin_of_a_value_is_told_as_far_as_the_log_knows(
    key: str, layers: dict[str, object] | None, default: bool, words: str
) -> None:
    assert describe_origin(key, layers, default) == words
