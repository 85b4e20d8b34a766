"""Events of a whole session: how it starts and ends, what holds in it, what the model is not sent any more."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.schemas.event_body import EventBody
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import ToolSpec


class SessionStarted(EventBody, frozen=True, kw_only=True, tag="session_started"):
    """The first event: everything needed to judge the session again elsewhere.

    `policy` holds every value in force, `layers` where each comes from. `dialect` is "" for the native one. `runtime`
    names where the tools run, `agent` whom a served session serves, `parent` and `parent_event` the session and event
    a child was started at.
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


class CatalogChanged(EventBody, frozen=True, kw_only=True, tag="catalog_changed"):
    """The tools that are there from now on."""

    catalogue: tuple[ToolSpec, ...]
    catalogue_hash: str


class PolicyChanged(EventBody, frozen=True, kw_only=True, tag="policy_changed"):
    """What holds from now on; None where it stays as it was.

    `before` is the hash of the policy until then, in the event that carries another policy.
    """

    policy: Mapping[str, Json] | None = None
    layers: Mapping[str, Json] | None = None
    before: str | None = None
    auto: bool | None = None
    dry_run: bool | None = None
    mode: str | None = None
    dialect: str | None = None


class SessionEnded(EventBody, frozen=True, kw_only=True, tag="session_ended"):
    """The last event of a finished session; `events` counts all of them, this one included."""

    events: int


class ContextCompressed(EventBody, frozen=True, kw_only=True, tag="context_compressed"):
    """The part of the conversation that the model is no longer sent.

    `left_out` holds ranges of places (first, and first after), `shortened` places and the characters that stay of
    them. `before` and `after` are tokens as `counted_by` counts them. `open` and `summary` stand in the place of what
    is left out.
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


class Checkpoint(EventBody, frozen=True, kw_only=True, tag="checkpoint"):
    """An undo of the call `undo` that is about to begin, with its `steps`.

    Where an undo broke off: the steps left, those `restored` before, and `why`.
    """

    undo: str
    steps: tuple[str, ...]
    restored: tuple[str, ...] | None = None
    why: str | None = None
