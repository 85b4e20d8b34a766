"""What a GET carries: the words of its address and headers that the user did not say. Pure.

Whatever a request asks for, its words leave the machine, and who answers it can read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import unquote_plus, urlsplit

from foregate.policy.policy import Policy
from foregate.policy.risk.http import read_host
from foregate.policy.risk.secret_values import is_plain
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin

_BETWEEN = compile_late(r"[^A-Za-z0-9_.@:~-]+")
_ASKING = ("accept", "accept-language", "cache-control", "if-modified-since", "range", "user-agent")
"""Headers that say what is wanted; their words count as those of a path."""
FindOrigin = Callable[[str], Origin]


def find_cargo(arguments: Mapping[str, Json], policy: Policy, find_origin: FindOrigin, *, is_known: bool) -> str:
    """Return what makes a GET a send, as a sentence; "" where it carries no more than `http.unsaid` allows.

    `find_origin` says who said a word first. `is_known` tells that somebody said the address as a whole, so that
    nobody put it together for this call.
    """
    bounds, url = policy.http.unsaid, str(arguments.get("url", ""))
    parts, headers = urlsplit(url), _read_headers(arguments)
    asking = [text for name, text in headers.items() if name.lower() in _ASKING]
    telling = [text for name, text in headers.items() if name.lower() not in _ASKING]
    path = [*_split_words([*headers, *asking])]
    query = [*_split_words(telling)]
    if not is_known:
        host = read_host(url)
        path += [*_split_words([parts.path])] + ([host] if find_origin(host) is Origin.NOBODY else [])
        query += _split_words(_read_query(parts.query))
    free = {word for word in (*path, *query) if find_origin(word) is Origin.USER}
    path, query = ([word for word in words if word not in free] for words in (path, query))
    for word in query:
        if 0 < bounds.content <= len(word) and find_origin(word) is Origin.WORKSPACE:
            return f"`{word[:80]}` of the workspace stands in it"
    for word in (*path, *query):
        if 0 < bounds.random <= len(word) and not is_plain(word.strip("_@.:~-")):
            return f"`{word[:80]}`, which the user did not say, looks like data"
    for what, words, most in (("address", path, bounds.path), ("query or headers", query, bounds.query)):
        if 0 < most < (count := sum(map(len, words))):
            return f"its {what} holds {count} characters that the user did not say, more than {most}"
    return ""


def _split_words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from filter(None, _BETWEEN.split(unquote_plus(text)))


def _read_query(query: str) -> list[str]:
    """Return the values of a query, and a part without `=` as a whole; names are the server's words."""
    return [value if equals else name for name, equals, value in (part.partition("=") for part in query.split("&"))]


def _read_headers(arguments: Mapping[str, Json]) -> dict[str, str]:
    headers = arguments.get("headers")
    if not isinstance(headers, Mapping):
        return {}
    return {name: text for name, text in headers.items() if isinstance(text, str)}
