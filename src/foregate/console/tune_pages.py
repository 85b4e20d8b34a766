"""The pages of tuning: the keys that have a dial, the dial of one, and the change it comes to as a file."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from foregate.assembly.choices import find_policy_file
from foregate.console.console import Console
from foregate.console.dial import HEIGHT, WIDTH, Dial, build_dial, find_point
from foregate.console.form import Query
from foregate.console.review_pages import KEYS
from foregate.gates.replay.assumption import find_domain
from foregate.gates.replay.sweep_turn import find_numeric_key
from foregate.policy.source.comments import explain_key
from foregate.policy.source.edit import TextChange, format_suggestion
from foregate.policy.source.load import LoadedPolicy, load_policy_layers
from foregate.policy.source.strict_yaml import Path, format_path
from foregate.policy.source.values import list_values
from foregate.schemas.errors import UsageError

TUNING, PATCH = "/policy/tune", "/policy/tune/change.yaml"


class TunableKey(Struct, frozen=True):
    """A key that has a dial: its value in force, where that comes from, and what it does."""

    name: str
    value: int
    origin: str
    does: str


async def show_tuning(console: Console, request: Request) -> Response:
    """Show the dial of a key, or without one all keys that have a dial."""
    query = Query(request.query_params)
    loaded = await asyncio.to_thread(load_policy_layers, find_policy_file(None, console.environ), console.workspace)
    if not query.get("key"):
        return console.render("tuning.html.j2", "policy", keys=list_keys(loaded), tuning=TUNING)
    path, now = find_numeric_key(query.get("key"), loaded.policy)
    about: dict[str, Any] = {"key": format_path(path), "does": explain_key(path), "tuning": TUNING}
    about["origin"] = loaded.provenance.get(format_path(path), "default")
    dial = await find_dial(console, path, now, query.read_number("value"), query.read_number("from") or 0)
    if dial is None:
        worker, again = console.tuning, query.build_address(TUNING)
        return console.render("tuning_wait.html.j2", "policy", again=again, done=worker.done, all=worker.all, **about)
    given = Query({"key": dial.key, "value": str(dial.value)})
    about |= {"dial": dial, "query": given, "labels": KEYS, "time": int(time.time()), "size": (WIDTH, HEIGHT)}
    return console.render("dial.html.j2", "policy", patch=given.build_address(PATCH), **about)


async def find_dial(console: Console, path: Path, now: int, value: int | None, start: int = 0) -> Dial | None:
    """Return the dial of a key, with the calls that turn from a place on; None while what it needs is worked out."""
    reviews, reviewer = await console.kept.read(), console.me.user
    key = format_path(path)
    wanted = (console.log, reviews, reviewer, path, now, value, start)
    return await console.tuning.ask(key, f"{key} {value} {start}", lambda view: build_dial(view, *wanted))


async def send_patch(console: Console, request: Request) -> Response:
    """Send a change of one key as a part of a policy, with what it comes to in the comment above it."""
    query = Query(request.query_params)
    loaded = await asyncio.to_thread(load_policy_layers, find_policy_file(None, console.environ), console.workspace)
    path, now = find_numeric_key(query.get("key"), loaded.policy)
    value = query.read_number("value")
    low, high = find_domain(path)
    if value is None or not low <= value <= high:
        raise UsageError(f"say which value `{format_path(path)}` is to have, from {low} to {high}")
    dial = await find_dial(console, path, now, value)
    if dial is None:
        raise UsageError("what this comes to is still being worked out; try again in a minute")
    text = format_suggestion([describe_dial(dial)], [TextChange(path, value)])
    about = {"Content-Disposition": f'attachment; filename="{dial.key}-{value}.yaml"'}
    return Response(text, media_type="application/yaml", headers=about)


def list_keys(loaded: LoadedPolicy) -> list[TunableKey]:
    """Return the keys that can be swept, with their values in force."""
    found = []
    for path in list_values(loaded.policy):
        key = format_path(path)
        try:
            _, value = find_numeric_key(key, loaded.policy)
        except UsageError:
            continue
        found.append(TunableKey(key, value, loaded.provenance.get(key, "default"), explain_key(path)))
    return found


def describe_dial(dial: Dial) -> str:
    """Return in a sentence what a value comes to."""
    if not dial.found.points:
        return f"`{dial.key}` from {dial.now} to {dial.value}; no turn with a call is recorded."
    before, there = (find_point(dial.found.points, value) for value in (dial.now, dial.value))
    counts = (("calls held or denied", "held"), ("prompts", "prompts"), ("requests for advice", "requests"))
    changes = ", ".join(f"{getattr(before, name)} -> {getattr(there, name)} {words}" for words, name in counts)
    rests = f"{dial.found.turns} recorded turns, each judged by itself with the answers of then"
    agreed = f", {before.agreed} -> {there.agreed} of {dial.found.labels} labels met" if dial.found.labels else ""
    return f"`{dial.key}` from {dial.now} to {dial.value}. Over {rests}: {changes}{agreed}."
