"""One decision as an auditor sees it: on what it rested, who answered, what would have changed it, and its proof."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.text import Text

from foregate.agent.loop.undo import Preview, decode_previews
from foregate.evidence.state.recorded_turns import RecordedTurn
from foregate.gates.prelude import build_prelude
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, LogError, UsageError
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import Kind
from foregate.schemas.judgement import Decision
from foregate.schemas.model_response import RecordedCall
from foregate.schemas.plan import PlanInForce
from foregate.schemas.protocols import Blobs, Readable
from foregate.schemas.sources import explain_source
from foregate.schemas.strict_json import Json, as_object
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.log.chain import is_unchanged
from foregate.tuning.explanation import Explanation, choose_call, explain, read_turn
from foregate.tuning.sentences import describe_call, describe_counterfactuals, describe_history, describe_ruling
from foregate.views.pages.changes import KeptBytes
from foregate.views.pages.judged import build_judged, build_ruling, build_rulings, index_rulings
from foregate.views.pages.session_page import UNCHECKED
from foregate.views.pages.session_rows import build_answer, quote_arguments
from foregate.views.pages.texts import (
    Quote,
    TextPassage,
    VisibleText,
    cut_text,
    describe_code,
    describe_remedy,
    fold_text,
    name_call,
    name_decision,
    name_row,
)
from foregate.views.pages.views import (
    AnswerView,
    BesideView,
    ChainView,
    DecisionPage,
    Fits,
    KeyView,
    Measure,
    PlanItemView,
    ProofView,
    ScoreView,
    SheetView,
    ValueView,
)
from foregate.views.terminal.approval_rows import format_asked
from foregate.views.terminal.sheet import build_sheet

if TYPE_CHECKING:
    from foregate.views.pages.texts import Tone


SENTENCE = 2_000
_ITEMS = 40
_VALUES = 40
_BESIDE = 60
_NEEDS: tuple[Kind, ...] = ("need_raised", "need_answered")
_SOURCES: Mapping[str, Tone] = {"said": "allow", "configured": "allow", "found": "allow", "outside": "deny"}


def build_decision_page(
    log: Readable,
    session: str,
    address: str,
    call: str = "",
    *,
    blobs: Blobs | None = None,
    kept: KeptBytes | None = None,
    masked: bool = False,
    proof: ProofView | None = None,
) -> DecisionPage:
    """Return what the page of decision `SEQ.GATE` shows, of its ruling on `call` where one is named by its id.

    Raises UsageError where there is no such decision, LogError for a log that cannot be read.
    """
    number, _, gate = address.partition(".")
    if not (number.isascii() and number.isdigit() and len(number) < 19 and gate):
        raise UsageError(f"`{address[:80]}` is no decision; one is named SEQ.GATE, such as 12.evidence")
    explained = explain(log, session, int(number), gate, call)
    event = next(iter(log.events(session, after=int(number) - 1, until=int(number))))
    try:
        return _PageBuilder(log, event, explained, call, kept or KeptBytes(blobs), masked=masked).build(proof)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        why = f"decision {address[:80]} of session `{session[:80]}` cannot be shown ({type(error).__name__}: {error})"
        raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None


class _PageBuilder:
    """Puts the page together from the event, its explanation, and the turn as it was judged."""

    def __init__(
        self, log: Readable, event: Event, explained: Explanation, call: str, kept: KeptBytes, *, masked: bool
    ) -> None:
        body = event.body
        if not isinstance(body, TurnJudged):
            raise UsageError(f"event {event.seq} is no judged turn; `foregate audit show` lists decisions")
        self.log, self.session, self.event, self.body = log, explained.session, event, body
        self.explained, self.point, self.kept = explained, explained.point, kept
        self.masked = masked
        self.turn: RecordedTurn = read_turn(log, explained.session, event)
        self.call = choose_call(self.turn, self.point, call)
        self.facts = self._compute_facts()
        self.place = next(n for n, one in enumerate(body.judgement.rows) if one.gate == self.point.gate)

    @property
    def decision(self) -> Decision:
        return self.body.judgement.rows[self.place]

    def _compute_facts(self) -> CallFacts | None:
        values, tools = self.turn.in_force.require()
        if self.call is None:
            return None
        prelude = build_prelude(restore_policy(values), build_catalogue(tools))
        return prelude.facts(self.turn.turn).get(self.call.id)

    def build(self, proof: ProofView | None) -> DecisionPage:
        """Return the page."""
        point, call = self.point, self.call
        indexed = index_rulings(self.body.judgement)[self.place]
        place, ruling = indexed.rulings.get(call.id, (0, None)) if call is not None else (0, None)
        shown = build_ruling(self.event.seq, self.place, indexed, ruling, place)
        row, anchor = self._find_row()
        last, head = self.log.head_anchor(self.session)
        answers = list(self._read_answers())
        plan = self.turn.turn.plan or self.body.judgement.plan
        return DecisionPage(
            session=self.session,
            seq=self.event.seq,
            gate=point.gate,
            address=cut_text(point.address, 80),
            code=shown.code,
            meaning=describe_code(shown.code),
            remedy=describe_remedy(shown.code),
            tone=shown.tone,
            word=shown.word or "judged",
            time=self.event.time,
            tool=cut_text(call.name, 128) if call is not None else "",
            target=cut_text(self.explained.asked.target),
            mark=cut_text(call.id, 24) if call is not None else "",
            call=call.id if call is not None else "",
            row=row,
            anchor=anchor,
            anchor_here=name_decision(self.event.seq, point.gate),
            arguments=tuple(quote_arguments(RecordedCall.of(call), call, "")) if call is not None else (),
            rulings=tuple(build_rulings(self.event.seq, self.body.judgement, call.id)) if call is not None else (),
            asked=_pass_on(describe_call(self.explained, arguments=False)),
            ruled=_pass_on(describe_ruling(self.explained)),
            measures=tuple(self._list_measures()),
            scores=tuple(self._list_scores()),
            values=tuple(self._list_values()),
            leave=tuple(self._list_leave(plan)),
            goal=cut_text(plan.goal, 600) if plan is not None else "",
            items=tuple(self._list_items(plan)),
            facts=tuple(self._list_details()),
            answers=tuple(answer for _, _, answer in answers),
            sheets=tuple(
                build_sheet_view(self.kept, raised, answer) for _, raised, answer in answers if answer.who == "person"
            ),
            levers=_pass_on(describe_counterfactuals(self.explained)),
            history=_pass_on(describe_history(self.explained)),
            beside=tuple(self._list_beside()),
            keys=tuple(self._list_keys()),
            chain=self._build_chain(last, head),
            proof=proof or ProofView("unchecked", UNCHECKED, last, head, "quiet"),
        )

    def _find_row(self) -> tuple[int, str]:
        """Return the response the call stands in, and the call's anchor there."""
        response = self.body.turn.response
        found = (
            next(iter(self.log.events(self.session, after=response - 1, until=response)), None) if response else None
        )
        if found is None or not isinstance(found.body, ModelResponded) or self.call is None:
            return response or self.event.seq, name_row(response or self.event.seq)
        said = found.body
        begin = said.continues.response if said.continues is not None else response
        places = [recorded.id for recorded in said.calls]
        if begin == response and self.call.id in places:
            return begin, name_call(begin, places.index(self.call.id) + 1)
        return begin, name_row(begin)

    def _list_measures(self) -> Iterator[Measure]:
        deciding = {lever.key for lever in self.explained.levers if lever.key}
        for number in self.explained.numbers:
            name, key, origin = cut_text(number.name, 60), cut_text(number.key, 120), cut_text(number.origin)
            yield Measure(name, number.value, number.bound, key, origin, number.key in deciding)

    def _list_scores(self) -> Iterator[ScoreView]:
        if self.facts is None:
            return
        for name, score in (("risk", self.facts.risk), ("uncertainty", self.facts.uncertainty)):
            reasons = tuple((cut_text(one.name, 60), one.weight, cut_text(one.why)) for one in score.reasons[:_VALUES])
            yield ScoreView(name, score.value, reasons)

    def _list_values(self) -> Iterator[ValueView]:
        for value in (self.facts.survey.values or ())[:_VALUES] if self.facts is not None else ():
            said = explain_source(strict_json.dump(value), details=True)
            tone = _SOURCES.get(value.source, "ask")
            yield ValueView(cut_text(value.path, 120), cut_text(value.text), cut_text(said, 600), value.seq, tone)

    def _list_leave(self, plan: PlanInForce | None) -> Iterator[str]:
        if self.call is None or self.facts is None:
            return
        for number, verdict in enumerate(self.body.judgement.verdicts):
            if verdict.call == self.call.id:
                yield from build_judged(self.event, self.body, number, plan).leave
        if (permission := self.facts.permission) is not None:
            given = f", given by {permission.by} at {permission.at[:19]} UTC" if permission.by else ""
            yield cut_text(f"permission {permission.id}: {permission.words}{given}", 600)
        if self.facts.standing_rule:
            yield cut_text(f"the operator's rule `{self.facts.standing_rule}` stands for a person's yes")
        if self.facts.authority:
            yield f"who stands behind it: {_AUTHORITY[self.facts.authority]}"

    def _list_items(self, plan: PlanInForce | None) -> Iterator[PlanItemView]:
        used = self.body.judgement.uses.get(self.call.id, ()) if self.call is not None else ()
        for number, item in enumerate(plan.items[:_ITEMS] if plan is not None else ()):
            of = f", {item.used} of {item.uses} used" if item.uses != 1 or item.used else ""
            says = cut_text(f"{item.effect} {item.kind} {item.pattern}{of}")
            yield PlanItemView(number + 1, says, number in used)

    def _list_details(self) -> Iterator[tuple[str, Quote]]:
        """Yield the details the gate recorded: a critique, a plan's result, what an answer was checked for."""
        for name, value in list(self.decision.detail.items())[:24]:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if isinstance(value, list) and all(isinstance(one, str) for one in value):
                text = "\n".join(map(str, value))
            at = (
                f"{self.event.seq}/body/judgement/decisions/{self.place}/detail/{name}"
                if isinstance(value, str)
                else ""
            )
            yield cut_text(name.replace("_", " "), 60), fold_text(text, at)

    def _read_answers(self) -> Iterator[tuple[Event, NeedRaised, AnswerView]]:
        """Yield the questions about the call that were asked for this judging, with their answers."""
        raised: tuple[Event, NeedRaised] | None = None
        after = max(0, self.body.turn.response - 1)
        for event in self.log.events(self.session, after=after, until=self.event.seq, kinds=_NEEDS):
            if isinstance(event.body, NeedRaised):
                raised = event, event.body
            elif isinstance(event.body, NeedAnswered) and raised is not None:
                asked, need = raised
                raised = None
                if self._is_about(need):
                    yield asked, need, build_answer(asked, need, event, event.body)

    def _is_about(self, raised: NeedRaised) -> bool:
        need = raised.need
        asks = any(one.standing.value == "ask" for one in self.decision.rulings)
        of_gate = need.gate in (self.point.gate, "loop") or (need.gate == "approval" and asks)
        return of_gate and (self.call is None or self.call.id in need.calls)

    def _list_beside(self) -> Iterator[BesideView]:
        rulings = {one.call: one for one in self.decision.rulings}
        for call in self.turn.turn.calls[:_BESIDE] if len(self.turn.turn.calls) > 1 else ():
            ruling = rulings.get(call.id)
            says = f"{cut_text(call.name, 60)}: {ruling.code if ruling is not None else 'not named by this gate'}"
            yield BesideView(cut_text(call.id, 24), call.id, cut_text(says, 160), call is self.call)

    def _list_keys(self) -> Iterator[KeyView]:
        for number in self.explained.numbers:
            yield KeyView(cut_text(number.key, 120), str(number.bound), cut_text(number.origin))
        if self.explained.mode_from:
            mode, origin = self.explained.mode, cut_text(self.explained.mode_from)
            yield KeyView(f"{cut_text(self.point.gate, 40)}.mode", mode, origin)
        for rule, origin in self.explained.rules.items():
            yield KeyView(cut_text(f"rules.list.{rule}", 120), "in force", cut_text(origin))

    def _build_chain(self, last: int, head: str) -> ChainView:
        turn, event = self.body.turn, self.event
        try:
            is_same = is_unchanged(event)
        except (ForegateError, TypeError, ValueError):
            is_same = False
        fits: Fits = "fits" if is_same else "masked" if self.masked else "differs"
        hashes = turn.policy_hash, turn.catalogue_hash, self.body.survey_hash
        return ChainView(event.seq, event.hash, event.prev, last, head, *hashes, fits)


_AUTHORITY: Mapping[str, str] = {
    "said": "the person's own words",
    "open": "nobody yet",
    "outside": "for one of its values only text from outside",
}


def _pass_on(sentences: Iterator[str] | Sequence[str]) -> tuple[TextPassage, ...]:
    return tuple(TextPassage(cut_text(sentence, SENTENCE)) for sentence in sentences)


WIDTH = 80
ROWS = 600
"""Rows of a sheet with all its details that a page shows."""
_COLUMNS = 400
_GONE = "what was asked is not kept any more, or is not what it was"


def build_sheet_view(kept: KeptBytes, raised: NeedRaised, answer: AnswerView) -> SheetView:
    """Return the sheet of a question to a person, or why none can be shown."""
    nothing = VisibleText("")
    if not kept.is_at_hand:
        return SheetView(answer, nothing, nothing, "the blobs are not at hand here")
    data = kept.find(raised.request)
    if data is None:
        return SheetView(answer, nothing, nothing, _GONE)
    try:
        request = as_object(_read_masked(data, kept))
        previews = _read_previews(raised.previews, kept)
        need = strict_json.load(type(raised.need), {**strict_json.dump(raised.need), "request": request})
        first = build_sheet(request, previews, width=WIDTH).rows if need.gate == "approval" else ()
        whole = format_asked(need, previews, WIDTH)
        return SheetView(answer, *(VisibleText(kept.hide(_lay_out(rows))) for rows in (first, whole)))
    except (ForegateError, UnicodeDecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
        return SheetView(answer, nothing, nothing, f"{_GONE} ({type(error).__name__})")


def _read_masked(data: bytes, kept: KeptBytes) -> Json:
    return strict_json.parse(kept.mask(data).decode())


def _read_previews(hash_: str, kept: KeptBytes) -> dict[str, Preview]:
    """Return what the calls would have changed, the contents of their files masked."""
    data = kept.find(hash_) if hash_ else None
    return {call: _mask_preview(preview, kept) for call, preview in decode_previews(data).items()} if data else {}


def _mask_preview(preview: Preview, kept: KeptBytes) -> Preview:
    changes = tuple(
        replace(change, before=kept.mask(change.before), after=kept.mask(change.after)) for change in preview.changes
    )
    return replace(preview, changes=changes)


def _lay_out(rows: Iterable[Text]) -> str:
    shown: list[str] = []
    for row in rows:
        if len(shown) == ROWS:
            shown.append("… more rows stand in the log")
            break
        shown.append(row.plain.rstrip()[:_COLUMNS])
    return "\n".join(shown)
