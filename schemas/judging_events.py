"""Events of judging: a turn and what was judged of it, what a gate had to be told, and the answer."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.schemas.event_body import EventBody
from foregate.schemas.judgement import Answer, Grant, Judgement, Need
from foregate.schemas.model_response import Usage
from foregate.schemas.plan import PlanInForce
from foregate.schemas.turn import TurnRecord


class TurnJudged(EventBody, frozen=True, kw_only=True, tag="turn_judged"):
    """A turn and its judgement. Judging the turn again gives the bytes of the judgement.

    `fingerprints` hold per call id what was known of the call's resources. `stuck` is the loop's own question about a
    call that was held again, `notice` what the model is told with the judgement, and `early` marks a read of a
    response that still arrived.
    """

    turn: TurnRecord
    judgement: Judgement
    survey_hash: str
    fingerprints: Mapping[str, str]
    plan: PlanInForce | None = None
    stuck: str = ""
    notice: str = ""
    early: bool = False


class NeedRaised(EventBody, frozen=True, kw_only=True, tag="need_raised"):
    """A question to planner, critic or person; `request` is the hash of the blob that holds what was asked."""

    need: Need
    request: str
    survey_hash: str


class NeedAnswered(EventBody, frozen=True, kw_only=True, tag="need_answered"):
    """The answer to a question. `response` is the hash of the blob with the model's words, None for a person.

    `usage` is what the request used, `model_calls` how many requests there were, `grants` what a person allowed with
    the answer.
    """

    answer: Answer
    usage: Usage | None = None
    response: str | None = None
    model_calls: int = 1
    grants: tuple[Grant, ...] | None = None
