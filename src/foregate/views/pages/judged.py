"""How a call was judged, gate by gate, as a page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from foregate.schemas import strict_json
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.judgement import CallRuling, Decision, Judgement, Standing, Verdict
from foregate.schemas.plan import PlanInForce
from foregate.schemas.sources import explain_source
from foregate.schemas.tool_call import Survey
from foregate.views.pages.texts import STANDING, Tone, cut_text, describe_code, fold_text, name_decision
from foregate.views.pages.views import BoundView, JudgedView, RulingView

_RULES = 8
_VALUES = 12
_MEMBERS = 40


class IndexedRow(NamedTuple):
    """A decision with its rulings and their places by call: a response may have ten thousand calls.

    `recorded` counts the rulings that the event itself holds, -1 where it does not hold the decision.
    """

    decision: Decision
    rulings: Mapping[str, tuple[int, CallRuling]]
    recorded: int


def index_rulings(judgement: Judgement) -> Sequence[IndexedRow]:
    """Return the decisions of a judgement, their rulings to be found by call."""
    recorded = chain((len(decision.rulings) for decision in judgement.decisions), repeat(-1))
    return [
        IndexedRow(row, {one.call: (place, one) for place, one in enumerate(row.rulings)}, count)
        for row, count in zip(judgement.rows, recorded, strict=False)
    ]


def build_judged(
    event: Event, body: TurnJudged, number: int, plan: PlanInForce | None, rulings: Sequence[IndexedRow] | None = None
) -> JudgedView:
    """Return how the call of verdict `number` was judged, and by which leave."""
    verdict = body.judgement.verdicts[number]
    tone, word = STANDING[verdict.standing]
    stage = "early" if body.early else body.turn.actor if body.turn.actor != "model" else ""
    at = f"{event.seq}/body/judgement/verdicts/{number}/ruling/message"
    return JudgedView(
        seq=event.seq,
        tone=tone,
        word=word,
        gate=cut_text(verdict.gate, _MEMBERS),
        code=cut_text(verdict.ruling.code, 80),
        words=fold_text(verdict.ruling.message, at, shown=300, lines=4),
        rulings=tuple(build_rulings(event.seq, body.judgement, verdict.call, rulings)),
        stage=stage,
        leave=tuple(_describe_leave(body, verdict, plan)),
    )


def build_answer_rulings(event: Event, body: TurnJudged) -> JudgedView:
    """Return how an answer in words was judged."""
    rulings = tuple(
        build_ruling(event.seq, number, row, None) for number, row in enumerate(index_rulings(body.judgement))
    )
    last = rulings[-1] if rulings else None
    tone: Tone = last.tone if last is not None else "quiet"
    words = last.words if last is not None else fold_text("")
    return JudgedView(event.seq, tone, "", last.gate if last else "", last.code if last else "", words, rulings)


def build_rulings(
    seq: int, judgement: Judgement, call: str, rulings: Sequence[IndexedRow] | None = None
) -> Iterator[RulingView]:
    """Yield what each gate said of a call, in order, until one stopped it."""
    for number, row in enumerate(rulings if rulings is not None else index_rulings(judgement)):
        decision, (place, ruling) = row.decision, row.rulings.get(call, (0, None))
        if decision.code == "prelude_ready_for_execution":
            continue
        yield build_ruling(seq, number, row, ruling, place)
        if ruling is not None and ruling.standing.stops and decision.mode != "shadow":
            return


def build_ruling(seq: int, number: int, row: IndexedRow, ruling: CallRuling | None, place: int = 0) -> RulingView:
    """Return what a gate said of a call, in the ruling at `place`; without a ruling of its own a call passed.

    Words that the event does not hold under that place have no address in it.
    """
    decision, is_recorded = row.decision, place < max(1, row.recorded) and row.recorded >= 0
    about_all = not decision.rulings
    code = ruling.code if ruling is not None else decision.code if about_all else f"{decision.gate}_passed"
    standing = ruling.standing if ruling is not None else Standing.ALLOW
    tone, word = STANDING[standing]
    if standing is Standing.ALLOW and decision.severity != "info" and about_all:
        tone, word = "hold", ""
    says, at = "", ""
    base = f"{seq}/body/judgement/decisions/{number}"
    if ruling is not None and ruling.message:
        says, at = ruling.message, f"{base}/rulings/{place}/message"
    elif ruling is not None or about_all:
        says, at = decision.summary, f"{base}/summary" if decision.summary else ""
    shown = ruling is not None or about_all
    at = at if is_recorded else ""
    return RulingView(
        seq=seq,
        gate=cut_text(decision.gate, _MEMBERS),
        code=cut_text(code, 80),
        tone="quiet" if decision.mode == "shadow" else tone,
        word="shadow" if decision.mode == "shadow" else word,
        words=fold_text(says, at, shown=300, lines=4),
        meaning=describe_code(code),
        anchor=name_decision(seq, decision.gate),
        call=ruling.call if ruling is not None else "",
        reason=cut_text(ruling.reason) if ruling is not None and ruling.reason not in says else "",
        shadow=decision.mode == "shadow",
        passed=standing is Standing.ALLOW and tone == "allow",
        numbers=tuple(
            BoundView(cut_text(n.name, 60), n.value, n.bound, cut_text(n.path, 120)) for n in decision.numbers
        ),
        rules=tuple(cut_text(rule, 80) for rule in decision.rules[:_RULES]) if shown else (),
        question=cut_text(decision.consequence.question) if decision.consequence is not None and shown else "",
    )


def _describe_leave(body: TurnJudged, verdict: Verdict, plan: PlanInForce | None) -> Iterator[str]:
    """Yield by what leave a call was let go: items of the plan, and words of the person."""
    judgement = body.judgement
    in_force = judgement.plan or body.plan or plan
    items = in_force.items if in_force is not None else ()
    for at in judgement.uses.get(verdict.call, ())[:_VALUES]:
        if at < len(items):
            item = items[at]
            yield cut_text(f"item {at + 1} of the plan: {item.effect} {item.kind} {item.pattern}")
        else:
            yield f"item {at + 1} of the plan"
    if verdict.call in judgement.said:
        survey = next((one for one in body.turn.surveys if one.call == verdict.call), None)
        yield from _describe_said(survey, judgement.said[verdict.call])


def _describe_said(survey: Survey | None, keys: tuple[str, ...]) -> Iterator[str]:
    values = {value.key: value for value in (survey.values or () if survey is not None else ())}
    for key in keys[:_VALUES]:
        value = values.get(key)
        if value is None:
            yield cut_text(f"the person said `{key.partition(':')[2]}`")
        else:
            yield cut_text(f"`{value.path}: {value.text}`: {explain_source(strict_json.dump(value))}")


def list_values(survey: Survey) -> Iterator[Mapping[str, str]]:
    """Yield the values of a call with who said each first."""
    for value in (survey.values or ())[:_VALUES]:
        yield {"path": value.path, "text": value.text, "said": explain_source(strict_json.dump(value))}
