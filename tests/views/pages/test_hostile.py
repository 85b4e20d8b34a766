"""Pages of a session in which everything is an attack: nothing of it is alive, and nothing of it is too much."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from foregate.schemas.errors import ForegateError
from foregate.telemetry.queries.decisions import read_decisions
from foregate.views.pages.decision_page import build_decision_page
from foregate.views.pages.export import export_markdown, export_page
from foregate.views.pages.rendering import render
from foregate.views.pages.session_page import build_session_page
from foregate.views.pages.texts import ConsoleLinks
from tests.views.pages.hostile import LONG, HostileLog

PLANNED = "mode.a-further-plan-of-the-same-request-is-confirmed-on-its"
ASKED = "sandbox-turn.a-person-is-asked-about-a-deletion-they-did-not"
TAGS = frozenset(
    [
        "a",
        "article",
        "b",
        "body",
        "button",
        "circle",
        "code",
        "dd",
        "del",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "head",
        "header",
        "html",
        "input",
        "ins",
        "kbd",
        "label",
        "li",
        "link",
        "main",
        "meta",
        "nav",
        "ol",
        "p",
        "path",
        "rect",
        "script",
        "section",
        "span",
        "style",
        "summary",
        "svg",
        "symbol",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
        "use",
    ]
)
ATTRIBUTES = frozenset(
    [
        "aria-current",
        "aria-hidden",
        "aria-label",
        "autocomplete",
        "charset",
        "class",
        "content",
        "cx",
        "cy",
        "d",
        "data-at",
        "data-copy",
        "data-do",
        "data-item",
        "data-shown",
        "defer",
        "focusable",
        "height",
        "hidden",
        "href",
        "http-equiv",
        "id",
        "lang",
        "method",
        "name",
        "open",
        "placeholder",
        "preserveaspectratio",
        "r",
        "rel",
        "role",
        "rx",
        "scope",
        "size",
        "spellcheck",
        "src",
        "tabindex",
        "title",
        "type",
        "viewbox",
        "width",
        "x",
        "y",
    ]
)


@cache
def hostile(name: str) -> HostileLog:
    return HostileLog(name)


class Inventory(HTMLParser):
    """What a page is made of, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.links, self.texts = set[str](), set[str](), set[str](), list[str]()
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}
        self.scripts += tag == "script" and dict(attrs).get("type") is None

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is None:
            self.texts.append(data)


def check(text: str, scripts: int) -> None:
    """Assert that a page holds nothing but what templates of ours are made of."""
    page = Inventory(text)
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.scripts == scripts
    assert all(link.startswith(("#", "/sessions/", "/assets/")) for link in page.links)
    shown = "".join(page.texts)
    assert not {"\u202e", "\u2066", "\u200b", "\x1b", "\x07", "\x00", "\u2028"} & set(shown)
    assert "<script>owned()" in shown  # as text


@pytest.mark.parametrize("name", ["demo", PLANNED, ASKED])
def test_a_session_of_attacks_is_text_on_its_page(name: str) -> None:
    log = hostile(name)
    page = build_session_page(log, log.session, blobs=log.blobs)
    check(render("session.html.j2", page=page, links=ConsoleLinks()), scripts=1)


@pytest.mark.parametrize("name", [PLANNED, ASKED])
def test_decisions_about_attacks_are_text_on_their_pages(name: str) -> None:
    log, shown = hostile(name), 0
    for point in read_decisions(log.events(log.session, kinds=("turn_judged",))):
        if point.severity == "info" or shown > 3:
            continue
        try:
            page = build_decision_page(log, log.session, point.address, blobs=log.blobs)
        except ForegateError:
            continue  # a turn that cannot be judged again is refused in a sentence
        shown += 1
        check(render("decision.html.j2", page=page, links=ConsoleLinks()), scripts=1)
    assert shown


@pytest.mark.parametrize("name", [PLANNED, ASKED])
def test_an_export_of_attacks_is_text(name: str) -> None:
    log = hostile(name)
    check(export_page(log, log.session, log.blobs).text, scripts=2)


@pytest.mark.parametrize("name", ["demo", PLANNED])
def test_attacks_are_code_in_markdown_and_nothing_else(name: str) -> None:
    log = hostile(name)
    text, _ = export_markdown(log, log.session, log.blobs)
    tokens = MarkdownIt("commonmark").parse(text)
    kinds = {token.type for token in tokens}
    kinds |= {inner.type for token in tokens for inner in token.children or ()}
    assert not kinds & {"html_block", "html_inline", "image", "link_open", "em_open", "strong_open"}
    assert "<script>owned()" in text
    assert not {"\u202e", "\u200b", "\x1b", "\x00"} & set(text)


def test_texts_of_five_megabytes_leave_a_page_that_a_browser_bears() -> None:
    log = HostileLog("demo", LONG)
    page = build_session_page(log, log.session, blobs=log.blobs)
    text = render("session.html.j2", page=page, links=ConsoleLinks())
    assert sum(len(row[1]) for row in log.lines(log.session)) > 10 * LONG
    assert len(text) < 4_000_000
    assert "characters more stand only in the log" in text
