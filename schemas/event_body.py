"""What every kind of event has in common, and the bodies of a session's, a task's and a call's events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast, get_args

from msgspec import field

from foregate.schemas.codes import GateCode, NotRunCode
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Remedy
from foregate.schemas.noun import Noun
from foregate.schemas.permission import Permission
from foregate.schemas.plan import Leave, SharedUses
from foregate.schemas.session_link import SessionLink
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Change, EvidenceRecord, Origin, Permit, Tier
from foregate.schemas.tool_spec import Effect, OwnFields, Resource, ResourceKind, ToolSpec
from foregate.schemas.turn import Refusal

Kind = Literal[
    "session_started",
    "catalog_changed",
    "policy_changed",
    "task_started",
    "user_message",
    "model_response",
    "turn_judged",
    "need_raised",
    "need_answered",
    "tool_started",
    "sandbox_ended",
    "tool_finished",
    "call_answered",
    "outcome_unknown",
    "outcome_resolved",
    "effect_undone",
    "context_compressed",
    "plan_proposed",
    "plan_confirmed",
    "plan_step_changed",
    "task_paused",
    "task_ended",
    "session_ended",
    "checkpoint",
    "decision_labelled",
    "label_withdrawn",
    "queue_drawn",
    "session_signed_off",
    "change_proposed",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class EventBody(Noun, frozen=True, kw_only=True, tag_field="kind"):
    """The body of an event; the tag of its class is the name its events have in the log."""

    @property
    def kind(self) -> Kind:
        """The name of what happened."""
        return get_kind(type(self))


class NoteBody(EventBody, frozen=True, kw_only=True):
    """What changes no state, so that no reader has to know its kind: a new kind of note is written in this file."""


def get_kind(body: type[EventBody]) -> Kind:
    """Return the name that events with such a body have in the log."""
    return cast(Kind, body.__struct_config__.tag)


class Remotes(Noun, frozen=True):
    """Where the workspace's repository pushes to: the address behind each remote's name.

    `usual` is the remote git takes where none is named, `branch` the branch that is checked out; "" for none.
    """

    addresses: Mapping[str, str]
    usual: str = ""
    branch: str = ""


class SessionStarted(EventBody, frozen=True, kw_only=True, tag="session_started"):
    """The first event: everything needed to judge the session again elsewhere.

    `policy` holds every value in force, `layers` where each comes from. `dialect` is "" for the native one. `runtime`
    names where the tools run, `agent` whom a served session serves, `parent` and `parent_event` where a child began.
    `remotes` are those of the start, for a child of its parent's start. `follows` names the ended session that this one
    continues. `by` ran it.
    """

    workspace: str
    model: str
    system: str
    prompts_hash: str
    catalogue: tuple[ToolSpec, ...]
    catalogue_hash: str
    policy: Mapping[str, Json]
    depth: int
    layers: Mapping[str, Json] | None = None
    dialect: str = ""
    runtime: str = ""
    agent: str = ""
    parent: str = ""
    parent_event: int = 0
    remotes: Remotes | None = None
    follows: SessionLink | None = None
    by: Identity | None = None


class CatalogChanged(EventBody, frozen=True, kw_only=True, tag="catalog_changed"):
    """The tools that are there from now on."""

    catalogue: tuple[ToolSpec, ...]
    catalogue_hash: str


class PolicyChanged(EventBody, frozen=True, kw_only=True, tag="policy_changed"):
    """What holds from now on; None where it stays as it was.

    `before` is the hash of the policy until then; `refused` is why a changed file does not hold. `permissions` are all
    a person gave. `workspace` is where it was moved to: what was observed is forgotten. `by` runs the session now.
    """

    policy: Mapping[str, Json] | None = None
    layers: Mapping[str, Json] | None = None
    before: str | None = None
    auto: bool | None = None
    dry_run: bool | None = None
    mode: str | None = None
    dialect: str | None = None
    permissions: tuple[Permission, ...] | None = None
    workspace: str | None = None
    by: Identity | None = None
    refused: str | None = None


class SessionEnded(EventBody, frozen=True, kw_only=True, tag="session_ended"):
    """The last event of a finished session; `events` counts all of them, this one included."""

    events: int


class ContextCompressed(EventBody, frozen=True, kw_only=True, tag="context_compressed"):
    """The part of the conversation that the model is no longer sent.

    `left_out` holds ranges of places (first, and first after), `shortened` places and the characters that stay of
    them. `before` and `after` are tokens as `counted_by` counts them. `open` and `summary` stand in place of the rest.
    """

    strategy: str
    limit: int
    counted_by: str
    before: int
    after: int
    left_out: tuple[tuple[int, int], ...]
    shortened: tuple[tuple[int, int], ...]
    open: tuple[str, ...]
    summary: str


class Checkpoint(NoteBody, frozen=True, kw_only=True, tag="checkpoint"):
    """An undo of the call `undo` that is about to begin, with its `steps`.

    Where an undo broke off: the steps left, those `restored` before, and `why`.
    """

    undo: str
    steps: tuple[str, ...]
    restored: tuple[str, ...] | None = None
    why: str | None = None


Status = Literal["completed", "blocked", "budget_exhausted", "cancelled", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
PauseReason = Literal["needs_input", "awaiting_approval", "paused"]


class Report(Noun, frozen=True):
    """What anything but `completed` reports: what was done, what is in the way, what is needed, what comes next."""

    done: tuple[str, ...] = ()
    blocker: str = ""
    need: str = ""
    next_step: str = ""


class TaskStarted(EventBody, frozen=True, kw_only=True, tag="task_started"):
    """A task begins: its number in the session and its depth, 0 for a person's.

    `plan` says that the person asked for a plan. A child task inherits `refusals`, and shares what `leave` says of its
    parent's mandate; None for any other task.
    """

    task: int
    depth: int
    plan: bool = False
    refusals: tuple[Refusal, ...] | None = None
    leave: Leave | None = None


class UserMessage(EventBody, frozen=True, kw_only=True, tag="user_message"):
    """What a person said, or what a parent task asks of its child; the event's actor tells which."""

    text: str


class TaskPaused(EventBody, frozen=True, kw_only=True, tag="task_paused"):
    """The task waits for a person; `question` is what it needs to know, None where it waits for a yes."""

    reason: PauseReason
    question: str | None = None


class TaskEnded(EventBody, frozen=True, kw_only=True, tag="task_ended"):
    """How a task ended. `duration` is in seconds, waiting for a person left out; `cost` in micro-units."""

    status: Status
    text: str
    duration: int
    turns: int
    model_calls: int
    tool_calls: int
    tokens: int
    cost: int
    note: str
    report: Report


SideEffect = Literal["pure", "idempotent", "at_most_once"]
"""What recovery may do with a call that never finished."""
KnownOutcome = Literal["done", "not_done"]
"""The outcome of a call: it took effect, or it did not and may be sent again."""
AnswerCode = GateCode | NotRunCode | Literal["runtime_lost"]
"""Why a call did not run: a gate's code, one of the loop's own, or that its tools are gone."""
RulingWord = Literal["allow", "ask", "hold", "deny", "not_run"]


class BeforeImage(Noun, frozen=True, kw_only=True):
    """What was at a resource before a call.

    `type` is `file`, `link`, `directory`, `repository`, `own` (the tool's own storage) or "" for nothing. `image` names
    the blob that holds it, "" for nothing and for a directory that is only moved. `parents` are missing directories
    above. `modified` is in nanoseconds, as text; `attributes` names the blob of the extended attributes; `links` counts
    names.
    """

    kind: ResourceKind
    id: str
    image: str
    type: str = ""
    mode: int = 0
    parents: tuple[str, ...] = ()
    modified: str = ""
    attributes: str = ""
    links: int = 1

    @property
    def resource(self) -> Resource:
        """The bare kind and id."""
        return Resource(self.kind, self.id)


class CallBody(EventBody, frozen=True, kw_only=True):
    """What happened to one call, and the name of its tool."""

    call: str
    tool: str


class EndBody(CallBody, frozen=True, kw_only=True):
    """What ends a call for now: it ran, did not run, or its outcome is unknown."""

    target: str


class ToolStarted(CallBody, frozen=True, kw_only=True, tag="tool_started"):
    """A call is about to run: durable before the effect, with all a probe after a crash needs.

    `side_effect` is recorded as `class`. `elsewhere` marks a call that a runtime runs, `early` a read of a response
    that still arrives; `look` is the event of the early read that answers this call. `confinement` is the tier of its
    programs, "" for none. `applies` is the `sandbox_ended` whose changes are about to be applied, `images` the blob of
    those changes and of what was there. `snapshot` names the copies of the workspace that were stored before a program
    works in it, as in the tier `limited`. `lends` marks a child task that shares the mandate: until an event says what
    it used, nothing of that is left to its parent. `own` are the fields of what it returns that nobody outside can
    write.
    """

    target: str
    permit: Permit
    side_effect: SideEffect = field(name="class")
    effect: Effect
    before: tuple[BeforeImage, ...]
    elsewhere: bool = False
    early: bool = False
    look: int | None = None
    confinement: Literal["", Tier] = ""
    images: str = ""
    applies: int | None = None
    snapshot: str = ""
    lends: bool = False
    own: OwnFields = ()


class SandboxEnded(CallBody, frozen=True, kw_only=True, tag="sandbox_ended"):
    """How a program ended in its sandbox: nothing of it is in the workspace yet.

    `changes` names the blob of what it changed there (see SandboxedChanges) and `counts` how many paths, by effect;
    `upper` is the folder that holds the new contents. The other fields are those of ToolFinished.
    """

    target: str
    ok: bool
    content: str
    duration: int
    changes: str
    counts: Mapping[str, int]
    upper: str
    evidence: tuple[EvidenceRecord, ...] = ()
    error: str = ""
    dropped: int = 0
    exit_code: int | None = None


class ToolFinished(EndBody, frozen=True, kw_only=True, tag="tool_finished"):
    """How a call that ran ended. `duration` is in milliseconds; `dropped` counts the bytes of the text left out.

    `origin` says whose words the content is. `used` is what a child task spent, by counter. `shared` is what it used of
    the mandate, None where that is unknown or it shares none.
    """

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
    shared: SharedUses | None = None


class RemedyResult(Noun, frozen=True, kw_only=True):
    """What the remedy of a held call showed, where Foregate ran it."""

    tool: str
    arguments: Mapping[str, Json]
    ok: bool
    output: str


class CallAnswered(EndBody, frozen=True, kw_only=True, tag="call_answered"):
    """Why a call did not run, in the words the model got. `change` says whether it would have changed something."""

    ruling: RulingWord
    code: AnswerCode
    message: str
    change: bool
    gate: str = ""
    remedy: Remedy | None = None
    observed: RemedyResult | None = None


class OutcomeUnknown(EndBody, frozen=True, kw_only=True, tag="outcome_unknown"):
    """An effect whose outcome is unknown. `error` names a cause that ends more than the call."""

    reason: str
    error: str = ""


class OutcomeResolved(CallBody, frozen=True, kw_only=True, tag="outcome_resolved"):
    """The outcome of a call that was unknown; `changes` and `evidence` are None where no one checked them."""

    target: str
    outcome: KnownOutcome
    changes: tuple[Change, ...] | None = None
    evidence: tuple[EvidenceRecord, ...] | None = None


class EffectUndone(CallBody, frozen=True, kw_only=True, tag="effect_undone"):
    """A change of a call was undone: the steps in words, and what is there now."""

    resources: tuple[str, ...]
    changes: tuple[Change, ...]
    evidence: tuple[EvidenceRecord, ...]
    steps: tuple[str, ...]


OpeningBody: TypeAlias = SessionStarted | CatalogChanged | PolicyChanged | TaskStarted | UserMessage
ClosingBody: TypeAlias = TaskPaused | TaskEnded | SessionEnded | Checkpoint
AnyCallBody: TypeAlias = (
    ToolStarted | SandboxEnded | ToolFinished | CallAnswered | OutcomeUnknown | OutcomeResolved | EffectUndone
)
