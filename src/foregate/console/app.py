"""The console as an application: which page answers which address, and what becomes of an error."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from foregate.assembly.home import Home
from foregate.console import pages
from foregate.console.address import Address
from foregate.console.console import LINKS, Console
from foregate.console.form import FormRefused
from foregate.console.guard import ENTRANCE, Guard, SignIn, TooMany, refuse
from foregate.schemas.errors import ForegateError, TamperedLog, UsageError
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.views.pages.rendering import ASSETS, read_asset

Page = Callable[[Console, Request], Awaitable[Response]]
_LONGEST = 2000
"""Characters of an address at most."""


def build_app(
    home: Home,
    entry: SignIn,
    address: Address,
    *,
    environ: Mapping[str, str] = os.environ,
    workspace: Path | None = None,
    read_only: bool = False,
) -> Starlette:
    """Return the application of one home, for whoever has the token of `entry`, at one address.

    Raises UsageError where the home has no log, and LogError for one that cannot be read.
    """
    folder = workspace if workspace is not None else Path.cwd()
    console = Console(home, entry, address, environ=environ, workspace=folder, read_only=read_only)

    @asynccontextmanager
    async def close_console(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            console.close()

    app = Starlette(
        routes=[
            Route("/", visit_sessions),
            Route(ENTRANCE, bind(console, enter)),
            Route("/assets/{name}", send_asset),
            Route("/events", bind(console, follow)),
            *(Route(path, bind(console, page), methods=[method]) for method, path, page in pages.PAGES),
        ],
        middleware=[Middleware(Guard, entry=entry, address=address)],
        exception_handlers={HTTPException: bind_error(console), ForegateError: bind_error(console)},
        lifespan=close_console,
    )
    app.state.console = console
    return app


def bind(console: Console, page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return a page as the application calls it."""

    async def answer(request: Request) -> Response:
        if len(str(request.url)) > _LONGEST:
            raise FormRefused(414, f"this address is longer than {_LONGEST} characters; shorten it")
        if request.method == "POST" and console.read_only:
            raise FormRefused(403, "this console only looks: nothing is answered or labelled here")
        return await page(console, request)

    return answer


async def visit_sessions(_: Request) -> Response:
    """Lead to the page a console begins with."""
    return RedirectResponse("/sessions", 303)


async def enter(console: Console, request: Request) -> Response:
    """Exchange the token for the cookie.

    The answer is a page that goes on by itself: a browser that came from elsewhere would not send a strict cookie with
    a redirect.
    """
    try:
        cookie = console.entry.exchange(request.query_params.get("token", "")[:_LONGEST])
    except TooMany as error:
        return refuse(429, str(error), [("Retry-After", str(error.seconds))])
    except UsageError as error:
        return refuse(403, str(error))
    name = request.query_params.get("session", "")
    page = console.render("enter.html.j2", "", first=LINKS.session(name) if name else "/sessions")
    page.headers["Set-Cookie"] = cookie
    return page


async def send_asset(request: Request) -> Response:
    """Send a file of ours."""
    found = list_assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return Response(found[0], media_type=found[1])


async def follow(console: Console, request: Request) -> Response:
    """Say what is new, as server-sent events, from the number on that the browser has seen last."""
    look = await asyncio.to_thread(console.live.build_look, request.query_params.get("session", ""))
    seen = request.headers.get("last-event-id", "") or request.query_params.get("after", "")
    if not (seen.isascii() and seen.isdigit() and len(seen) < 19):
        raise FormRefused(400, "say which number was seen last: `after`, or the header Last-Event-ID")
    console.live.check_room()
    return StreamingResponse(console.live.follow(look, int(seen)), media_type="text/event-stream")


def bind_error(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return what answers where a page raised an error: one sentence, on a page."""

    async def explain(request: Request, error: Exception) -> Response:
        status, sentence = describe_error(error)
        if status >= 500:
            get_diagnostics().warning("console.page_failed", path=request.url.path, status=status)
        return console.render("problem.html.j2", "", status, sentence=sentence)

    return explain


def describe_error(error: Exception) -> tuple[int, str]:
    """Return the status and the sentence for an error."""
    match error:
        case FormRefused():
            return error.status, str(error)
        case HTTPException(status_code=405):
            return 405, "this page is only looked at; use its buttons"
        case HTTPException():
            return error.status_code, "there is no such page; begin with the sessions"
        case TamperedLog():
            return 409, str(error)
        case UsageError():
            return 404, str(error)
        case _:
            return 500, str(error)


OWN = ("icon.svg", "lists.css", "live.js", "tune.css", "tune.js")
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


@cache
def list_assets() -> dict[str, tuple[bytes, str]]:
    """Return each file's bytes and kind by its name."""
    own = {name: (files("foregate.console") / "assets" / name).read_text("utf-8") for name in OWN}
    shared = {name: read_asset(name) for name in ASSETS if (files("foregate.views.pages") / "assets" / name).is_file()}
    return {name: (text.encode(), _KINDS[name.rpartition(".")[2]]) for name, text in {**shared, **own}.items()}
