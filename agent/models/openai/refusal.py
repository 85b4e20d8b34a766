"""What an endpoint says where it refuses or fails: read from a body of any shape, its fields before its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import JSONDecoder

from msgspec import Struct

from foregate.schemas.strict_json import Json

_SAID = ("message", "msg", "error_description", "description", "title", "text")
"""The fields in which words are said."""
_INNER = ("error", "errors", "detail", "details", "metadata", "raw", "innererror", "inner_error", "cause", "reason")
"""Those with more of it inside: words, an object or a list. What repeats our request is not among them."""
_CODES = ("code", "type", "error_code", "error_type", "status", "__type", "reason", "name")
_STATUSES = ("code", "status", "status_code", "statuscode", "http_status", "error_code")
_DELAYS = ("retrydelay", "retry_delay", "retry_after", "retry_after_seconds", "retryafter")
_GENERATED = ("failed_generation", "failedgeneration")
LONGEST = 4000
"""Characters of an endpoint's words that are read."""
_LONGEST_GENERATED = 64 * 1024
_DEEPEST, _MOST = 8, 200
_OBJECTS = JSONDecoder()


class EndpointRefusal(Struct, frozen=True):
    """What was said of a request that failed.

    `status` is HTTP's, or the number that stands for it in a body of status 200, 0 without one. `codes` holds
    every code and type, in lower case. `param` names the part of the request it speaks of. `numbers` are whole numbers
    by the name of their field, in lower case. `delays` and `headers` are what was said of waiting. `generated` is what
    the model wrote where the endpoint could make no call of it, None where it does not show it.

    >>> said = read_refusal(400, [{"error": {"code": "400", "message": "No.", "status": "INVALID_ARGUMENT"}}])
    >>> said.words, sorted(said.codes)
    ('No.', ['400', 'invalid_argument'])
    """

    status: int
    words: str = ""
    codes: frozenset[str] = frozenset()
    param: str = ""
    numbers: Mapping[str, int] = {}
    delays: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    generated: str | None = None

    def says(self, *codes: str) -> bool:
        """Whether one of these is among the codes."""
        return not self.codes.isdisjoint(codes)


class _RefusalReader:
    """Collects what a body says, its outer words first, within bounds."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes: set[str] = set()
        self.statuses: list[int] = []
        self.params: list[str] = []
        self.numbers: dict[str, int] = {}
        self.delays: list[str] = []
        self.headers: dict[str, str] = {}
        self.generated: str | None = None
        self._left = _MOST

    def read(self, value: object, depth: int = 0) -> None:
        """Take in a value, and what is inside it."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return
        if isinstance(value, str):
            self._read_text(value[: LONGEST * 4], depth)
        elif isinstance(value, list):
            for item in value[:20]:
                self.read(item, depth + 1)
        elif isinstance(value, Mapping):
            self._read_fields(value, depth)

    def _read_fields(self, given: Mapping[str, object], depth: int) -> None:
        fields = {name.lower(): value for name, value in list(given.items())[:_MOST] if isinstance(name, str)}
        for name in _CODES:
            if isinstance(value := fields.get(name), (str, int)) and not isinstance(value, bool):
                self.codes.add(str(value).strip().lower()[:100])
        self.statuses += [number for name in _STATUSES if (number := read_status(fields.get(name)))]
        self.delays += [str(fields[name]) for name in _DELAYS if isinstance(fields.get(name), (str, int, float))]
        if isinstance(param := fields.get("param"), str):
            self.params.append(param[:200])
        for name, value in fields.items():
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53:
                self.numbers.setdefault(name, value)
        for name in _GENERATED:
            if self.generated is None and isinstance(value := fields.get(name), str):
                self.generated = value[:_LONGEST_GENERATED]
        if isinstance(headers := fields.get("headers"), Mapping):
            self.headers |= {str(name).lower(): str(value)[:100] for name, value in list(headers.items())[:_MOST]}
        # FastAPI names the place and what is wrong there in two fields.
        if isinstance(place := fields.get("loc"), list) and isinstance(said := fields.get("msg"), str):
            self._add(f"{'.'.join(str(part)[:100] for part in place[:20])} {said}")
        else:
            for name in _SAID:
                if isinstance(fields.get(name), (str, list, Mapping)):
                    self.read(fields[name], depth + 1)
        for name in _INNER:
            if name != "reason" or not isinstance(fields.get(name), str):
                self.read(fields.get(name), depth + 1)

    def _read_text(self, text: str, depth: int) -> None:
        """Take in words; where they hold a JSON object or list, what that says stands in its place."""
        at = min((place for place in (text.find("{"), text.find("[{")) if place >= 0), default=-1)
        if at >= 0:
            try:
                value, end = _OBJECTS.raw_decode(text, at)
            except (ValueError, RecursionError):
                pass
            else:
                before = len(self.words)
                self._add(text[:at].rstrip(" -:"))
                self.read(value, depth + 1)
                if len(self.words) > before:
                    self._add(text[end:].strip(" .-:"))
                    return
        self._add(text)

    def _add(self, words: str) -> None:
        words = words.strip()[:LONGEST]
        if words and not any(words in known for known in self.words):
            self.words.append(words)


def read_refusal(status: int, body: object) -> EndpointRefusal:
    """Return what a body says; `status` is HTTP's, 0 where the body came inside an answer."""
    reader = _RefusalReader()
    reader.read(body)
    *first, last = reader.words or [""]
    number = status or next((one for one in reader.statuses if 400 <= one < 600), 0)
    return EndpointRefusal(
        number,
        ": ".join([*(one.rstrip(".: ") for one in first), last])[:LONGEST],
        frozenset(reader.codes),
        next(iter(reader.params), ""),
        reader.numbers,
        tuple(reader.delays),
        reader.headers,
        reader.generated,
    )


def read_status(value: object) -> int:
    """Return a status that is a number, or a number as text; 0 for anything else."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def list_objects(text: str) -> Iterator[Json]:
    """Yield the JSON objects and lists that stand in a text, one behind the other."""
    at = tries = 0
    while (
        tries < _MOST
        and (found := min((place for place in (text.find("{", at), text.find("[", at)) if place >= 0), default=-1)) >= 0
    ):
        try:
            value, at = _OBJECTS.raw_decode(text, found)
        except (ValueError, RecursionError):
            at, tries = found + 1, tries + 1
            continue
        yield value
