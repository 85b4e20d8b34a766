"""Who may come in: whoever has the token that the process printed, and then the cookie it was exchanged for."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

from foregate.schemas.errors import UsageError

WINDOW = 60.0
"""Seconds for which a wrong token counts."""
MOST_WRONG = 10
"""Wrong tokens within the window after which none is taken until some no longer count."""


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
