"""What stands before every page: who asks and may come in, for which address, from which page, how much is sent."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response

from foregate.console.address import Address
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


WINDOW = 60.0
"""Seconds for which a wrong token counts."""
MOST_WRONG = 10
"""Wrong tokens within the window after which none is taken until some no longer count."""
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


class TooMany(UsageError):
    """Too many wrong tokens were given; `seconds` says how long none is taken."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong tokens; wait {seconds} seconds and open the address that was printed")
        self.seconds = seconds


class SignIn:
    """The token of this process, the cookie it is exchanged for, and the word that its forms carry.

    All are made at the start and gone with the process. `port` is part of the cookie's name: browsers send the cookies
    of one port of a machine to all of its ports.
    """

    def __init__(self, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.token = secrets.token_urlsafe(32)
        self.cookie_name = f"fg{port}"
        self._key = secrets.token_bytes(32)
        self._clock = clock
        self._wrong: deque[float] = deque()

    def exchange(self, token: str) -> str:
        """Return the header that sets the cookie, for the right token.

        Raises UsageError for a wrong one, and TooMany, also for the right one, after too many of those.
        """
        now = self._clock()
        while self._wrong and now - self._wrong[0] >= WINDOW:
            self._wrong.popleft()
        if len(self._wrong) >= MOST_WRONG:
            raise TooMany(int(WINDOW - (now - self._wrong[0])) + 1)
        if not is_same(token, self.token):
            self._wrong.append(now)
            raise UsageError("this token is not the one of this console; open the address that it printed last")
        return f"{self.cookie_name}={self._derive('cookie')}; Path=/; HttpOnly; SameSite=Strict"

    def is_known(self, cookies: str) -> bool:
        """Whether a Cookie header holds the cookie of this process."""
        try:
            found = SimpleCookie(cookies).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and is_same(found.value, self._derive("cookie"))

    @property
    def form_word(self) -> str:
        """What every form carries, so that no other page can send one."""
        return self._derive("form")

    def _derive(self, what: str) -> str:
        return hmac.new(self._key, what.encode(), hashlib.sha256).hexdigest()


def is_same(given: str, wanted: str) -> bool:
    """Whether two secrets are the same, in a time that says nothing of where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


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
