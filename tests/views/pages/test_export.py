"""A session as one file: what stands in it, what is masked, and what nothing in it can do."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from foregate.schemas import strict_json
from foregate.views.pages.export import encode_inert, export_page
from tests.corpus.archive import read_sessions
from tests.corpus.log import Log


@cache
def export(name: str, *patterns: str) -> str:
    log = Log(read_sessions()[name])
    return export_page(log, log.sessions[0], log.blobs, patterns).text


class Reader(HTMLParser):
    """Collects the scripts and styles of a page as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None, str]] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        if tag in ("script", "style"):
            self.found.append((tag, about.get("type"), ""))
        if about.get("http-equiv") == "Content-Security-Policy":
            self.policy = about["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.found and self.cdata_elem == self.found[-1][0]:
            tag, kind, text = self.found[-1]
            self.found[-1] = tag, kind, text + data

    @property
    def events(self) -> list[list[object]]:
        blocks = [json.loads(text) for tag, kind, text in self.found if kind == "application/json"]
        return [row for block in blocks for row in block]


def test_the_file_holds_every_event_as_the_log_does() -> None:
    log = Log(read_sessions()["demo"])
    rows = [[seq, text, hash_, ""] for seq, text, hash_ in log.lines(log.sessions[0])]
    assert Reader(export("demo")).events == rows


def test_its_policy_lets_only_our_own_script_and_sheet_be() -> None:
    page = Reader(export("demo"))
    own = [text for _, kind, text in page.found if kind is None]
    allowed = set(re.findall(r"'(sha256-[^']+)'", page.policy))
    assert {f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}" for text in own} == allowed
    assert len(own) == len(allowed) == 3
    assert "default-src 'none'" in page.policy
    assert "unsafe" not in page.policy


def test_the_file_asks_for_nothing_from_outside() -> None:
    assert not re.search(r'(src|href)="(?!#)', export("demo"))


def test_a_secret_is_masked_everywhere_and_its_event_keeps_the_hash_it_was_recorded_by() -> None:
    text = export("demo", "stale l[o]gs")
    plain = {row[0]: row for row in Reader(export("demo")).events}
    rows = Reader(text).events
    assert not re.search("stale l[o]gs", text)
    changed = [row for row in rows if row[3] == "masked"]
    assert changed
    for seq, shown, hash_, _ in changed:
        assert hash_ == plain[seq][2] != strict_json.sha256(str(shown).encode())
    assert all(row == plain[row[0]] for row in rows if not row[3])
    assert "masked events" in text


def test_a_file_of_a_damaged_log_says_that_it_did_not_verify() -> None:
    log = Log(read_sessions()["demo"])

    class Cut(Log):
        def head_anchor(self, session: str) -> tuple[int, str]:
            return 101, "f" * 64

    found = export_page(Cut(read_sessions()["demo"]), log.sessions[0], log.blobs)
    assert not found.verified.ok
    assert "event 101 is missing: the log was cut off after event 100" in found.text


@pytest.mark.parametrize("text", ["</script><script>x()", "<!--", "]]>", "&lt;", "\u2028", "\ud800", "a<b>&"])
def test_data_in_a_page_reads_back_and_holds_nothing_a_parser_takes_for_a_tag(text: str) -> None:
    encoded = str(encode_inert([text]))
    assert json.loads(encoded) == [text]
    assert encoded.isascii()
    assert not re.search("[<>&]", encoded)
