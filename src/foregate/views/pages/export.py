"""One file with one session: its timeline, diffs, decisions and events; it opens from disk and verifies itself."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from foregate.schemas.errors import ForegateError, InvalidJson, LogError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import Kind
from foregate.schemas.protocols import Blobs, Erasure, Readable
from foregate.schemas.version import __version__
from foregate.telemetry.export.hiding import collect_patterns, mask_event
from foregate.telemetry.log.chain import encode_event, read_line
from foregate.telemetry.log.masking import Hidden, mask_text
from foregate.telemetry.queries.decisions import DecisionPoint, read_decisions
from foregate.telemetry.queries.verify import Verification
from foregate.tuning.proving import SessionProof, prove_session
from foregate.views.pages.changes import KeptBytes
from foregate.views.pages.decision_page import build_decision_page
from foregate.views.pages.markdown import format_markdown
from foregate.views.pages.rendering import read_asset, render
from foregate.views.pages.session_page import build_session_page
from foregate.views.pages.session_rows import RowBuilder
from foregate.views.pages.texts import FileLinks, TextPassage, cut_text
from foregate.views.pages.views import DecisionPage, ProofView, SessionPage

DECISIONS = 100
"""Decisions that are explained in full, the first that did not just pass; the rulings of all stand in the timeline."""
ROWS = 20_000
"""Events whose rows a file shows; its chain holds all of them."""
_PART = 1_000_000
"""Characters of events in one block of the file."""


def describe_proof(proof: SessionProof, hide: Callable[[str], str] = str) -> ProofView:
    """Return what proving a session came to, as a page shows it; `hide` masks what a sentence quotes of the log."""
    found = proof.found
    further = [*(defect.message for defect in found.defects[1:]), *proof.remarks]
    says, *more = (cut_text(hide(one)) for one in (found.sentence, *further))
    about: dict[str, Any] = {"scope": proof.scope, "more": tuple(more)}
    if found.defects:
        return ProofView("broken", says, found.events, found.hash, "deny", **about)
    if found.proven:
        return ProofView("proven", says, found.events, found.hash, "allow", **about)
    return ProofView("consistent", says, found.events, found.hash, "ask", **about)


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


_REMEMBERED = 2_000


class MaskedLog:
    """Reads a log as `Readable` does, masked by `patterns` and by those the session itself was recorded under."""

    def __init__(self, log: Readable, session: str, patterns: Hidden = ()) -> None:
        self._log, self._masked = log, dict[int, Event]()
        self.patterns = collect_patterns(log.events(session, kinds=("session_started", "policy_changed")), patterns)

    def hide(self, text: str) -> str:
        """Return a text with what is to be masked in it masked."""
        return mask_text(text, self.patterns)

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield the events as stored, unmasked: for verification only."""
        return self._log.lines(session)

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield the events masked; their hashes are the recorded ones."""
        for event in self._log.events(session, after=after, until=until, kinds=kinds):
            yield self._mask_event(event)

    def _mask_event(self, event: Event) -> Event:
        """Return an event masked; the last ones are remembered, as each decision is explained by events near it."""
        found = self._masked.get(event.seq)
        if found is None or found.hash != event.hash:
            found = self._masked[event.seq] = mask_event(event, self.patterns)
            if len(self._masked) > _REMEMBERED:
                del self._masked[next(iter(self._masked))]
        return found

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event."""
        return self._log.head_anchor(session)

    def list_erased(self, session: str) -> Mapping[int, Erasure]:
        """Return which events were erased."""
        return self._log.list_erased(session)

    def read_texts(self, session: str) -> Iterator[tuple[int, str, str, str]]:
        """Yield number, text, hash and state of each event: `` as recorded, `masked`, or `erased` without a text.

        The text of a masked event is that of what is left of it, and its hash that of the recorded one.
        """
        for seq, text, hash_ in self._log.lines(session):
            shown, state = text, "" if text else "erased"
            if text and self.patterns:
                event = _read_line(seq, text, hash_)
                masked = mask_event(event, self.patterns)
                if masked is not event:
                    shown, state = encode_event(masked).decode("utf-8"), "masked"
            yield seq, shown, hash_, state


def _read_line(seq: int, text: str, hash_: str) -> Event:
    try:
        return read_line(text, hash_)
    except InvalidJson as error:
        why = f"event {seq} cannot be read ({error})"
        raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None
