"""The events of a session's log: the bodies of what a model said and what was judged of it, and all kinds in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from foregate.schemas.event_body import AnyCallBody, ClosingBody, ContextCompressed, EventBody, Kind, OpeningBody
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Answer, Grant, Judgement, Need
from foregate.schemas.model_response import Block, ModelResponse, RecordedCall, Usage, WireMessage, record_calls
from foregate.schemas.noun import Noun
from foregate.schemas.plan import PlanInForce
from foregate.schemas.review import AnyReviewBody
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.turn import TurnRecord


class RecordedUsage(Noun, frozen=True, kw_only=True):
    """Tokens and cost of a request, each of them written, 0 too."""

    input_tokens: int
    output_tokens: int
    cost: int

    @property
    def usage(self) -> Usage:
        """What the request used."""
        return Usage(self.input_tokens, self.output_tokens, self.cost)


class RecordedDataflow(Noun, frozen=True, kw_only=True):
    """All calls of a response in which some name results of others; `places` are those that can run at once."""

    calls: tuple[RecordedCall, ...]
    deferred: tuple[int, ...]
    places: tuple[int, ...]
    order: Json = None


class Continuation(Noun, frozen=True, kw_only=True):
    """The response that a further round belongs to, and the places of its calls in that response."""

    response: int
    places: tuple[int, ...]


class ModelResponded(EventBody, frozen=True, kw_only=True, dict=True, gc=True, tag="model_response"):
    """A response, or a further round of one.

    `order` is a block as a list (see Block). `program` holds the whole response where this event gives the judge only
    the first round; `continues` names the response of a further round. `tasks` and `places` give the task and place of
    a plan's own calls. `refused` says why the calls of an answer that fills in a task were left out. `raw` is what the
    model wrote where a dialect read its calls from that. `wire` is what only its endpoint understands.
    """

    text: str
    reasoning: str
    calls: tuple[RecordedCall, ...]
    usage: RecordedUsage
    finish_reason: str
    model: str
    notes: tuple[str, ...]
    order: Json = None
    deferred: tuple[int, ...] = ()
    program: RecordedDataflow | None = None
    continues: Continuation | None = None
    places: tuple[int, ...] | None = None
    tasks: tuple[int, ...] | None = None
    refused: str = ""
    raw: str = ""
    wire: WireMessage | None = None

    @classmethod
    def of(
        cls,
        response: ModelResponse,
        *,
        program: RecordedDataflow | None = None,
        continues: Continuation | None = None,
        places: Sequence[int] | None = None,
        tasks: Sequence[int] | None = None,
        refused: str = "",
    ) -> ModelResponded:
        """Return the body that records a stamped response."""
        return cls(
            **dict(zip(_ALIKE, _read_alike(response), strict=True)),
            calls=record_calls(response.calls),
            usage=RecordedUsage(**asdict(response.usage)),
            order=response.order.to_json() if response.order is not None else None,
            program=program,
            continues=continues,
            places=None if places is None else tuple(places),
            tasks=None if tasks is None else tuple(tasks),
            refused=refused,
        )

    @cached_property
    def response(self) -> ModelResponse:
        """The response; raises InvalidJson where its order cannot be read."""
        return ModelResponse(
            **dict(zip(_ALIKE, _read_alike(self), strict=True)),
            calls=tuple([recorded.call for recorded in self.calls]),
            usage=self.usage.usage,
            order=Block.from_json(self.order) if self.order is not None else None,
        )


_ALIKE = ("text", "reasoning", "finish_reason", "model", "notes", "deferred", "raw", "wire")
"""The fields of a response that are recorded unchanged."""
_read_alike = attrgetter(*_ALIKE)


class TurnJudged(EventBody, frozen=True, kw_only=True, tag="turn_judged"):
    """A turn and its judgement. Judging the turn again gives the bytes of the judgement.

    `fingerprints` hold per call id what was known of the call's resources. `stuck` is the loop's question about a call
    that was held again, `notice` what the model is told. `early` marks a read of a response that still arrived.
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
    """A question to planner, critic or person; `request` is the hash of the blob that holds what was asked.

    `previews` is that of the blob with what the calls would change, "" where none is known.
    """

    need: Need
    request: str
    survey_hash: str
    previews: str = ""


class NeedAnswered(EventBody, frozen=True, kw_only=True, tag="need_answered"):
    """The answer to a question. `response` is the hash of the blob with the model's words, None for a person.

    `usage` is what the request used, `model_calls` how many requests there were, `grants` what a person allowed with
    the answer. `elsewhere` says that another process gave it. `by` is the person who gave it, None for nobody known.
    """

    answer: Answer
    usage: Usage | None = None
    response: str | None = None
    model_calls: int = 1
    grants: tuple[Grant, ...] | None = None
    elsewhere: bool = False
    by: Identity | None = None


FORMAT = 1
"""Version of the log's format; raised when a reader of the old one would misread."""

GENESIS = "0" * 64
"""The previous hash of a session's first event."""

Actor = Literal[
    "user", "parent", "model", "planner", "critic", "person", "runner", "postlude", "sandbox", "foregate", "tool"
]

JudgingBody: TypeAlias = ModelResponded | TurnJudged | NeedRaised | NeedAnswered
PlanBody: TypeAlias = PlanProposed | PlanConfirmed | PlanStepChanged
Body: TypeAlias = OpeningBody | JudgingBody | AnyCallBody | ContextCompressed | PlanBody | ClosingBody | AnyReviewBody
"""What happened: one class per kind of event, so that a reader can `match` and end in `assert_never`."""


class Draft(Struct, frozen=True, gc=False):
    """An event before the log gave it a number. Its body holds no floats and only ASCII keys."""

    body: Body
    actor: Actor

    @property
    def kind(self) -> Kind:
        """The name of what happened."""
        return self.body.kind


class Event(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A recorded event. `time` is UTC text, `hash` the SHA-256 over the canonical JSON of everything else."""

    v: int
    foregate: str
    seq: int
    session: str
    time: str
    actor: Actor
    policy: str
    prev: str
    body: Body
    hash: str

    @property
    def kind(self) -> Kind:
        """The name of what happened."""
        return self.body.kind
