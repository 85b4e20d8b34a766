"""What stands before every page: who asks, for which address, from which page, and how much is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response

from foregate.console.address import Address
from foregate.console.entry import SignIn

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Under `no-referrer` browsers say `Origin: null` of our own forms; to other origins this one says as little.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
ENTRANCE = "/enter"
"""Where the token is exchanged; the only page without the cookie."""
_OURS = ("same-origin", "none")
"""What a browser says of requests that our own pages or its address bar make."""

Refusal = tuple[int, str]
"""A status, and the sentence that says why and what to do."""


class Guard:
    """Lets a request through that is for this console, from a page of it or the address bar, and from who came in."""

    def __init__(self, app: ASGIApp, entry: SignIn, address: Address) -> None:
        self._app, self._entry, self._address = app, entry, address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the pages answer it; every answer carries the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer: ASGIApp = self._app
        if (refused := self.find_refusal(scope)) is not None:
            answer = refuse(*refused)
        await answer(scope, receive, add_headers(send, HEADERS.items()))

    def find_refusal(self, scope: Scope) -> Refusal | None:
        """Return why a request is answered by none of the pages, None where it is."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._address.hosts:
            return 421, f"this console answers at {self._address.url} and by no other name"
        if any(origin.lower() not in self._address.origins for origin in headers.getlist("origin")):
            return 403, f"another page sent this; open {self._address.url} itself"
        if headers.get("sec-fetch-site", "none") not in _OURS and not is_visit(scope, headers):
            return 403, f"another page asked for this; open {self._address.url} itself"
        if scope["path"] == ENTRANCE and scope["method"] == "GET":
            return None
        if not self._entry.is_known("; ".join(headers.getlist("cookie"))):
            return 401, "open the address that `foregate console` printed when it started: it lets this browser in"
        return None


def is_visit(scope: Scope, headers: Headers) -> bool:
    """Whether a whole page is opened, as a link somewhere else does it."""
    is_page = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return scope["method"] == "GET" and is_page


def refuse(status: int, sentence: str, headers: Iterable[tuple[str, str]] = ()) -> Response:
    """Return an answer of one sentence."""
    return PlainTextResponse(f"{sentence}\n", status, dict(headers))


def add_headers(send: Send, headers: Iterable[tuple[str, str]]) -> Callable[[Message], Awaitable[None]]:
    """Return a `send` that adds headers to what is sent."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            mine = MutableHeaders(scope=message)
            for name, value in headers:
                mine[name] = value
        await send(message)

    return send_with_headers
