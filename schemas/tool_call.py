"""One call of a tool: as the model asked for it, what looking found, what is computed of it, and its result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from msgspec import Struct, field

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.noun import Noun
from foregate.schemas.noun_bytes import encode_noun
from foregate.schemas.permission import Permission
from foregate.schemas.plan import SharedUses
from foregate.schemas.sandbox import Access, SandboxedChanges
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Capabilities, Effect, Resource, ResourceKind, ToolSpec
from foregate.schemas.value import ArgumentValue


class SentCall(Noun, frozen=True):
    """What the model sent where that was taken for something else: another agent's name of a tool, or of a parameter.

    `arguments` are as sent.
    """

    name: str
    arguments: str


class ToolCall(Struct, frozen=True, gc=False):
    """A call under the session's own id; `wire_id` is what the endpoint named it, which endpoints reuse.

    `raw` is the arguments' JSON; `arguments` what strict parsing made of it, or None with `defect`, a sentence for the
    model. `digest` is the SHA-256 over the canonical JSON of name and arguments (of the raw text when unparsable).
    `sent` is what the model sent where it sent something else.
    """

    id: str
    wire_id: str
    name: str
    raw: str
    arguments: Mapping[str, Json] | None
    defect: str
    digest: str
    sent: SentCall | None = None

    @classmethod
    def parse(cls, name: str, raw: str, *, id: str = "", wire_id: str = "") -> ToolCall:  # noqa: A002
        """Read the arguments strictly; what cannot be read is kept as a defect, never raised."""
        if not (name.isascii() and raw.isascii()):
            name, raw = strict_json.scrub(name), strict_json.scrub(raw)
        read = _read_again if len(raw) <= _SHORT else _read_arguments
        arguments, defect, digest = read(name, raw)
        return cls(id, wire_id or id, name, raw, arguments, defect, digest)

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Json], *, id: str = "") -> ToolCall:  # noqa: A002
        """Return the call a program makes, for remedies, checks and tests."""
        return cls.parse(name, strict_json.canonical(arguments).decode(), id=id)

    @classmethod
    def from_defect(cls, name: str, raw: str, defect: str, *, id: str = "", wire_id: str = "") -> ToolCall:  # noqa: A002
        """Return a call that was begun and cannot be read; `defect` tells the model what is wrong and what to do."""
        name, raw = strict_json.scrub(name), strict_json.scrub(raw)
        digest = strict_json.digest({"name": name, "raw": raw})
        return cls(id, wire_id or id, name, raw, None, strict_json.scrub(defect), digest)


def _read_arguments(name: str, raw: str) -> tuple[Mapping[str, Json] | None, str, str]:
    """Return the strictly parsed arguments or the defect, and the digest."""
    try:
        value = strict_json.parse(raw)
        defect = "the arguments are not a JSON object; send an object"
    except InvalidJson as error:
        value, defect = None, str(error)
    if isinstance(value, dict):
        return value, "", strict_json.digest({"name": name, "arguments": value})
    return None, defect, strict_json.digest({"name": name, "raw": raw})


_SHORT = 8192
_read_again = lru_cache(maxsize=64)(_read_arguments)
"""A call is read several times on its way from the model to its answer; the last few short ones are remembered."""


class EvidenceKind(StrEnum):
    """How something was learnt."""

    FILE_READ = "file_read"
    COMMAND_OUTPUT = "command_output"
    GIT_STATE = "git_state"
    PROCESS_STATE = "process_state"
    API_RESPONSE = "api_response"
    VERIFICATION_RESULT = "verification_result"


class Trust(StrEnum):
    """`direct`: the content itself, whole; `inferred`: only that the thing is there, or a part of it."""

    DIRECT = "direct"
    INFERRED = "inferred"


class Origin(StrEnum):
    """Who said something first, from most to least trusted."""

    USER = "user"
    WORKSPACE = "workspace"
    EXTERNAL = "external"
    NOBODY = "nobody"


class EvidenceRecord(Noun, frozen=True):
    """What a finished call observed of one resource. `hash` is the SHA-256 of its content, "" when unknown."""

    kind: EvidenceKind
    resource: Resource
    hash: str = ""
    trust: Trust = Trust.DIRECT
    origin: Origin = Origin.WORKSPACE
    own_change: bool = False


class EvidenceSeen(Noun, frozen=True):
    """The newest record of one kind on one resource, with the number and the UTC time of the event that carried it."""

    kind: EvidenceKind
    seq: int
    hash: str = ""
    trust: Trust = Trust.DIRECT
    origin: Origin = Origin.WORKSPACE
    own_change: bool = False
    at: str = ""


class Contradiction(Noun, frozen=True):
    """Two looks at one resource, by event number, that disagree without a change of the session's between them."""

    resource: Resource
    earlier: int
    later: int


_CREATE = Effect.CREATE
Loss = Literal["", "moved", "git", "replaced", "all"]


class SurveyedResource(Noun, frozen=True):
    """The present state of a resource of a call.

    `access` is what the call would do to it. `hash` is the SHA-256 of its content, for a directory that of its listing.
    `size` is in bytes, `links` counts hard links, and `entries` what lies beneath a directory, up to the policy's
    bound. `protected` says why it may not be touched ("outside_workspace", "git_internal", "foregate", "secret",
    "runs_by_itself"), "" when it may. `changed_before` says that this task changed it already, `restorable` that it can
    have a before-image. `loses` says what a sandbox's change would take away: nothing (""), what lies elsewhere now,
    what git has too, what another file replaces, or everything.
    """

    kind: ResourceKind
    id: str
    access: Effect
    exists: bool = False
    hash: str = ""
    size: int = 0
    links: int = 1
    entries: int = 0
    protected: str = ""
    changed_before: bool = False
    restorable: bool = True
    evidence: tuple[EvidenceSeen, ...] = ()
    loses: Loss = ""

    @property
    def resource(self) -> Resource:
        """The bare kind and id."""
        return Resource(self.kind, self.id)

    @property
    def effect(self) -> Effect:
        """What happens to it: creating a file that is there already is editing it."""
        replaces = self.access is _CREATE and self.exists and self.kind is ResourceKind.FILE
        return Effect.EDIT if replaces else self.access


class Atom(Noun, frozen=True):
    """A word of the arguments that names something, who said it first, and at which event.

    `told` is set while only what stands in files names it: no person, no listing, no search and no command's output.
    """

    text: str
    origin: Origin
    seq: int = 0
    told: bool = False


class Command(Noun, frozen=True):
    """The parsed shape of a command: its argument vector, or the reason it has none, and the folder it runs in.

    `folder` is "" for the workspace's root. `there` are existing paths that its words name, so that nobody says yes
    unaware of what it would replace. `access` is what the call requests outside its sandbox. `scripts` is a hash over
    the workspace files it runs by name, as in `sh build.sh`, "" for none: they may change while the words stay the
    same.
    """

    argv: tuple[str, ...] = ()
    shell: str = ""
    problem: str = ""
    folder: str = ""
    there: tuple[str, ...] = ()
    access: tuple[Access, ...] = ()
    scripts: str = ""


Tier = Literal["full", "limited", "none"]
"""What a machine can hold commands with: sandboxes of its own namespaces, Landlock, or nothing."""


class Survey(Noun, frozen=True):
    """What surveying one call found. `problem` says why it failed; such a call is held.

    `confinement` is the tier of the call's programs where they only read, `work` where they change something; "" for a
    call without programs. `unheld` says why nothing holds them here though the machine could. `changes` names the blob
    of what a program changed in its sandbox, "" before it ran. `values` are the values that bind, with their sources;
    None where nobody looked for them. `leaves` is the address to which a call that only looks sends its arguments, ""
    for none. `untried` says that nobody declared its tool, and that it has not run in this session.
    """

    call: str
    declared_effect: Effect | None = None
    resources: tuple[SurveyedResource, ...] = ()
    command: Command | None = None
    atoms: tuple[Atom, ...] = ()
    secrets: tuple[str, ...] = ()
    problem: str = ""
    confinement: Literal["", Tier] = ""
    work: Literal["", Tier] = ""
    unheld: str = ""
    changes: str = ""
    values: tuple[ArgumentValue, ...] | None = None
    leaves: str = ""
    untried: bool = False

    @property
    def target(self) -> str:
        """The first own resource, for display; of what a program has changed in its sandbox the command that did."""
        if self.changes and (command := self.command) is not None:
            return command.shell or shlex.join(command.argv)
        return self.resources[0].id if self.resources else ""


def hash_surveys(surveys: tuple[Survey, ...]) -> str:
    """Return the SHA-256 over the recorded form of the surveys of one response: what answers are bound to."""
    return strict_json.sha256(b"[%s]" % b",".join(map(encode_noun, surveys)))


def fingerprint(survey: Survey) -> str:
    """Return what is known of a call's own resources as one hash: it changes when they do, or when more is known."""
    known: list[Json] = []
    for one in survey.resources:
        seen = [[record.kind, record.hash, record.trust] for record in one.evidence]
        known.append([one.kind, one.id, one.exists, one.hash, sorted(seen)])
    for value in survey.values or ():
        known.append([value.path, value.key, value.source])
    return strict_json.sha256(strict_json.encode_record(known))


class Reason(Struct, frozen=True, gc=False):
    """One contribution to a score: its name in the policy, its weight in thousandths, and why it applies."""

    name: str
    weight: int
    why: str


class Score(Struct, frozen=True, gc=False):
    """A score in thousandths, 0 to 1000, with everything that contributed."""

    value: int
    reasons: tuple[Reason, ...] = ()
    slots: tuple[str, ...] = ()


Authority = Literal["", "said", "open", "outside"]
"""Whose authority a call that needs it has: the person's own words (`said`), nobody's yet (`open`), or for a value only
text from outside (`outside`); "" for a call that wants nobody."""


class CallFacts(Struct, frozen=True):
    """Effect, capabilities in force, reversibility and scores of one call.

    `changes` says whether it has a side effect. `risky` is: side-effecting and (external, irreversible, high impact or
    broader than the policy's scope). `contained` is: its program works in a sandbox, so that nothing gets out before it
    was judged; and what got out. `spec` is None for an unknown tool. `unspoken` is what would be lost, or a secret that
    would leave, and that no word of the person's is about. `permission` is one that covers the call, None for none.
    `standing_rule` is the id of the operator's rule that stands for a yes to it, "" for none.
    """

    call: ToolCall
    survey: Survey
    spec: ToolSpec | None
    effect: Effect
    changes: bool
    capabilities: Capabilities
    external: bool
    irreversible: bool
    high_impact: bool
    broad: bool
    risky: bool
    risk: Score
    uncertainty: Score
    contained: bool = False
    authority: Authority = ""
    unspoken: tuple[ArgumentValue, ...] = ()
    permission: Permission | None = None
    standing_rule: str = ""

    @property
    def has_leave(self) -> bool:
        """Whether a permission or a rule of the operator's stands behind the call, whoever asked for it."""
        return self.permission is not None or bool(self.standing_rule)

    @property
    def resources(self) -> tuple[SurveyedResource, ...]:
        """The call's own resources as surveyed."""
        return self.survey.resources

    @property
    def changed_resources(self) -> list[SurveyedResource]:
        """The resources the call would change."""
        return [resource for resource in self.survey.resources if resource.access.changes]

    @property
    def targets(self) -> Sequence[SurveyedResource]:
        """The resources the call would change, all of its own where it would change none."""
        return self.changed_resources or self.survey.resources

    @property
    def target(self) -> str:
        """The first own resource, for display; of what a program has changed in its sandbox the command that did."""
        return self.survey.target

    @property
    def dangerous(self) -> bool:
        """Whether the policy's answer for dangerous calls is meant where advice cannot be had."""
        return self.external or self.irreversible or self.high_impact


class Change(Noun, frozen=True):
    """A resource a call changed: content hashes before and after, "" where nothing was or is there.

    `before` names the before-image in the blob store when it equals a stored content.
    """

    resource: Resource
    before: str = ""
    after: str = ""
    mode: int = 0


class ToolResult(Struct, frozen=True):
    """Text for the model, what was observed and what changed.

    `ok` False means the tool says it failed, `unknown` that it cannot say whether it took effect. `origin` says whose
    words the content is, `dropped` counts bytes left out. `used` counts what a child task spent. `sandboxed` is what a
    program changed in its sandbox, still to be judged; `shared` what a child task used of the mandate.
    """

    ok: bool
    content: str
    evidence: tuple[EvidenceRecord, ...] = ()
    changes: tuple[Change, ...] = ()
    origin: Origin = Origin.WORKSPACE
    error: str = ""
    unknown: bool = False
    dropped: int = 0
    exit_code: int | None = None
    used: Mapping[str, int] = field(default_factory=dict)
    sandboxed: SandboxedChanges = SandboxedChanges()
    shared: SharedUses | None = None


class Permit(Noun, frozen=True):
    """Permission to run one call once: its digest, the event that allowed it, and the survey it was allowed on."""

    call: str
    digest: str
    judged: int
    survey_hash: str
