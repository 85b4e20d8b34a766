"""What a browser sent: a form, or words in an address, read within bounds; a form only with this process's word."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from foregate.console.guard import SignIn, is_same
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
_LONGEST = 200
"""Characters of one field at most."""


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


class Query:
    """The fields of an address; what is empty counts as left out."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = {name: value.strip() for name, value in fields.items() if value.strip()}
        for name, value in self.fields.items():
            if len(value) > _LONGEST:
                raise UsageError(f"`{name[:40]}` is longer than {_LONGEST} characters; say it in fewer")

    def get(self, name: str) -> str:
        """Return a field, "" for one that is left out."""
        return self.fields.get(name, "")

    def list_words(self, name: str) -> tuple[str, ...]:
        """Return a field as the one phrase that must be found; nothing where it is left out."""
        return (self.fields[name],) if name in self.fields else ()

    def list_pattern(self, name: str) -> tuple[str, ...]:
        """Return a field as a pattern that fits anywhere in a text, unless it says itself where."""
        text = self.get(name)
        return (text if "*" in text or "?" in text else f"*{text}*",) if text else ()

    def choose(self, name: str, known: Collection[str]) -> tuple[str, ...]:
        """Return a field that is one of the known; raise UsageError for any other."""
        if (value := self.get(name)) and value not in known:
            raise UsageError(f"there is no {name} `{value[:60]}`; there are {', '.join(known)}")
        return (value,) if value else ()

    def read_day(self, name: str, *, end: bool = False) -> datetime | None:
        """Return the beginning, or the end, of a day of UTC, as in `2026-11-23`; raise UsageError for any other."""
        if not (text := self.get(name)):
            return None
        try:
            day = datetime.combine(datetime.strptime(text, "%Y-%m-%d").date(), time(), UTC)
        except ValueError:
            raise UsageError(f"`{text[:40]}` is no day; write it as 2026-11-23") from None
        return day + timedelta(days=1, milliseconds=-1) if end else day

    def read_number(self, name: str) -> int | None:
        """Return a whole number; raise UsageError for anything else."""
        text = self.get(name)
        if text and not (text.isascii() and text.isdigit() and len(text) < 16):
            raise UsageError(f"`{text[:40]}` is no number here; open the page from its list")
        return int(text) if text else None

    def build_address(self, path: str, **more: str | int) -> str:
        """Return the address of the same selection with other fields."""
        fields = {**self.fields, **{name: str(value) for name, value in more.items()}}
        return f"{path}?{urlencode(fields)}" if fields else path
