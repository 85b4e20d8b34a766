"""What a page shows of a session and of one decision, as plain data: texts cut for a page, and places in the log."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from foregate.views.pages.texts import NOTHING, Quote, TextPassage, Tone, VisibleText
from foregate.views.terminal.made import FileDiff


class BoundView(Struct, frozen=True):
    """A number of a ruling against its bound."""

    name: str
    value: int
    bound: int
    key: str


class RulingView(Struct, frozen=True):
    """What one gate said of one call, or of an answer: `words` is why, `meaning` what its code says of any call."""

    seq: int
    gate: str
    code: str
    tone: Tone
    word: str
    words: Quote
    meaning: str
    anchor: str
    call: str = ""
    reason: str = ""
    shadow: bool = False
    passed: bool = False
    numbers: tuple[BoundView, ...] = ()
    rules: tuple[str, ...] = ()
    question: str = ""


class JudgedView(Struct, frozen=True):
    """One judging of a call: `stage` says of what where it is not the call as sent (`sandbox`, `early`)."""

    seq: int
    tone: Tone
    word: str
    gate: str
    code: str
    words: Quote
    rulings: tuple[RulingView, ...]
    stage: str = ""
    leave: tuple[str, ...] = ()


class AnswerView(Struct, frozen=True):
    """What a person or a model of Foregate's was asked about calls, and answered.

    `seconds` is how long it took, -1 where nobody answered. `by` is who, `choice` what they chose.
    """

    seq: int
    who: str
    gate: str
    asked: str
    code: str = ""
    answered: int = 0
    by: str = ""
    choice: str = ""
    words: Quote = NOTHING
    error: str = ""
    seconds: int = -1
    elsewhere: bool = False
    grants: int = 0
    tone: Tone = "ask"


class OutcomeView(Struct, frozen=True):
    """One outcome of a call: it ran, failed, was not run, ended in a sandbox, was undone."""

    seq: int
    word: str
    tone: Tone
    says: str
    text: Quote = NOTHING
    duration: int = 0
    files: tuple[FileDiff, ...] = ()
    unread: int = 0
    origin: str = ""


class CallView(Struct, kw_only=True):
    """A call with its rulings on the same row. `mark` is its id in the session, on both sides of the page."""

    seq: int
    place: int
    mark: str
    anchor: str
    tool: str
    target: str = ""
    arguments: list[tuple[str, Quote]] = field(default_factory=list)
    defect: str = ""
    sent: Quote = NOTHING
    actor: str = "model"
    effect: str = ""
    confinement: str = ""
    tone: Tone = "quiet"
    word: str = "waits"
    said: list[Quote] = field(default_factory=list)
    judged: list[JudgedView] = field(default_factory=list)
    answers: list[AnswerView] = field(default_factory=list)
    outcomes: list[OutcomeView] = field(default_factory=list)

    @property
    def shows_target(self) -> bool:
        """Whether the target is more than what an argument says below it."""
        return bool(self.target) and not any(value.begin == self.target for _, value in self.arguments)


class Saying(Struct, kw_only=True, tag="saying", tag_field="kind"):
    """Words of a person, of a parent task, or of nobody but Foregate."""

    seq: int
    time: str
    who: str
    text: Quote
    by: str = ""


class Responding(Struct, kw_only=True, tag="responding", tag_field="kind"):
    """A response of the model with its calls, and what Foregate looked at itself because of it.

    `rulings` are those on an answer in words. `continued` says that it began on an earlier page.
    """

    seq: int
    time: str
    who: str = "Foregate"
    text: Quote = NOTHING
    reasoning: Quote = NOTHING
    calls: list[CallView] = field(default_factory=list)
    rulings: list[JudgedView] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    model: str = ""
    tokens: int = 0
    left_out: int = 0
    continued: bool = False


class Noting(Struct, kw_only=True, tag="noting", tag_field="kind"):
    """Something that happened beside the conversation, in a line: a switch, a task's end, a plan's step."""

    seq: int
    time: str
    word: str
    says: str
    tone: Tone = "quiet"
    text: Quote = NOTHING
    by: str = ""


RowView: TypeAlias = Saying | Responding | Noting


def name_kind(row: RowView) -> str:
    """Return which kind of row it is, as its JSON does."""
    return str(row.__struct_config__.tag)


class TaskView(Struct, kw_only=True):
    """A task of the session: what was asked, how it ended, and what it took."""

    number: int
    seq: int
    asked: str = ""
    status: str = "open"
    tone: Tone = "ask"
    ended: int = 0
    report: list[tuple[str, str]] = field(default_factory=list)
    note: str = ""
    seconds: int = 0
    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0


class StripMark(Struct, frozen=True):
    """A judged call in the strip of verdicts."""

    seq: int
    place: int
    tone: Tone
    says: str
    page: int
    anchor: str


class WaitingView(Struct, frozen=True):
    """What the session waits for: a person's yes (`question` is the event that asks), or words."""

    seq: int
    says: str
    asked: str
    question: int = 0


class PageView(Struct, frozen=True):
    """Which part of a session a page shows: its events from `first` to `last`."""

    number: int
    count: int
    first: int
    last: int


class ProofView(Struct, frozen=True):
    """What is known of the log's wholeness: `state` is `proven`, `consistent`, `broken` or `unchecked`.

    `scope` says what was checked beside the chain, and `more` what else was found, a sentence each.
    """

    state: Literal["proven", "consistent", "broken", "unchecked"]
    says: str
    events: int
    head: str
    tone: Tone
    scope: str = ""
    more: tuple[str, ...] = ()


class SessionPage(Struct, kw_only=True):
    """Everything a page says of a session."""

    session: str
    events: int
    head: str
    facts: list[tuple[str, str]]
    state: str
    tone: Tone
    asked: str
    erased: str
    tasks: list[TaskView]
    waiting: WaitingView | None
    rows: list[RowView]
    strip: list[StripMark]
    whole_strip: bool
    page: PageView
    proof: ProofView
    counts: list[tuple[str, int, Tone]]


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
