"""What a request over HTTP would do, where it may go, and what words of it the user did not say. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import unquote_plus, urlsplit

from foregate.policy.policy import Policy
from foregate.policy.risk.secret_values import is_plain
from foregate.schemas.host import is_address, normalise_host
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin
from foregate.schemas.tool_spec import Effect

_OBSERVING = ("GET", "HEAD")
# "example.org/a", "example.org:8080": an address without its scheme.
_BARE = compile_late(r"(?:[a-z0-9_-]+\.)+[a-z][a-z0-9-]*(?::\d+)?(?:[/?#]|$)", re.IGNORECASE)
# " " and "\" in "http://a\@b": clients read such addresses in different ways.
_UNCLEAR = compile_late(r"[\x00-\x20\x7f-\xff\\]|[^\x00-\xff]")


def effect_of_method(method: str) -> Effect:
    """Return OBSERVATION for GET and HEAD, SEND for every other method, known or not."""
    return Effect.OBSERVATION if method.upper() in _OBSERVING and method.isascii() else Effect.SEND


def read_host(url: str) -> str:
    """Return the host of an `http` or `https` URL as it is compared, "" where readers of URLs could disagree.

    Refused are white space, control characters, backslashes, non-ASCII (write `xn--` names), user information and
    any other scheme.
    """
    if _UNCLEAR.search(url):
        return ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or "%" in parts.netloc:
        return ""
    return normalise_host(host)


def complete_url(name: str) -> str:
    """Return the URL that people mean by a bare host name, with or without a port and a path; else the name itself.

    >>> complete_url("www.example.org/a")
    'https://www.example.org/a'
    >>> complete_url("file:/etc/passwd")
    'file:/etc/passwd'
    """
    return f"https://{name}" if _BARE.match(name) and read_host(f"https://{name}") else name


def is_host_match(pattern: str, host: str) -> bool:
    """Whether a host is the pattern's, by whole labels: `*.example.org` is every host below example.org, not itself."""
    host = normalise_host(host)
    if not host:
        return False
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        base = normalise_host(pattern[2:])
        return bool(base) and host.endswith(f".{base}") and not is_address(host)
    return host == normalise_host(pattern)


def is_allowed_host(host: str, policy: Policy) -> bool:
    """Whether `http.hosts` lists the host. An allowed name may still lead to a private address: see `is_private`."""
    return any(is_host_match(pattern, host) for pattern in policy.http.hosts)


def explain_unlisted(host: str, policy: Policy) -> str:
    """Return the sentence for a host that `http.hosts` does not list."""
    return f"the host `{host}` is not among the policy's http.hosts ({', '.join(policy.http.hosts) or 'none'})"


# "/" and "?" in "/a?b=c".
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
        # A host that nobody named can carry words as well.
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
