"""One file with one session: its timeline, diffs, decisions and events; it opens from disk and verifies itself."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256

from markupsafe import Markup
from msgspec import Struct

from foregate.audit.proving import SessionProof, prove_session
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.protocols import Blobs, Readable
from foregate.schemas.version import __version__
from foregate.telemetry.log.masking import Hidden
from foregate.telemetry.queries.decisions import DecisionPoint, read_decisions
from foregate.telemetry.queries.verify import Verification
from foregate.views.pages.decision_page import build_decision_page
from foregate.views.pages.decision_views import DecisionPage
from foregate.views.pages.kept import KeptBytes
from foregate.views.pages.links import FileLinks
from foregate.views.pages.markdown import format_markdown
from foregate.views.pages.masked_log import MaskedLog
from foregate.views.pages.proof import describe_proof
from foregate.views.pages.rendering import read_asset, render
from foregate.views.pages.session_page import build_session_page
from foregate.views.pages.session_rows import RowBuilder
from foregate.views.pages.texts import TextPassage
from foregate.views.pages.views import ProofView, SessionPage

DECISIONS = 100
"""Decisions that are explained in full, the first that did not just pass; the rulings of all stand in the timeline."""
ROWS = 20_000
"""Events whose rows a file shows; its chain holds all of them."""
_PART = 1_000_000
"""Characters of events in one block of the file."""


class ExportedPage(Struct, frozen=True):
    """The file, and what to say of it: how many events are masked and erased, and how many decisions are explained."""

    text: str
    events: int
    masked: int
    erased: int
    decisions: int
    left_out: int
    verified: Verification


def export_page(log: Readable, session: str, blobs: Blobs | None = None, patterns: Hidden = ()) -> ExportedPage:
    """Return a session as one HTML file; what `patterns` and its own policies name is masked.

    Raises LogError for a session the log does not hold, or one that cannot be read.
    """
    masked = MaskedLog(log, session, patterns)
    kept = KeptBytes(blobs, masked.hide)
    proof = prove_session(log, session, blobs)
    page = _build_whole_page(masked, session, kept, proof)
    parts, states = _encode_events(masked, session)
    decisions, left_out = _explain_decisions(masked, session, kept, page.proof, states)
    explained = frozenset((one.seq, one.gate) for one in decisions)
    text = render(
        "export.html.j2",
        page=page,
        links=FileLinks(explained),
        decisions=decisions,
        left_out=left_out,
        shown_events=min(page.events, ROWS),
        version=__version__,
        masked=states.count("masked"),
        erased=states.count("erased"),
        blocks=parts,
        **build_inline_assets(),
    )
    counts = len(states), states.count("masked"), states.count("erased"), len(decisions), left_out
    return ExportedPage(text, *counts, proof.found)


def export_markdown(
    log: Readable, session: str, blobs: Blobs | None = None, patterns: Hidden = ()
) -> tuple[str, Verification]:
    """Return a session as Markdown, masked as `export_page` does, and what verifying its log found."""
    masked, proof = MaskedLog(log, session, patterns), prove_session(log, session, blobs)
    page = _build_whole_page(masked, session, KeptBytes(blobs, masked.hide), proof)
    return format_markdown(page, page.rows), proof.found


def _build_whole_page(masked: MaskedLog, session: str, kept: KeptBytes, proof: SessionProof) -> SessionPage:
    """Return the page of a session with the rows of all its events, up to the bound."""
    page = build_session_page(masked, session, proof=describe_proof(proof, masked.hide))
    builder = RowBuilder(kept)
    for event in masked.events(session, until=ROWS):
        builder.add(event)
    page.rows, page.session = builder.finish(), masked.hide(session)
    return page


def _encode_events(masked: MaskedLog, session: str) -> tuple[list[Markup], list[str]]:
    """Return the events as blocks of data, and the state of each."""
    parts: list[Markup] = []
    states: list[str] = []
    part: list[tuple[int, str, str, str]] = []
    size = 0
    for row in masked.read_texts(session):
        states.append(row[3])
        part.append(row)
        size += len(row[1])
        if size > _PART:
            parts.append(encode_inert(part))
            part, size = [], 0
    return ([*parts, encode_inert(part)] if part else parts), states


def _explain_decisions(
    masked: MaskedLog, session: str, kept: KeptBytes, proof: ProofView, states: Sequence[str]
) -> tuple[list[DecisionPage], int]:
    """Return the pages of the decisions that did not just pass, and how many more there are."""
    pages: list[DecisionPage] = []
    left_out = 0
    for point in _list_notable(masked.events(session, kinds=("turn_judged",))):
        if len(pages) == DECISIONS:
            left_out += 1
            continue
        changed = states[point.seq - 1] == "masked"
        try:
            pages.append(build_decision_page(masked, session, point.address, kept=kept, masked=changed, proof=proof))
        except ForegateError:
            # What is masked in it is needed to judge it again.
            left_out += 1
    return pages, left_out


def _list_notable(events: Iterator[Event] | Sequence[Event]) -> Iterator[DecisionPoint]:
    for event in events:
        if isinstance(event.body, TurnJudged):
            yield from (
                one for one in read_decisions([event]) if one.severity != "info" or one.code.endswith("_granted")
            )


def build_inline_assets() -> dict[str, str]:
    """Return our own sheet and scripts as they stand in a file, and the policy that lets nothing else run there."""
    style, scripts = read_asset("console.css"), [read_asset(name) for name in ("console.js", "verify.js")]
    sources = f"style-src {_hash_source(style)}; script-src {' '.join(map(_hash_source, scripts))}"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    joined = "</script>\n<script>".join(scripts)
    return {"policy": TextPassage(policy), "style": Markup(style), "scripts": Markup(joined)}  # noqa: S704 - files of ours


def encode_inert(value: object) -> Markup:
    """Return a value as JSON that no HTML parser sees more in than text, whatever stands in it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(safe)  # noqa: S704 - it holds no character that begins a tag or an entity


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
