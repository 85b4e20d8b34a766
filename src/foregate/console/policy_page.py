"""The page of the policy: every value in force, what it is by default, and where it comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from foregate.assembly.choices import find_policy_file
from foregate.assembly.home import find_session
from foregate.console.console import Console
from foregate.console.form import Query
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy, describe_origin, load_policy_layers, restore_policy
from foregate.policy.source.strict_yaml import Data, format_path
from foregate.policy.source.values import format_value, list_effective_values, list_values
from foregate.schemas.errors import LogError
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted
from foregate.schemas.strict_json import Json


class PolicyValue(Struct, frozen=True):
    """A value in force; `default` is what it is by default, "" where it is that, and `origin` where it comes from."""

    key: str
    value: str
    origin: str
    default: str
    is_own: bool


class PolicyGroup(Struct, frozen=True):
    """The values of one section; `own` counts those that are not the default's."""

    name: str
    values: tuple[PolicyValue, ...]
    own: int
    is_open: bool


class PolicyPage(Struct, frozen=True):
    """The policy in force: of a session as recorded, or of a session that would begin now.

    `layers` are the files it is made of, or how often the session changed it; `remarks` are for a person.
    """

    hash: str
    session: str
    layers: tuple[str, ...]
    values: tuple[PolicyValue, ...]
    remarks: tuple[str, ...]


async def show_policy(console: Console, request: Request) -> Response:
    """Show the policy of a session, or without one that of the next session begun in the console's folder."""
    query = Query(request.query_params)
    name = query.get("session")
    if name:
        name = await find_session(console.log, name)
        page = await asyncio.to_thread(build_recorded, name, console.log.events(name, kinds=_KINDS))
    else:
        page = await asyncio.to_thread(build_current, console)
    values = [value for value in page.values if is_wanted(value, query)]
    about: dict[str, Any] = {"groups": group_values(values, query), "shown": len(values), "total": len(page.values)}
    return console.render("policy.html.j2", "policy", page=page, query=query, **about)


def is_wanted(value: PolicyValue, query: Query) -> bool:
    """Whether a value is asked for: by words in its key, value or origin, and only what is not the default's."""
    texts = f"{value.key} {value.value} {value.origin}".casefold()
    return query.get("text").casefold() in texts and (value.is_own or not query.get("own"))


def group_values(values: Iterable[PolicyValue], query: Query) -> list[PolicyGroup]:
    """Return values by their sections; those are open in which something differs, or something was asked for."""
    found: dict[str, list[PolicyValue]] = {}
    for value in values:
        found.setdefault(value.key.partition(".")[0], []).append(value)
    asked = bool(query.get("text") or query.get("own"))
    groups = []
    for name, inside in found.items():
        own = sum(value.is_own for value in inside)
        groups.append(PolicyGroup(name, tuple(inside), own, asked or own > 0))
    return groups


_KINDS: tuple[Kind, ...] = ("session_started", "policy_changed")


def build_current(console: Console) -> PolicyPage:
    """Return the policy that the person's file, and the workspace file of the console's folder, put in force."""
    loaded = load_policy_layers(find_policy_file(None, console.environ), console.workspace)
    default = _write_values(default_policy())
    values = []
    for key, value in list_effective_values(loaded).items():
        if (origin := loaded.provenance.get(key)) is not None:
            values.append(_build_value(key, value, origin, origin != "default", default))
    remarks = tuple(f"kept, since it is tighter: {key}" for key in loaded.ignored)
    return PolicyPage(loaded.policy.hash, "", loaded.sources, tuple(values), remarks)


def build_recorded(session: str, events: Iterable[Event]) -> PolicyPage:
    """Return the policy that a session recorded last; raise LogError where it recorded none that can be read."""
    recorded: Mapping[str, Json] | None = None
    layers: Mapping[str, Json] | None = None
    changes = []
    for event in events:
        match event.body:
            case SessionStarted(policy=policy, layers=laid):
                recorded, layers = policy, laid
            case PolicyChanged(policy=policy, layers=laid) if policy is not None:
                recorded, layers = policy, laid if laid is not None else layers
                changes.append(f"changed by event {event.seq}")
            case _:
                pass
    try:
        found = restore_policy(recorded)
    except ValueError:
        why = f"the policy of session `{session}` cannot be read"
        raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None
    return PolicyPage(found.hash, session, ("as recorded", *changes), tuple(_list_recorded(found, layers)), ())


def _list_recorded(policy: Policy, layers: Mapping[str, Json] | None) -> Iterator[PolicyValue]:
    default = _write_values(default_policy())
    for path, value in list_values(policy).items():
        key = format_path(path)
        same = default.get(key) == format_value(value)
        yield _build_value(key, value, describe_origin(key, layers, same), not same, default)


def _write_values(policy: Policy) -> dict[str, str]:
    return {format_path(path): format_value(value) for path, value in list_values(policy).items()}


def _build_value(key: str, value: Data, origin: str, is_own: bool, default: Mapping[str, str]) -> PolicyValue:
    shown = format_value(value)
    before = default.get(key, "") if is_own and default.get(key) != shown else ""
    return PolicyValue(key, shown, origin, before, is_own)
