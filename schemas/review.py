"""What people say of decisions afterwards: labels, queues of decisions to look at, and sessions that are signed off.

These are the events of a log of their own, beside those of the sessions, with the same chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import field

from foregate.schemas.event_body import EventBody
from foregate.schemas.identity import Identity
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json

Label = Literal["right", "too strict", "too lax", "unclear"]
"""What a reviewer says of a ruling: it should have been so, looser, stricter, or nobody can tell."""
LABELS: tuple[Label, ...] = get_args(Label)
Way = Literal["random", "risk", "disagreement"]
"""How the decisions of a queue were chosen."""


class ReviewBody(EventBody, frozen=True, kw_only=True):
    """The body of an event of the review log; a session has none, and its state does not change by one."""


class RuledCall(Noun, frozen=True):
    """A gate's ruling on a call, which is what a label is about.

    `seq` is the event that judged the turn and `event` its hash, `digest` that of the call. A decision about no call
    has neither call nor digest.
    """

    session: str
    seq: int
    gate: str
    call: str = ""
    event: str = ""
    digest: str = ""

    @property
    def address(self) -> str:
        """The ruling as a command names it: `SESSION/SEQ.GATE:CALL`."""
        return f"{self.session}/{self.seq}.{self.gate}{f':{self.call}' if self.call else ''}"


class DecisionLabelled(ReviewBody, frozen=True, kw_only=True, tag="decision_labelled"):
    """A reviewer's label of a ruling; a later one of the same reviewer takes its place.

    `head` is number and hash of the session's last event then. `seconds` is how long the reviewer took, 0 where
    unmeasured. `blind` says that they saw no other labels, `queue` which queue they worked on.
    """

    ruled: RuledCall
    head: str
    label: Label
    by: Identity
    comment: str = ""
    seconds: int = 0
    blind: bool = False
    queue: str = ""


class LabelWithdrawn(ReviewBody, frozen=True, kw_only=True, tag="label_withdrawn"):
    """A reviewer takes back the label that they gave in event `label`; what they said of the ruling before stands."""

    label: int
    by: Identity


class Canary(Noun, frozen=True):
    """A ruling whose right label is known, put among others to see whether reviewers find it."""

    ruled: RuledCall
    label: Label


class QueueDrawn(ReviewBody, frozen=True, kw_only=True, tag="queue_drawn"):
    """Rulings to look at, as they were chosen from a population.

    `filter` and the number of `sessions` say which population, `population` how many rulings it had. `population_hash`
    is the SHA-256 over their addresses in order, each with a line end. `probability` is that of each, in millionths, 0
    without chance; `seed` starts the chance. All `items` are the sample, labelled or not; `canaries` are not. With
    `blind` nobody sees others' labels before giving one.
    """

    name: str
    way: Way
    filter: Mapping[str, Json]
    sessions: int
    population: int
    population_hash: str
    items: tuple[RuledCall, ...]
    by: Identity
    probability: int = 0
    seed: int = 0
    blind: bool = False
    canaries: tuple[Canary, ...] = field(default_factory=tuple)


class ProposedStep(Noun, frozen=True):
    """One setting of a path: `values` by dotted key, and what it lets go of what was recorded then.

    `population` counts calls, or sessions with such calls, and `population_hash` says which: the SHA-256 over the
    addresses of the calls in order, each with a line end.
    """

    values: Mapping[str, Json]
    population: int
    population_hash: str


class ChangeProposed(ReviewBody, frozen=True, kw_only=True, tag="change_proposed"):
    """A path of settings, from strict to loose, that was written down before anything was labelled for it.

    `base` is the text of the policy file below the settings, `unit` what is drawn and counted. Of a step's population
    at most `allowed` thousandths may be let go wrongly, shown with `confidence` thousandths. `seed` orders the
    population, and splits `sessions` where the unit is the session. `among` names the sessions where only some were
    wanted.
    """

    name: str
    base: str
    steps: tuple[ProposedStep, ...]
    unit: Literal["calls", "sessions"]
    allowed: int
    confidence: int
    seed: int
    sessions: int
    by: Identity
    among: tuple[str, ...] = ()


class SessionSignedOff(ReviewBody, frozen=True, kw_only=True, tag="session_signed_off"):
    """A reviewer takes responsibility for a session as it stood: `head` is number and hash of its last event then."""

    session: str
    head: str
    by: Identity
    comment: str = ""


AnyReviewBody: TypeAlias = DecisionLabelled | LabelWithdrawn | QueueDrawn | SessionSignedOff | ChangeProposed
"""What the review log holds."""
