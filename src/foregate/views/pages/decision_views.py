"""What a page shows of one decision, as plain data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from foregate.views.pages.texts import Quote, TextPassage, VisibleText
from foregate.views.pages.views import AnswerView, ProofView, RulingView, Tone


class Measure(Struct, frozen=True):
    """A number against its bound; `lit` where another bound alone would have changed the ruling."""

    name: str
    value: int
    bound: int
    key: str
    origin: str
    lit: bool


class ScoreView(Struct, frozen=True):
    """A score of the call in thousandths, with what each reason adds."""

    name: str
    value: int
    reasons: tuple[tuple[str, int, str], ...]


class ValueView(Struct, frozen=True):
    """A value of the call and who said it first; `seq` is the event with the words, 0 for none."""

    path: str
    text: str
    said: str
    seq: int
    tone: Tone


class PlanItemView(Struct, frozen=True):
    """An item of the plan in force, and whether the call uses it up."""

    number: int
    says: str
    used: bool


class SheetView(Struct, frozen=True):
    """A question to a person with the sheet they saw, as the terminal laid it out."""

    answer: AnswerView
    rows: VisibleText
    details: VisibleText
    problem: str = ""


class BesideView(Struct, frozen=True):
    """A call of the same response, and where the same gate's ruling on it stands."""

    mark: str
    call: str
    says: str
    current: bool


Fits = Literal["fits", "differs", "masked"]


class ChainView(Struct, frozen=True):
    """The event's place in the chain; `fits` says whether its hash is that of what it says:
    `fits`, `differs`, or `masked` where that cannot be told from what is left of it."""

    seq: int
    hash: str
    prev: str
    head_seq: int
    head: str
    policy: str
    catalogue: str
    surveys: str
    fits: Fits


class KeyView(Struct, frozen=True):
    """A value of the policy that the decision rests on."""

    key: str
    value: str
    origin: str


class DecisionPage(Struct, frozen=True, kw_only=True):
    """Everything a page says of one decision."""

    session: str
    seq: int
    gate: str
    address: str
    code: str
    meaning: str
    remedy: str
    tone: Tone
    word: str
    time: str
    tool: str
    target: str
    mark: str
    call: str
    row: int
    anchor: str
    anchor_here: str
    arguments: tuple[tuple[str, Quote], ...]
    rulings: tuple[RulingView, ...]
    asked: tuple[TextPassage, ...]
    ruled: tuple[TextPassage, ...]
    measures: tuple[Measure, ...]
    scores: tuple[ScoreView, ...]
    values: tuple[ValueView, ...]
    leave: tuple[str, ...]
    goal: str
    items: tuple[PlanItemView, ...]
    facts: tuple[tuple[str, Quote], ...]
    answers: tuple[AnswerView, ...]
    sheets: tuple[SheetView, ...]
    levers: tuple[TextPassage, ...]
    history: tuple[TextPassage, ...]
    beside: tuple[BesideView, ...]
    keys: tuple[KeyView, ...]
    chain: ChainView
    proof: ProofView
