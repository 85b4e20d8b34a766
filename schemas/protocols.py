"""The contract in one place: what a gate, a log, a model, a tool source and a person are to the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from foregate.schemas.codes import GateName
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import Kind
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Consequence, Decision, Grant, Mode, Need, Opinion, Ruling
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json, scrub, scrub_json
from foregate.schemas.tool_call import CallFacts, Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ToolSpec
from foregate.schemas.turn import Turn


class SoFar(Struct):
    """What judging has found before the gate now asked: facts per call, joined rulings, decisions. Once a gate drew
    a `consequence`, no Need is raised any more. `plan` is one accepted while judging this turn, not yet in force, and
    `plan_first` the call it was written for."""

    facts: Mapping[str, CallFacts]
    rulings: dict[str, tuple[str, Ruling]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    consequence: tuple[str, Consequence] | None = None
    plan: PlanInForce | None = None
    plan_first: str = ""
    uses: dict[str, tuple[int, ...]] = field(default_factory=dict)
    grants: list[Grant] = field(default_factory=list)


class Gate(Protocol):
    """Judges a turn. Pure: it reads its arguments and its own policy section, nothing else."""

    @property
    def name(self) -> GateName:
        """The gate's name in policy, codes and log."""

    @property
    def mode(self) -> Mode:
        """Whether its rulings are applied (`enforce`) or only recorded (`shadow`)."""

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar, /) -> Opinion | Need:
        """Rule on each live call, or say what must be known first. Raising holds every live call."""


class Lease(Struct, frozen=True):
    """The right to append to one session; `fence` grows with every new holder.

    `succeeded` names the holder it was taken from, of whose process nothing runs any more; "" where it was given back.
    """

    session: str
    owner: str
    fence: int
    succeeded: str = ""


class Head(Struct, frozen=True):
    """The last event of a session: its number and hash, and whether the session has ended."""

    seq: int
    hash: str
    ended: bool


class Log(Protocol):
    """Append-only events per session, one chain each. Durable once `settle` returns."""

    async def claim(self, session: str, *, create: bool = False) -> Lease:
        """Take the session; raise SessionHeld naming the live holder, LogError when it does not exist."""

    async def append(self, lease: Lease, drafts: Sequence[Draft], *, policy: str, time: str) -> Sequence[Event]:
        """Number, chain and hand over the drafts, all or none, in order; durable no later than the next `settle`.

        Raises SessionHeld when the lease was lost and LogError when an earlier append could not be stored.
        """

    async def settle(self, lease: Lease) -> None:
        """Return when everything appended under the lease is durable; raise LogError when it cannot be."""

    async def read(
        self, session: str, *, after: int = 0, limit: int = 0, kinds: Sequence[Kind] = ()
    ) -> Sequence[Event]:
        """Return events with a number above `after`, of some kinds or of all, in order; `limit` 0 is no limit.

        Unverified.
        """

    async def head(self, session: str) -> Head:
        """Return the last event's number and hash; raise LogError for an unknown session."""

    async def sessions(self) -> Sequence[str]:
        """Return the names of all sessions, newest first; one that was claimed and has no event is none."""

    async def release(self, lease: Lease) -> None:
        """Give the session back; doing it twice is harmless."""


@runtime_checkable
class QuestionStore(Protocol):
    """A log that knows which of its sessions wait for a person, and keeps one answer to each question until it is in
    the session's log. Whoever's answer is kept first has answered, from whichever process."""

    async def list_asked(self) -> Sequence[tuple[str, int]]:
        """Return sessions and the events by which they may wait for a person. None that waits is left out; whether
        one still does, its events tell."""

    async def hand_in(self, session: str, seq: int, reply: str) -> str:
        """Keep an answer to the question of an event durably, unless one is kept already; return the one that is kept.

        Returns "" where the question is not open any more. The event that answers the question takes it away.
        """

    async def read_handed(self, session: str, seq: int) -> str:
        """Return the answer that is kept for the question of an event, "" for none."""

    async def find_holder(self, session: str) -> str:
        """Return which live process holds a session, as a person would look for it, "" for none."""


class Snapshot(Struct, frozen=True):
    """What a session's events fold to, up to the event with this number and hash.

    `version` names the code that folded them, which alone can read `data`.
    """

    seq: int
    hash: str
    version: str
    data: bytes


@runtime_checkable
class SnapshotStore(Protocol):
    """A log that keeps a snapshot of each session beside its events. It may lose them at any time."""

    def keep_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Keep a snapshot in the place of the one before, once what it stands for is durable. Nothing waits for it."""

    def note_unkept(self, lease: Lease, seq: int, why: str) -> None:
        """Note for a person that no snapshot could be made after event `seq`, until one is kept of the session."""

    async def read_snapshot(self, session: str) -> Snapshot | None:
        """Return the snapshot of a session, None where it has none or where its event is another one.

        Raises UnreadableSnapshot for one that is not as it was kept.
        """


class Blobs(Protocol):
    """Content-addressed bytes: before-images, requests to planner and critic, long outputs."""

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its SHA-256."""

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Store contents, durably once all are, and return the SHA-256 of each."""

    def get(self, hash: str) -> bytes:  # noqa: A002
        """Return the bytes; raise LogError when they are missing or do not match their name."""


class Model(Protocol):
    """Answers a request. Raises ModelError when it finally cannot."""

    @property
    def name(self) -> str:
        """The model's name, for the log."""

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; text is handed to `on_text` piece by piece as it arrives."""


@runtime_checkable
class LearningModel(Model, Protocol):
    """A model that keeps how long a conversation may be for its endpoint, and whether it takes tools.

    `room` is in tokens of the messages, as the session counts them; 0 where it is not known.
    """

    @property
    def room(self) -> int:
        """The tokens the messages may take."""

    def learn_room(self, tokens: int) -> None:
        """Keep that the endpoint takes no more than this."""

    @property
    def takes_tools(self) -> bool:
        """Whether no refusal has said that tools are not taken natively."""

    def learn_no_tools(self) -> None:
        """Keep that tools are not taken natively."""


class Reply(Struct, frozen=True):
    """A person's answer to a need: the choice, and words where there are any.

    `calls` answers single calls of an approval by their ids, each with `yes`, `no`, `grant`, `project` or `wider`;
    `choice` is for the rest. `named` holds, by call, the values that the person typed themselves: a call with `to_name`
    runs only where all of those are among them. `declared` says, by name, what an `undeclared` tool does from now on: a
    word (`reads`, `undoable`, `final`, `sends`, `grave`, `each`, or `proposed`). It may be an object with the word as
    `nature` and with `targets`, `amounts` and `texts`; `"all": true` covers all undeclared tools of that MCP server.
    `own` names those `fields` of what a tool returned that others cannot write, also of an `unowned` one.
    `person` is who answers, where the caller knows that and it is not who runs the session.

    >>> Reply("no", calls={"c3.1": "yes"}, named={"c3.1": ("GB29NWBK60161331926819",)}).value["calls"]
    {'c3.1': 'yes'}
    """

    choice: str
    text: str = ""
    by: str = "person"
    calls: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    declared: Mapping[str, Json] = field(default_factory=dict)
    person: Identity | None = None

    @property
    def value(self) -> dict[str, Json]:
        """The answer in its recorded form; `calls`, `named` and `declared` are left out where they are empty."""
        value: dict[str, Json] = {"choice": self.choice, "text": scrub(self.text), "by": scrub(self.by)}
        if self.calls:
            value["calls"] = {scrub(call): scrub(answer) for call, answer in self.calls.items()}
        if self.named:
            value["named"] = {scrub(call): [scrub(text) for text in texts] for call, texts in self.named.items()}
        if self.declared:
            value["declared"] = scrub_json(dict(self.declared))
        return value


class Person(Protocol):
    """Whoever answers for the user."""

    async def answer(self, need: Need) -> Reply | None:
        """Answer the need shown as a sheet; None means not now: the task pauses."""


class FileChange(Struct, frozen=True):
    """What a call would make of the file at `path`: its bytes as they are now (None for nothing) and afterwards.

    `shown_by` names the arguments that whoever sees both has seen.
    """

    path: str
    before: bytes | None
    after: bytes
    shown_by: tuple[str, ...] = ()


class RunContext(Struct, frozen=True):
    """What a call runs under: the survey it was judged on, and whether a person's yes let it through."""

    survey: Survey
    approved: bool = False


class Reconciled(Struct, frozen=True):
    """The outcome found for a call whose outcome was unknown: whether it took effect, and its result."""

    done: bool
    result: ToolResult


class Inverse(Protocol):
    """How what a tool changes outside the workspace is kept and put back; ids are those of its resources."""

    def now(self, id: str) -> bytes | None:  # noqa: A002
        """Return what is there, None for nothing."""

    def put_back(self, id: str, data: bytes | None) -> None:  # noqa: A002
        """Make it what it was, None for nothing."""


class ToolSource(Protocol):
    """Lists tools and runs calls. Never judges; only the executor calls `run`.

    A source of your own derives from BaseToolSource, which has a default for everything but `specs` and `run`.
    """

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools, in the order they are offered; the very same sequence where nothing has changed."""

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the tool's own view of this call's effect (it may only raise it), or None."""

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        """Return what the tool would fill into a call, to be judged with it; raise WorkspaceError if it cannot tell."""

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        """Survey calls whose tools touch things elsewhere, for `survey`; raise RuntimeLost where it cannot."""

    def survey(self, call: ToolCall) -> Survey | None:
        """Return what the last `refresh` found for a call, None where it did not survey the call."""

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        """Return what the call would make of files, none where the tool cannot say; raise what running would raise."""

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Run the call. Return a failure that the model should read; raise RuntimeLost where the tools are gone."""

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return the outcome of an earlier call, by id and digest; None where the source cannot tell, or not now."""

    def inverse(self, tool: str) -> Inverse | None:
        """Return how what a tool changes outside the workspace is undone, None where it cannot be."""

    def for_session(self, session: str) -> ToolSource:
        """Return the source as it serves the session of this name; most serve all alike."""


class Erasure(Struct, frozen=True):
    """When, by whom and why events were erased."""

    at: str
    by: str
    why: str


class Readable(Protocol):
    """A log as audit reads it, in the calling thread and without a lease. All raise LogError for an unknown session."""

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield (number, canonical text, hash) of each durable event as it was written, "" for an erased text."""

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield durable events after a number, up to another unless that is 0, of some kinds or of all, in order.

        Unverified, and without those that were erased.
        """

    def list_erased(self, session: str) -> Mapping[int, Erasure]:
        """Return which events were erased, by their numbers."""

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event as the log noted it apart from the events."""
