"""What is known of a tool before it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from foregate.schemas import strict_json
from foregate.schemas.capabilities import Capabilities
from foregate.schemas.effect import Effect
from foregate.schemas.resource import ResourceKind
from foregate.schemas.strict_json import Json


class TargetParameter(Struct, frozen=True, forbid_unknown_fields=True):
    """A parameter that names a resource, and what the call would do to it.

    `access` is an effect; `create` turns into `edit` where the thing exists already. A list of strings names
    several resources. `default` is the id used when the parameter is missing ("" = no resource then).
    """

    parameter: str
    kind: ResourceKind
    access: Effect
    default: str = ""


class ToolSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Name, description, JSON Schema of the arguments, and what the tool declares of itself.

    `provenance` is `builtin`, `python`, `mcp:<server>` or `remote`; declarations of the first two count as the
    operator's own, all others can only raise a risk. `capabilities` None means undeclared: the worst.
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

    @property
    def is_own(self) -> bool:
        """Whether the operator's own program declares this tool, so that its declaration is believed."""
        return self.provenance in ("builtin", "python")

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


def hash_catalogue(catalogue: Iterable[ToolSpec]) -> str:
    """Return the SHA-256 over the recorded form of a catalogue."""
    return strict_json.digest([strict_json.dump(spec) for spec in catalogue])
