"""Masking: secrets in what tools showed are not written, and nothing replay reads is touched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import KINDS
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.masking import mask_draft, mask_json
from tests.schemas.made_bodies import Same, body_of

KEY = "AKIA" + "ABCDEFGH12345678"
PATTERNS = ("AKIA[0-9A-Z]{16}", "gh[pousr]_[A-Za-z0-9]{36,}")
MARK = f"[masked {hashlib.sha256(KEY.encode()).hexdigest()[:8]}]"


def test_every_match_is_replaced_by_a_mark_of_its_hash() -> None:
    assert mask_json(f"é {KEY}, ☃{KEY}.", PATTERNS) == f"é {MARK}, ☃{MARK}."


def test_a_text_in_which_nothing_matched_is_looked_through_again_for_something_else() -> None:
    text = f"the key is {KEY}"
    assert mask_json(text, PATTERNS[1:]) is text
    assert mask_json(text, PATTERNS) == f"the key is {MARK}"
    assert mask_json(f"{text}.", PATTERNS[1:]) == f"{text}."
    assert mask_json(text, PATTERNS) == f"the key is {MARK}"


def test_texts_and_keys_are_masked_at_any_depth_and_numbers_kept() -> None:
    value = {"a": [KEY, {"b": (KEY, 3, None, True)}], KEY: 1}
    assert mask_json(value, PATTERNS) == {"a": [MARK, {"b": (MARK, 3, None, True)}], MARK: 1}


@given(st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)))
def test_what_holds_no_secret_is_the_same_object(value: object) -> None:
    assert mask_json(value, PATTERNS) is value


@given(st.text(), st.text())
def test_the_text_around_a_secret_stays_as_it_was(before: str, after: str) -> None:
    scrubbed = (before + "|", "|" + after)
    assert mask_json(KEY.join(scrubbed), PATTERNS) == MARK.join(scrubbed)


def test_the_default_patterns_mask_common_keys(policy: Policy) -> None:
    for secret in (KEY, "sk-" + "a1" * 15, "ghp_" + "x" * 36, "-----BEGIN RSA PRIVATE KEY-----"):
        assert secret not in mask_json(f"token: {secret}\n", policy.sensitive.patterns)


@pytest.mark.parametrize(
    "body", ["MIIEabc+/=\nDEF=", "Proc-Type: 4,ENCRYPTED\nDEK-Info: A-1,B\n\nabc", "MII\\nabc", ""]
)
@pytest.mark.parametrize("end", ["-----END EC PRIVATE KEY-----", ""])
def test_of_a_private_key_nothing_is_left_but_what_stands_around_it(policy: Policy, body: str, end: str) -> None:
    key = f"-----BEGIN EC PRIVATE KEY-----\n{body}\n{end}"
    left = mask_json(f"before {key}, after - all", policy.sensitive.patterns)
    assert (left.startswith("before [masked "), left.endswith(", after - all")) == (True, True)
    assert left.count("masked") == 1
    assert end == "" or "abc" not in left


MASKED = {
    "tool_finished": {"content", "error"},
    "outcome_unknown": {"reason"},
    "call_answered": {"observed.output"},
    "model_response": {"reasoning", "raw", "calls.0.wire_id", "wire.fields", "wire.calls.0"},
}
"""Which fields of which kind are masked: what came from outside and nothing decides by again."""


def texts(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of a value with the way to it."""
    if isinstance(value, str):
        yield path.removeprefix("."), value
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from texts(item, f"{path}.{step}")


@pytest.mark.parametrize("kind", KINDS)
def test_what_tools_showed_and_the_model_reasoned_is_masked_and_nothing_that_is_judged_or_hashed_again(
    kind: str,
) -> None:
    draft = Draft(body_of(kind, Same(KEY)), "tool")
    before, after = (
        dict(texts(strict_json.dump(draft.body))),
        dict(texts(strict_json.dump(mask_draft(draft, PATTERNS).body))),
    )
    assert {path for path, text in before.items() if after[path] != text} == MASKED.get(kind, set())
    assert all(after[path] == MARK for path in MASKED.get(kind, ()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_without_a_secret_is_the_same_object(kind: str) -> None:
    draft = Draft(body_of(kind, Same("harmless words")), "tool")
    assert mask_draft(draft, PATTERNS) is draft


def test_without_patterns_nothing_is_searched() -> None:
    draft = Draft(body_of("tool_finished", Same(KEY)), "tool")
    assert mask_draft(draft, ()) is draft
    assert mask_json(KEY, ()) is KEY


def test_patterns_with_groups_of_the_same_name_and_flags_work_together() -> None:
    patterns = ("(?P<k>alphaone)", "(?i)(?P<k>betatwo)")
    assert "[masked" in mask_json("so ALPHAONE and BETATWO", patterns)
    assert "ALPHAONE" in mask_json("so ALPHAONE and BETATWO", patterns)


def test_a_pattern_that_matches_nothing_at_all_changes_nothing() -> None:
    assert mask_json("some text that is long", ("z*",)) == "some text that is long"


def test_a_pattern_re2_cannot_read_is_one_clear_error() -> None:
    with pytest.raises(PolicyError, match="is no RE2 expression"):
        mask_json("some text that is long", ("a(?=b)",))


FORMATS = {
    "aws_temporary_key": "ASIA" + "B2" * 8,
    "github_fine_grained_token": "github_pat_" + "a1" * 20,
    "gitlab_token": "glpat-" + "a1" * 10,
    "slack_token": "xoxb-" + "1234567890-" * 2 + "a1" * 8,
    "slack_webhook": "https://hooks.slack.com/services/" + "T0A1/" + "B0" * 20,
    "discord_webhook": "https://discord.com/api/webhooks/123456789012345678/" + "a1" * 32,
    "telegram_bot_token": "123456789:AA" + "a1" * 16 + "b",
    "stripe_key": "sk_live_" + "a1" * 12,
    "google_api_key": "AIza" + "a1" * 17 + "b",
    "google_oauth_secret": "GOCSPX-" + "a1" * 14,
    "azure_storage_key": "AccountKey=" + "a1" * 43 + "==",
    "digitalocean_token": "dop_v1_" + "a1" * 32,
    "npm_token": "npm_" + "a1" * 18,
    "pypi_token": "pypi-AgE" + "a1" * 30,
    "rubygems_token": "rubygems_" + "a1" * 24,
    "docker_token": "dckr_pat_" + "a1" * 14,
    "huggingface_token": "hf_" + "a1" * 17,
    "replicate_token": "r8_" + "a1" * 18 + "b",
    "groq_key": "gsk_" + "a1" * 26,
    "xai_key": "xai-" + "a1" * 40,
    "perplexity_key": "pplx-" + "a1" * 24,
    "databricks_token": "dapi" + "a1" * 16,
    "doppler_token": "dp.st.dev." + "a1" * 20,
    "vault_token": "hvs." + "a1" * 12,
    "terraform_token": "a1" * 7 + ".atlasv1." + "a1" * 30,
    "pulumi_token": "pul-" + "a1" * 20,
    "planetscale_token": "pscale_tkn_" + "a1" * 16,
    "supabase_key": "sbp_" + "a1" * 20,
    "grafana_token": "glsa_" + "a1" * 16,
    "sentry_token": "sntrys_" + "a1" * 20,
    "newrelic_key": "NRAK-" + "A1" * 13 + "B",
    "postman_key": "PMAK-" + "a1" * 12 + "-" + "a1" * 17,
    "sendgrid_key": "SG." + "a1" * 11 + "." + "a1" * 21 + "b",
    "mailgun_key": "key-" + "a1" * 16,
    "twilio_key": "SK" + "a1" * 16,
    "shopify_token": "shpat_" + "a1" * 16,
    "square_token": "sq0atp-" + "a1" * 11,
    "linear_key": "lin_api_" + "a1" * 20,
    "notion_token": "ntn_" + "a1" * 20,
    "atlassian_token": "ATATT3" + "a1" * 60,
    "age_key": "AGE-SECRET-KEY-1" + "A1" * 29,
    "json_web_token": "eyJ" + "a1" * 8 + ".eyJ" + "a1" * 8 + "." + "a1" * 12,
}


def test_a_key_of_each_format_is_masked_also_behind_an_escaped_newline(policy: Policy) -> None:
    assert {*FORMATS} == {*policy.sensitive.formats}
    for name, key in FORMATS.items():
        own = (policy.sensitive.formats[name],)
        assert key[-8:] not in str(mask_json(f"x\\n{key}\\n", own)), name


@pytest.mark.parametrize(
    "text",
    [
        "npm_config_registry_and_everything_else",
        "monkey-223921b76ee99bde995b7ff738513eef100fb51d",
        "SKIP",
        "deadbeef" * 8,
    ],
)
def test_what_only_resembles_a_key_stays(policy: Policy, text: str) -> None:
    assert mask_json(text, tuple(policy.sensitive.formats.values())) == text
