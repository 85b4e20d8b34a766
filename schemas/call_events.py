"""Events of a call: that it was started, how it ended, why it did not run, what came of it later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from foregate.schemas.codes import GateCode, NotRunCode
from foregate.schemas.event_body import EventBody
from foregate.schemas.judgement import Remedy
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Change, EvidenceRecord, Origin, Permit
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind

SideEffect = Literal["pure", "idempotent", "at_most_once"]
"""What recovery may do with a call that never finished."""
KnownOutcome = Literal["done", "not_done"]
"""What came of a call: it took effect, or it did not and may be sent again."""
AnswerCode = GateCode | NotRunCode | Literal["runtime_lost"]
"""Why a call did not run: a gate's code, one of the loop's own, or that its tools are gone."""
RulingWord = Literal["allow", "ask", "hold", "deny", "not_run"]


class BeforeImage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was at a resource before a call.

    `type` is `file`, `link`, `directory`, `repository`, `own` (of the tool's own keeping) or "" for nothing; `image`
    names the blob that holds it ("" for nothing, and for a directory that is only moved); `parents` are directories
    above that were missing.
    """

    kind: ResourceKind
    id: str
    image: str
    type: str = ""
    mode: int = 0
    parents: tuple[str, ...] = ()

    @property
    def resource(self) -> Resource:
        """The bare kind and id."""
        return Resource(self.kind, self.id)


class ToolStarted(EventBody, frozen=True, kw_only=True, tag="tool_started"):
    """A call is about to run: durable before the effect, with all a probe after a crash needs.

    `side_effect` is recorded as `class`. `elsewhere` marks a call that a runtime runs, `early` a read of a response
    that still arrives; `look` is the event that judged the early read this call is answered from.
    """

    call: str
    tool: str
    target: str
    permit: Permit
    side_effect: SideEffect = field(name="class")
    effect: Effect
    before: tuple[BeforeImage, ...]
    elsewhere: bool = False
    early: bool = False
    look: int | None = None


class ToolFinished(EventBody, frozen=True, kw_only=True, tag="tool_finished"):
    """How a call that ran ended. `duration` is in milliseconds; `dropped` counts the bytes of the text left out.

    `origin` says whose words the content is. `used` is what a child task spent, by the name of the counter.
    """

    call: str
    tool: str
    target: str
    ok: bool
    content: str
    duration: int
    origin: Origin
    evidence: tuple[EvidenceRecord, ...]
    changes: tuple[Change, ...]
    error: str = ""
    dropped: int = 0
    used: Mapping[str, int] = field(default_factory=dict)
    exit_code: int | None = None
    early: bool = False
    look: int | None = None


class RemedyResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the remedy of a held call showed, where Foregate ran it."""

    tool: str
    arguments: Mapping[str, Json]
    ok: bool
    output: str


class CallAnswered(EventBody, frozen=True, kw_only=True, tag="call_answered"):
    """Why a call did not run, in the words the model got. `change` says whether it would have changed something."""

    call: str
    tool: str
    target: str
    ruling: RulingWord
    code: AnswerCode
    message: str
    change: bool
    gate: str = ""
    remedy: Remedy | None = None
    observed: RemedyResult | None = None


class OutcomeUnknown(EventBody, frozen=True, kw_only=True, tag="outcome_unknown"):
    """An effect whose outcome is unknown. `error` names a cause that ends more than the call."""

    call: str
    tool: str
    target: str
    reason: str
    error: str = ""


class OutcomeResolved(EventBody, frozen=True, kw_only=True, tag="outcome_resolved"):
    """The outcome of a call that was unknown; `changes` and `evidence` are None where no one checked them."""

    call: str
    tool: str
    target: str
    outcome: KnownOutcome
    changes: tuple[Change, ...] | None = None
    evidence: tuple[EvidenceRecord, ...] | None = None


class EffectUndone(EventBody, frozen=True, kw_only=True, tag="effect_undone"):
    """A change of a call was undone: the steps in words, and what is there now."""

    call: str
    tool: str
    resources: tuple[str, ...]
    changes: tuple[Change, ...]
    evidence: tuple[EvidenceRecord, ...]
    steps: tuple[str, ...]
