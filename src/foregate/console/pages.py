"""The pages of the console: what each reads from the address, and which template shows it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from foregate.assembly.choices import find_hidden, find_policy_file
from foregate.assembly.home import find_session
from foregate.console.console import LINKS, Console
from foregate.console.form import Query, read_form
from foregate.console.lists import show_decisions, show_sessions
from foregate.console.review_pages import (
    ITEMS,
    KEYS,
    draw_queue,
    show_item,
    show_review,
    take_label,
    take_sign_off,
    take_single_label,
)
from foregate.console.statistics_page import show_statistics
from foregate.console.tune_pages import PATCH, TUNING, send_patch, show_tuning
from foregate.console.waiting import answer_question, list_waiting, show_question
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy, describe_origin, load_policy_layers, restore_policy
from foregate.policy.source.strict_yaml import Data, format_path
from foregate.policy.source.values import format_value, list_effective_values, list_values
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted
from foregate.schemas.strict_json import Json
from foregate.telemetry.queries.review_log import format_head
from foregate.telemetry.queries.rulings import find_ruling
from foregate.tuning.snapshot_check import prove_all
from foregate.views.pages.decision_page import build_decision_page
from foregate.views.pages.export import describe_proof, export_page
from foregate.views.pages.session_page import build_session_page
from foregate.views.pages.views import ProofView, SessionPage

_DECISION = "/decisions/"
_UNCHECKED = "not verified on this page"


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


async def show_session(console: Console, request: Request) -> Response:
    """Show a session, or one of its decisions; a beginning of its name leads to it."""
    named = request.path_params["session"]
    session, is_decision, decision = named.rpartition(_DECISION) if _DECISION in named else (named, "", "")
    name = await find_session(console.log, session)
    if name != session:
        return RedirectResponse(LINKS.session(name), 303)
    if is_decision:
        return await show_decision(console, request, name, decision)
    query = Query(request.query_params)
    number = query.read_number("page") or 1
    seq, _ = await asyncio.to_thread(console.log.head_anchor, name)
    proof = describe_proof(await prove_all(console.log, name, console.blobs)) if query.get("verify") else None
    page = await asyncio.to_thread(build_page, console, name, number, proof)
    follow = f"/events?{Query({'session': name, 'after': str(seq)}).build_address('')[1:]}"
    signed = (await console.kept.read()).sign_offs.get(name)
    is_void = signed is not None and signed.is_void(format_head(console.log, name))
    about: dict[str, Any] = {"more": Query({"session": name}), "signed": signed, "is_void": is_void}
    return console.render("session.html.j2", "sessions", follow=follow, page=page, **about)


def build_page(console: Console, name: str, number: int, proof: ProofView | None) -> SessionPage:
    """Return a page of a session; `proof` is what was found of it, None where nobody looked."""
    log = console.log
    proof = proof or ProofView("unchecked", _UNCHECKED, *log.head_anchor(name), "quiet")
    return build_session_page(log, name, blobs=console.blobs, page=number, proof=proof)


async def show_decision(console: Console, request: Request, session: str, decision: str) -> Response:
    """Show one decision of a session."""
    call = Query(request.query_params).get("call")
    page = await asyncio.to_thread(build_decision_page, console.log, session, decision, call, blobs=console.blobs)
    try:
        ruled = find_ruling(console.log, session, page.seq, page.gate, page.call)
    except UsageError:
        # An answer in words, which no label is about.
        return console.render("decision.html.j2", "sessions", page=page, ruled=None)
    reviews, me = await console.kept.read(), console.me.user
    place = Query({"session": session, "seq": str(page.seq), "gate": page.gate, "call": ruled.call})
    about: dict[str, Any] = {"send": place.build_address("/label"), "labels": KEYS, "now": int(time.time())}
    about |= {"mine": reviews.find_label(ruled, me), "others": reviews.list_visible(ruled, me)}
    return console.render("decision.html.j2", "sessions", page=page, ruled=ruled, **about)


async def send_export(console: Console, request: Request) -> Response:
    """Send a session as one file that opens from disk; what the policy calls sensitive is masked in it."""
    name = await find_session(console.log, Query(request.query_params).get("session"))
    hidden = await asyncio.to_thread(find_hidden, console.workspace, None, console.environ)
    page = await asyncio.to_thread(export_page, console.log, name, console.blobs, hidden)
    file = re.sub(r"[^0-9A-Za-z.-]", "_", name)[:100]
    about = {"Content-Disposition": f'attachment; filename="{file}.html"'}
    return Response(page.text, media_type="text/html", headers=about)


async def show_waiting(console: Console, request: Request) -> Response:
    """Show what waits for a person, in all sessions."""
    rows = await list_waiting(console.approvals)
    return console.render("waiting.html.j2", "waiting", follow=await console.follow_all(), rows=rows)


async def show_open_question(console: Console, request: Request) -> Response:
    """Show the sheet of a question, with its answers as buttons."""
    page = await show_question(console.approvals, _read_name(request))
    return console.render("question.html.j2", "waiting", page=page, problem="", said={})


async def take_answer(console: Console, request: Request) -> Response:
    """Take the answer to a question; what cannot count is said above the sheet, and nothing happens."""
    name, form = _read_name(request), await read_form(request, console.entry)
    try:
        done = await answer_question(console.approvals, name, form)
    except UsageError as error:
        page = await show_question(console.approvals, name)
        said = dict(form.items())
        return console.render("question.html.j2", "waiting", 409, page=page, problem=str(error), said=said)
    return console.render("answered.html.j2", "waiting", done=done)


def _read_name(request: Request) -> str:
    return f"{request.path_params['session']}:{request.path_params['event']}"


PAGES = (
    ("GET", "/sessions", show_sessions),
    ("GET", "/sessions/{session:path}", show_session),
    ("GET", "/export", send_export),
    ("GET", "/decisions", show_decisions),
    ("GET", "/waiting", show_waiting),
    ("GET", "/waiting/{session:path}/{event:int}", show_open_question),
    ("POST", "/waiting/{session:path}/{event:int}", take_answer),
    ("GET", "/review", show_review),
    ("POST", "/review", draw_queue),
    ("GET", ITEMS, show_item),
    ("POST", ITEMS, take_label),
    ("POST", "/label", take_single_label),
    ("POST", "/sign", take_sign_off),
    ("GET", "/statistics", show_statistics),
    ("GET", "/policy", show_policy),
    ("GET", TUNING, show_tuning),
    ("GET", PATCH, send_patch),
)
"""Method, address and page."""
