"""A form that was sent: read within bounds, and only where it carries the word that this process put into it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from foregate.console.entry import SignIn, is_same
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from starlette.requests import Request

WORD = "word"
"""The field of every form that carries this process's word."""
LARGEST = 64 * 1024
"""Bytes of a form at most."""
_FIELDS = 400
_PATIENCE = 20.0
"""Seconds in which a form must have arrived."""
_KIND = "application/x-www-form-urlencoded"


class FormRefused(UsageError):
    """A form that is not taken; `status` is the answer's."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ConsoleForm:
    """The fields of a form, in the order they were sent."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def get(self, name: str) -> str:
        """Return the first value of a field, "" for none."""
        return next(self.list_values(name), "")

    def list_values(self, name: str) -> Iterator[str]:
        """Yield every value of a field."""
        return (value for field, value in self._fields if field == name)

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield every field with its value."""
        return iter(self._fields)


async def read_form(request: Request, entry: SignIn) -> ConsoleForm:
    """Return the form of a request; raise Refused for one that is too large, too slow, none, or not from our pages."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _KIND:
        raise FormRefused(415, "this is no form of this console; go back and send it from its page")
    body = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST:
                    raise FormRefused(413, f"this form is larger than {LARGEST} bytes; say it in fewer words")
    except TimeoutError:
        raise FormRefused(408, "this form took too long to arrive; send it again") from None
    try:
        text = body.decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise FormRefused(400, "this form cannot be read; go back and send it from its page") from None
    form = ConsoleForm(fields)
    if not is_same(form.get(WORD), entry.form_word):
        raise FormRefused(403, "this form is not of this console as it runs now; open its page again and send it there")
    return form
