"""What is known of a tool before it is called: what it can do, to which things, with which effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Literal

from msgspec import field

from foregate.schemas import strict_json
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json


class ResourceKind(StrEnum):
    """The kinds of things; `process` is a command's argument vector."""

    FILE = "file"
    DIRECTORY = "directory"
    REPOSITORY = "repository"
    URL = "url"
    HOST = "host"
    PROCESS = "process"
    MESSAGE = "message"
    OTHER = "other"


class Resource(Noun, frozen=True, order=True):
    """A kind and a canonical id: a path relative to the workspace, a URL, an argument vector as shell words."""

    kind: ResourceKind
    id: str

    def __str__(self) -> str:
        return self.id


class Effect(StrEnum):
    """The effect of one concrete call. Definition order is strength: the later, the more dangerous."""

    OBSERVATION = "observation"
    CREATE = "create"
    EDIT = "edit"
    MOVE = "move"
    DELETE = "delete"
    COMMIT = "commit"
    SEND = "send"
    EXECUTE = "execute"
    ADMINISTER = "administer"
    UNKNOWN = "unknown"

    def __init__(self, word: str) -> None:
        self.changes = word != "observation"
        """Whether the effect is anything but an observation."""

    def covers(self, other: Effect) -> bool:
        """Whether leave for this effect is leave for `other`: delete covers edit, edit covers create.

        Nothing covers `unknown`, not even itself: only the exact digest of a call does.
        """
        if other is Effect.UNKNOWN or self is Effect.UNKNOWN:
            return False
        return self is other or other in _COVERED.get(self, ())


def worse_of(first: Effect, second: Effect) -> Effect:
    """Return the more dangerous of two effects."""
    return first if _STRENGTH[first] >= _STRENGTH[second] else second


_STRENGTH = {effect: rank for rank, effect in enumerate(Effect)}
_COVERED = {Effect.EDIT: (Effect.CREATE,), Effect.DELETE: (Effect.EDIT, Effect.CREATE)}


class Capabilities(Noun, frozen=True):
    """Seven flags. The default is the worst: mutating, external, irreversible, at most once, needs approval."""

    read_only: bool = False
    external_side_effect: bool = True
    needs_approval: bool = True
    idempotent: bool = False
    high_impact_write: bool = False
    reversible: bool = False
    personal_memory: bool = False

    def raise_by(self, other: Capabilities) -> Capabilities:
        """Return the riskier of both, flag by flag: a second opinion may raise a risk, never lower it."""
        tame = ("read_only", "idempotent", "reversible", "personal_memory")
        pairs = {flag: (getattr(self, flag), getattr(other, flag)) for flag in self.__struct_fields__}
        return Capabilities(**{flag: all(pair) if flag in tame else any(pair) for flag, pair in pairs.items()})


UNDECLARED = Capabilities()
OBSERVER = Capabilities(
    read_only=True, external_side_effect=False, needs_approval=False, idempotent=True, reversible=True
)


class TargetParameter(Noun, frozen=True):
    """A parameter that names a resource, and what the call would do to it.

    `access` is an effect; `create` turns into `edit` where the thing exists already. A list of strings names
    several resources. `default` is the id used when the parameter is missing ("" = no resource then).
    """

    parameter: str
    kind: ResourceKind
    access: Effect
    default: str = ""


Nature = Literal["reads", "undoable", "final", "sends", "grave", "each", "void", "unsaid"]
"""What a person says a tool does, from least to worst; `each`, `void` and `unsaid` say nothing of it.

- `reads`: it only reads; `undoable`: it changes what can be taken back; `final`: what cannot be taken back;
- `sends`: it sends, or reaches outside; `grave`: it pays, or has other high impact;
- `each`: the person wants to be asked each time; `void`: they said something, and the definition has changed since;
- `unsaid`: they said only which fields of its results are own.
"""


OwnFields = tuple[str, ...] | Literal["all"]
"""Which fields of a tool's records its own system assigns, so that nobody outside can write there: some by their names,
or all."""


class Declaration(Noun, frozen=True):
    """What a person said of a tool that says nothing reliable of itself, by the parameters of the call they saw.

    `values` are the parameters that bind beside the others, `own` the fields of its results that its system assigns.
    `hash` is that of the definition it holds for, `at` when it was given (UTC text), `by` the user, "" for nobody.
    """

    nature: Nature
    hash: str
    targets: tuple[TargetParameter, ...] = ()
    amounts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    at: str = ""
    by: str = ""
    own: OwnFields = ()


class ToolSpec(Noun, frozen=True):
    """Name, description, JSON Schema of the arguments, and what the tool declares of itself.

    `provenance` is `builtin`, `python`, `mcp:<server>` or `remote`. Declarations of the first two count as the
    operator's own; others can only raise a risk. `capabilities` None means undeclared: the worst. `amounts` names the
    parameters that say how much, `texts` those that are free text; all others bind. `own` names the fields of its
    records that its own system assigns, such as an id; `destination` tells that what it sends stays with the operator,
    as a ticket to their own staff does. `definition` is the hash of all an MCP server says of the tool; `declared` is
    what the person said of it.
    """

    name: str
    description: str
    parameters: Mapping[str, Json]
    effect: Effect = Effect.UNKNOWN
    capabilities: Capabilities | None = None
    targets: tuple[TargetParameter, ...] = ()
    provenance: str = "python"
    timeout: int = 120
    hints: Mapping[str, bool] = field(default_factory=dict)
    amounts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    own: OwnFields = ()
    destination: Literal["", "own"] = ""
    definition: str = ""
    declared: Declaration | None = None

    @property
    def is_own(self) -> bool:
        """Whether the operator's own program declares this tool, so that its declaration is believed."""
        return self.provenance in ("builtin", "python")

    @property
    def may_need_somebody(self) -> bool:
        """Whether somebody may have to stand behind a call; of built-in tools only behind one that takes an address."""
        reached = {ResourceKind.URL, ResourceKind.HOST}
        return self.provenance != "builtin" or not reached.isdisjoint([target.kind for target in self.targets])

    @property
    def may_be_declared(self) -> bool:
        """Whether a person may say at a sheet what the tool does: not of a runtime's tool, which nothing tells from
        that of another runtime."""
        return self.provenance not in ("builtin", "remote")

    @property
    def is_elsewhere(self) -> bool:
        """Whether what the tool touches lies where it runs and not in the session's workspace."""
        return self.provenance == "remote"


Catalogue = Mapping[str, ToolSpec]
"""The tools of a session, by name, in the order they are offered."""


def build_catalogue(specs: tuple[ToolSpec, ...] | list[ToolSpec]) -> dict[str, ToolSpec]:
    """Return the catalogue; raise ValueError where two tools share a name."""
    catalogue: dict[str, ToolSpec] = {}
    for spec in specs:
        if spec.name in catalogue:
            raise ValueError(f"two tools are named `{spec.name}`; rename one")
        catalogue[spec.name] = spec
    return catalogue


def hash_definition(spec: ToolSpec) -> str:
    """Return the SHA-256 over what a tool is and says of itself, without what the person said of it."""
    return strict_json.digest(strict_json.dump(spec, exclude=frozenset({"declared", "timeout"})))


def hash_catalogue(catalogue: Iterable[ToolSpec]) -> str:
    """Return the SHA-256 over the recorded form of a catalogue."""
    return strict_json.digest([strict_json.dump(spec) for spec in catalogue])
