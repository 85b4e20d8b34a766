"""Secrets known by their values: masked however a text writes them, and replaced by a mark that gives nothing away."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.telemetry.log.masking import Secret, mask_json

VALUE = 'tr0ub4dor&3/"hü"+\\x'
SECRET = Secret("DB_PASSWORD", VALUE)
WRITTEN = {
    "plain": VALUE,
    "JSON": json.dumps({"a": VALUE}),
    "JSON with letters as they are": json.dumps({"a": VALUE}, ensure_ascii=False),
    "JSON with escaped slashes": json.dumps(VALUE).replace("/", "\\/"),
    "URL": f"https://example.org/?a={quote(VALUE, safe='')}&b",
    "URL path": quote(VALUE),
    "form": quote_plus(VALUE),
    "URL in small letters": re.sub("%..", lambda match: match[0].lower(), quote(VALUE, safe="")),
    "base64": b64encode(VALUE.encode()).decode(),
    "base64 for URLs": urlsafe_b64encode(VALUE.encode()).decode(),
    "base64 with a line end": b64encode(f"{VALUE}\n".encode()).decode(),
    "password of a user": b64encode(f"me:{VALUE}".encode()).decode(),
    "password of another user": b64encode(f"you:{VALUE}".encode()).decode(),
    "password of a third user": b64encode(f"user:{VALUE} and on".encode()).decode(),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_secret_is_masked_however_it_is_written(form: str) -> None:
    shown = mask_json(f"before {WRITTEN[form]} after", (SECRET,))
    assert "[masked DB_PASSWORD]" in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for left in (VALUE, "tr0ub4dor", b64encode(VALUE.encode()).decode()[4:-4]):
        assert left not in shown


@given(
    st.text(st.characters(codec="utf-8"), min_size=8, max_size=40),
    st.sampled_from([str, json.dumps, quote, quote_plus, lambda value: b64encode(value.encode()).decode()]),
)
def test_no_value_is_left_whatever_its_characters(value: str, write: object) -> None:
    assert callable(write)
    written = write(value)
    assert mask_json(f"<{written}>", (Secret("X", value),)) in ("<[masked X]>", '<"[masked X]">')


def test_a_mark_holds_nothing_that_follows_from_the_value() -> None:
    shown = [mask_json(f"x {value} y", (Secret("TOKEN", value),)) for value in ("first-value", "second-value")]
    assert shown == ["x [masked TOKEN] y"] * 2


def test_the_value_is_in_no_representation() -> None:
    assert VALUE not in repr(SECRET)
    assert "tr0ub4dor" not in repr((SECRET,))


def test_a_pattern_that_matches_a_part_of_a_secret_leaves_no_rest() -> None:
    assert mask_json("sk-abcdefgh.ijklmnop", ("sk-[a-z]+", Secret("KEY", "sk-abcdefgh.ijklmnop"))) == "[masked KEY]"


def test_of_two_secrets_that_begin_alike_the_longer_one_counts() -> None:
    both = (Secret("SHORT", "hunter2hunter2"), Secret("LONG", "hunter2hunter2-and-more"))
    assert mask_json("hunter2hunter2-and-more, hunter2hunter2", both) == "[masked LONG], [masked SHORT]"


def test_what_holds_no_secret_is_the_same_object() -> None:
    value = {"a": ["nothing to see here", 3]}
    assert mask_json(value, (SECRET,)) is value


def test_a_private_key_of_many_lines_is_masked_as_a_whole() -> None:
    key = "\n".join(f"line {number} of a long private key" for number in range(80))
    for text in (key, json.dumps(key)[1:-1]):
        assert mask_json(f"<{text}>", (Secret("KEY", key),)) == "<[masked KEY]>"
