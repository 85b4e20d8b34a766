"""Masking: secrets in what tools showed are not written, and nothing replay reads is touched."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.policy import Policy
from foregate.schemas.errors import PolicyError
from foregate.schemas.event import KINDS, Draft
from foregate.telemetry.masking import FIELDS, mask, masked

KEY = "AKIA" + "ABCDEFGH12345678"
PATTERNS = ("AKIA[0-9A-Z]{16}", "gh[pousr]_[A-Za-z0-9]{36,}")
MARK = f"[masked {hashlib.sha256(KEY.encode()).hexdigest()[:8]}]"


def test_every_match_is_replaced_by_a_mark_of_its_hash() -> None:
    assert mask(f"é {KEY}, ☃{KEY}.", PATTERNS) == f"é {MARK}, ☃{MARK}."


def test_texts_are_masked_at_any_depth_and_keys_and_numbers_kept() -> None:
    value = {"a": [KEY, {"b": (KEY, 3, None, True)}], KEY: 1}
    assert mask(value, PATTERNS) == {"a": [MARK, {"b": [MARK, 3, None, True]}], KEY: 1}


@given(st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)))
def test_what_holds_no_secret_is_the_same_object(value: object) -> None:
    assert mask(value, PATTERNS) is value


@given(st.text(), st.text())
def test_the_text_around_a_secret_stays_as_it_was(before: str, after: str) -> None:
    scrubbed = (before + "|", "|" + after)
    assert mask(KEY.join(scrubbed), PATTERNS) == MARK.join(scrubbed)


def test_the_default_patterns_mask_common_keys(policy: Policy) -> None:
    for secret in (KEY, "sk-" + "a1" * 15, "ghp_" + "x" * 36, "-----BEGIN RSA PRIVATE KEY-----"):
        assert secret not in mask(f"token: {secret}\n", policy.sensitive.patterns)


@pytest.mark.parametrize(
    "body", ["MIIEabc+/=\nDEF=", "Proc-Type: 4,ENCRYPTED\nDEK-Info: A-1,B\n\nabc", "MII\\nabc", ""]
)
@pytest.mark.parametrize("end", ["-----END EC PRIVATE KEY-----", ""])
def test_of_a_private_key_nothing_is_left_but_what_stands_around_it(policy: Policy, body: str, end: str) -> None:
    key = f"-----BEGIN EC PRIVATE KEY-----\n{body}\n{end}"
    left = mask(f"before {key}, after - all", policy.sensitive.patterns)
    assert (left.startswith("before [masked "), left.endswith(", after - all")) == (True, True)
    assert left.count("masked") == 1
    assert end == "" or "abc" not in left


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("tool_finished", {"content": KEY}),
        ("tool_finished", {"error": KEY}),
        ("call_answered", {"observed": {"output": KEY}}),
        ("model_response", {"reasoning": KEY}),
    ],
)
def test_what_a_tool_showed_and_what_the_model_reasoned_is_masked(kind: str, body: dict[str, object]) -> None:
    draft = masked(Draft(kind, "tool", body), PATTERNS)  # type: ignore[arg-type]
    assert KEY not in repr(draft.body)
    assert MARK in repr(draft.body)
    assert KEY in repr(body)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_is_judged_or_hashed_again_is_masked(kind: str) -> None:
    read_again = {
        "text": KEY,
        "calls": [{"id": KEY, "name": KEY, "arguments": KEY}],
        "turn": {"proposed": [{"arguments": KEY}], "surveys": [{"call": KEY}]},
        "judgement": {"verdicts": [{"digest": KEY}]},
        "permit": {"digest": KEY},
        "observed": {"arguments": {"path": KEY}},
        "evidence": [{"hash": KEY}],
        "survey_hash": KEY,
        "answer": {"value": {"text": KEY}},
    }
    draft = Draft(kind, "foregate", read_again)  # type: ignore[arg-type]
    assert masked(draft, PATTERNS) is draft


def test_every_masked_kind_is_a_kind_of_event() -> None:
    assert set(FIELDS) <= set(KINDS)


def test_without_patterns_nothing_is_searched() -> None:
    draft = Draft("tool_finished", "tool", {"content": KEY})
    assert masked(draft, ()) is draft
    assert mask(KEY, ()) is KEY


def test_patterns_with_groups_of_the_same_name_and_flags_work_together() -> None:
    patterns = ("(?P<k>alphaone)", "(?i)(?P<k>betatwo)")
    assert "[masked" in mask("so ALPHAONE and BETATWO", patterns)
    assert "ALPHAONE" in mask("so ALPHAONE and BETATWO", patterns)


def test_a_pattern_that_matches_nothing_at_all_changes_nothing() -> None:
    assert mask("some text that is long", ("z*",)) == "some text that is long"


def test_a_pattern_re2_cannot_read_is_one_clear_error() -> None:
    with pytest.raises(PolicyError, match="is no RE2 expression"):
        mask("some text that is long", ("a(?=b)",))
