"""The pages of the console: what each reads from the address, and which template shows it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from foregate.console.console import Console
from foregate.console.form import read_form
from foregate.console.lists import show_decisions, show_sessions
from foregate.console.policy_page import show_policy
from foregate.console.review_pages import (
    ITEMS,
    draw_queue,
    show_item,
    show_review,
    take_label,
    take_sign_off,
    take_single_label,
)
from foregate.console.session_pages import send_export, show_session
from foregate.console.statistics_page import show_statistics
from foregate.console.tune_pages import PATCH, TUNING, send_patch, show_tuning
from foregate.console.waiting import answer_question, list_waiting, show_question
from foregate.schemas.errors import UsageError


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
