"""The pages of one session: its conversation with its decision points, and one decision."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from foregate.assembly.home import find_session
from foregate.console.console import LINKS, Console
from foregate.console.query import Query
from foregate.pages.decision_page import build_decision_page
from foregate.pages.session_page import build_session_page

_DECISION = "/decisions/"


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
    page = await asyncio.to_thread(build_session_page, console.log, name, blobs=console.blobs, page=number)
    follow = f"/events?{Query({'session': name, 'after': str(seq)}).build_address('')[1:]}"
    return console.render("session.html.j2", "sessions", follow=follow, page=page)


async def show_decision(console: Console, request: Request, session: str, decision: str) -> Response:
    """Show one decision of a session."""
    call = Query(request.query_params).get("call")
    page = await asyncio.to_thread(build_decision_page, console.log, session, decision, call, blobs=console.blobs)
    return console.render("decision.html.j2", "sessions", page=page)
