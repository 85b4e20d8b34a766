"""What a failed command in a sandbox wanted of the world outside: told from its output, in one sentence that helps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import re2

from foregate.policy.risk.access_request import parse_access
from foregate.schemas.errors import AccessError
from foregate.schemas.sandbox import Access

_MOST_OUTPUT = 65536
_MOST_HOSTS = 3
_HERE = r"(?:127\.0\.0\.1|localhost|\[?::1\]?)\)?(?::| port |, port )(\d{1,5})\b"
_REFUSED = r"(?:refused|couldn't connect|failed to connect|could not connect|could not create socket)"
_MISSING = r"(?:no such file|not found|ENOENT|EPERM|EACCES|permi|refused|cannot connect|failed|unable to)"
_PATH = r"/[\w./@-]*\w"
_HOST = r"([\w-]+(?:\.[\w-]+)+)"
_UNRESOLVED = "(?:temporary failure in name resolution|name or service not known)"
_NOT_GIVEN = "It wanted to reach {}, which is not given to its sandbox"
_SIGNS = tuple(
    (kind, re2.compile(f"(?i){pattern}"), sentence)
    for kind, sentence, patterns in (
        (
            "socket",
            "It wanted to connect to the socket `{}`, which is not in its sandbox",
            (
                f"unix:(?://)?({_PATH})",
                f"socket\\W{{1,3}}({_PATH})\\W.{{0,40}}?{_MISSING}",
                f"{_MISSING}.{{0,60}}?({_PATH}\\.sock)\\b",
                f"({_PATH}\\.sock)\\b.{{0,40}}?{_MISSING}",
            ),
        ),
        (
            "port",
            "Nothing listens at port {} in its sandbox, and no service of this machine is there",
            (f"{_REFUSED}.{{0,80}}?{_HERE}", f"{_HERE}.{{0,80}}?{_REFUSED}"),
        ),
        (
            "network",
            _NOT_GIVEN.format("`{}`"),
            (
                f"could not resolve host(?:name)?:? {_HOST}",
                f"unable to resolve host address \\W?{_HOST}",
                f"getaddrinfo (?:EAI_AGAIN|ENOTFOUND) {_HOST}",
                f"{_HOST}: {_UNRESOLVED}",
            ),
        ),
        (
            "device",
            "It wanted the device `{}`, which is not in its sandbox",
            (f"(/dev{_PATH}).{{0,40}}?{_MISSING}", f"{_MISSING}.{{0,40}}?(/dev{_PATH})"),
        ),
    )
    for pattern in patterns
)
_UNREACHABLE = re2.compile(r"(?i)network is unreachable|\bENETUNREACH\b")
_NO_SOCKET = re2.compile(
    r"(?i)\bsocket(?:::\w+)?: operation not permitted|\bconnect(?:ing)?\b.{0,80}(?:operation not permitted|\bEPERM\b)"
    r"|socket\.__init__.*\s+PermissionError: \[Errno 1\]|urlopen error \[Errno 1\]"
    f"|{_UNRESOLVED}|\\bEAI_AGAIN\\b"
)
_NO_SOCKET_HERE = (
    "It wanted to connect to something, and nothing outside is given to its sandbox; request access "
    "`network:HOST`, `port:NUMBER` or `socket:/PATH`, with the name of what it needs"
)
_OTHER_DEVICE = re2.compile(r"(?i)cross-device link|\bEXDEV\b")
_READ_ONLY = re2.compile(r"(?i)read-only file system|\bEROFS\b")
_WRITTEN = re2.compile(r"(/[^\s'\"`:,;()\[\]]+)")


def explain_refusal(
    output: str, exit_code: int | None, wanted: Sequence[str], access: Collection[Access], *, home: str = ""
) -> str:
    """Return one sentence on what a failed command wanted and did not get, "" where nothing says so.

    `wanted` are the hosts that its name server was asked for in vain, `access` is what it was given, `home` the
    person's home folder. Of what the command printed the sentence repeats only names that could be requested.
    """
    if exit_code == 0:
        return ""
    hosts = [one for host in wanted if (one := _name("network", host)) is not None and one not in access]
    if hosts:
        named = " and ".join(f"`{one.name}`" for one in hosts[:_MOST_HOSTS])
        return f"{_NOT_GIVEN.format(named)}; {_request(hosts[:_MOST_HOSTS])}"
    text, networked = output[-_MOST_OUTPUT:], any(one.kind == "network" for one in access)
    for what, sentence in _list_signs(text, home):
        if what is None:
            return f"{sentence}."
        if what not in access and not (networked and what.kind == "network"):
            return f"{sentence}; {_request([what])}"
    if not access and _NO_SOCKET.search(text):
        return f"{_NO_SOCKET_HERE}."
    return ""


def _list_signs(text: str, home: str) -> Iterator[tuple[Access | None, str]]:
    for kind, pattern, sentence in _SIGNS:
        for found in pattern.findall(text):
            if (what := _name(kind, found)) is not None:
                yield what, sentence.format(what.name)
    if _UNREACHABLE.search(text):
        yield None, "It wanted an address of a network, and there is none in its sandbox; have it reach a host by name"
    if _OTHER_DEVICE.search(text):
        yield None, "This program cannot rename a folder in a sandbox that was there before; use `move_path`"
    for line in filter(_READ_ONLY.search, text.splitlines()):
        sentence = "It wanted to write to what is read-only in its sandbox"
        yield from ((folder, sentence) for folder in _list_home_folders(line, home))
        yield None, sentence


def _list_home_folders(line: str, home: str) -> Iterator[Access]:
    """Yield the folders of HOME around the paths that a line names."""
    for path in _WRITTEN.findall(line):
        folder = path.rpartition("/")[0]
        if home and folder.startswith(f"{home}/") and (what := _name("folder", folder)) is not None:
            yield what


def _name(kind: str, name: str) -> Access | None:
    try:
        return parse_access(f"{kind}:{name}")
    except AccessError:
        return None


def _request(missing: Sequence[Access]) -> str:
    return f"request access {', '.join(f'`{one}`' for one in missing)}."
