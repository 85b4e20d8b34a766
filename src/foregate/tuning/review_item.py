"""A ruling as a reviewer is shown it: what the person asked, the call, the numbers, and who approved."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from foregate.evidence.state.recorded_turns import find_event
from foregate.schemas import strict_json
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import TaskStarted, UserMessage
from foregate.schemas.protocols import Readable
from foregate.schemas.review import RuledCall
from foregate.schemas.strict_json import Json
from foregate.telemetry.queries.reviews import GivenLabel
from foregate.telemetry.queries.rulings import list_rulings
from foregate.tuning.explanation import Explanation, explain


class ReviewItem(Struct, frozen=True):
    """A ruling with all that is shown of it. `asked` are the person's words, the last ones of the task first.

    `others` are labels of other reviewers that may be shown, `own` is the reviewer's until now. `is_let_go` says that
    no gate held the call; explained is then the one that came nearest to it.
    """

    ruled: RuledCall
    asked: str
    explained: Explanation
    others: tuple[GivenLabel, ...] = ()
    own: GivenLabel | None = None
    is_let_go: bool = False

    @property
    def approvals(self) -> list[str]:
        """Who was asked about the call before it was judged, and what they answered, one sentence each."""
        entries = (one for one in self.explained.next if one.what == "answered" and one.who == "person")
        return [f"{one.by or 'a person'} answered `{one.code}`" for one in entries if one.code]

    def to_json(self) -> dict[str, Json]:
        """Return the item as JSON values."""
        own = dump_label(self.own) if self.own is not None else None
        return {
            "decision": self.ruled.address,
            "asked": self.asked,
            "approved": list(self.approvals),
            "explained": self.explained.to_json(),
            "others": [dump_label(given) for given in self.others],
            "own": own,
        }


def build_item(
    log: Readable, ruled: RuledCall, others: Sequence[GivenLabel] = (), own: GivenLabel | None = None
) -> ReviewItem:
    """Return what is shown of a ruling; raise UsageError for a missing one, LogError for a damaged log."""
    nearest = _find_nearest(log, ruled)
    explained = explain(log, ruled.session, ruled.seq, nearest or ruled.gate, ruled.call)
    return ReviewItem(ruled, _find_words(log, ruled), explained, tuple(others), own, bool(nearest))


def _find_nearest(log: Readable, ruled: RuledCall) -> str:
    """Return the gate that came nearest to holding a call which no gate has held; "" for any other ruling."""
    event = find_event(log, ruled.session, ruled.seq)
    if event is None or not isinstance(event.body, TurnJudged):
        return ""
    judgement = event.body.judgement
    one = next((one for one in list_rulings(judgement) if (one.gate, one.call) == (ruled.gate, ruled.call)), None)
    if one is None or not one.is_verdict or one.code != f"{one.gate}_passed":
        return ""
    near = [(number.value / max(1, number.bound), row.gate) for row in judgement.decisions for number in row.numbers]
    return max(near, key=lambda pair: pair[0])[1] if near else ruled.gate


def dump_label(given: GivenLabel, *, withdrawn: bool = False) -> dict[str, Json]:
    """Return a label as a row of JSON; `withdrawn` says that it was taken back."""
    body = given.body
    return {
        "decision": body.ruled.address,
        "label": body.label,
        "comment": body.comment,
        "by": strict_json.dump(body.by),
        "at": given.time,
        "seconds": body.seconds,
        "blind": body.blind,
        "queue": body.queue,
        "head": body.head,
        "digest": body.ruled.digest,
        "event": given.seq,
        "withdrawn": withdrawn,
    }


def _find_words(log: Readable, ruled: RuledCall) -> str:
    """Return what the person said last in the task of a ruling before it was made."""
    said = ""
    for event in log.events(ruled.session, until=ruled.seq, kinds=("task_started", "user_message")):
        match event.body:
            case TaskStarted():
                said = ""
            case UserMessage(text=text) if event.actor == "user" or not said:
                said = text
    return said
