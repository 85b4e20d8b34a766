"""What a failed command wanted and its sandbox refused: told from its output, in one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import re2

from foregate.policy.risk.access import parse_access
from foregate.schemas.errors import AccessError
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import Tier

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
_NO_SOCKET = re2.compile(
    r"(?i)\bsocket(?:::\w+)?: operation not permitted|\bconnect(?:ing)?\b.{0,80}(?:operation not permitted|\bEPERM\b)"
    r"|socket\.__init__.*\s+PermissionError: \[Errno 1\]|urlopen error \[Errno 1\]"
    f"|{_UNRESOLVED}|\\bEAI_AGAIN\\b"
)
_NO_SOCKET_HERE = (
    "It wanted to connect to something, and nothing outside is given to its sandbox; request access "
    "`network:HOST`, `port:NUMBER` or `socket:/PATH`, with the name of what it needs"
)
_SENTENCES = tuple(
    (re2.compile(f"(?i){pattern}"), sentence)
    for pattern, sentence in (
        (
            r"network is unreachable|\bENETUNREACH\b",
            "It wanted an address of a network, and its sandbox has no network; have it reach a host by name",
        ),
        (
            r"cross-device link|\bEXDEV\b",
            "This program cannot rename a folder in a sandbox that was there before; use `move_path`",
        ),
        (
            r"\bMemoryError\b|out of memory|cannot allocate memory|bad_alloc|\bENOMEM\b",
            "It needed more memory than a command may have; have it work in smaller parts",
        ),
        (
            r"can't start new thread|(?:fork|clone|thread|spawn).{0,60}(?:temporarily unavailable|\bEAGAIN\b)",
            "It wanted more processes or threads than a command may have; have it start fewer at once",
        ),
        (
            r"no space left on device|\bENOSPC\b|file size limit exceeded|file too large|\bEFBIG\b",
            "It wrote more than there is room for; have it write less, and large files in the workspace, where most is",
        ),
    )
)
_READ_ONLY = re2.compile(r"(?i)read-only file system|\bEROFS\b")
_READ_ONLY_HERE = "It wanted to write to what is read-only in its sandbox"
_ONLY_READS = (
    "It was taken for a command that only reads, and can write nothing; write with a file tool or a redirection"
)
_CLOSED = (
    "It wanted what is closed in its sandbox; have it write in the workspace, its home or `$TMPDIR`, and nowhere else"
)
_DENIED = re2.compile(r"(?i)permission denied|\bEACCES\b")
_NOT_PERMITTED = re2.compile(r"(?i)operation not permitted|\bEPERM\b")
_WRITTEN = re2.compile(r"(/[^\s'\"`:,;()\[\]]+)")


def explain_refusal(
    output: str,
    exit_code: int | None,
    wanted: Sequence[str],
    access: Collection[Access],
    *,
    home: str = "",
    tier: Tier = "full",
    reads: bool = False,
) -> str:
    """Return one sentence on what a failed command wanted and did not get, "" where nothing says so.

    `wanted` are the hosts that its name server was asked for in vain, `access` is what it was given, `home` the
    person's home folder, `tier` what held it; it `reads` where nothing could be written. Of what the
    command printed the sentence repeats only names that could be requested.
    """
    if exit_code == 0:
        return ""
    hosts = [one for host in wanted if (one := _name("network", host)) is not None and one not in access]
    if hosts:
        named = " and ".join(f"`{one.name}`" for one in hosts[:_MOST_HOSTS])
        return f"{_NOT_GIVEN.format(named)}; {_request(hosts[:_MOST_HOSTS])}"
    text, networked = output[-_MOST_OUTPUT:], any(one.kind == "network" for one in access)
    for what, sentence in _list_signs(text):
        if what is None:
            return f"{sentence}."
        if what not in access and not (networked and what.kind == "network"):
            return f"{sentence}; {_request([what])}"
    if not access and _NO_SOCKET.search(text):
        return f"{_NO_SOCKET_HERE}."
    for what, sentence in _list_closed(text, home, tier, reads=reads):
        if what is None or what not in access:
            return f"{sentence}; {_request([what])}" if what is not None else f"{sentence}."
    return ""


def _list_signs(text: str) -> Iterator[tuple[Access | None, str]]:
    for kind, pattern, sentence in _SIGNS:
        for found in pattern.findall(text):
            if (what := _name(kind, found)) is not None:
                yield what, sentence.format(what.name)
    for pattern, sentence in _SENTENCES:
        if pattern.search(text):
            yield None, sentence


def _list_closed(text: str, home: str, tier: Tier, *, reads: bool) -> Iterator[tuple[Access | None, str]]:
    """Yield what says that something is closed to a command which it would have to be given, or do without."""
    for line in filter(_READ_ONLY.search, text.splitlines()):
        if reads:
            yield None, _ONLY_READS
        yield from ((folder, _READ_ONLY_HERE) for folder in _list_home_folders(line, home))
        yield None, f"{_READ_ONLY_HERE}; have it write in the workspace, `/tmp` or its home"
    if tier == "limited" and _DENIED.search(text):
        yield None, _ONLY_READS if reads else _CLOSED
    if _NOT_PERMITTED.search(text):
        what = "modes, times, owners" if tier == "limited" else "owners"
        yield None, f"It wanted what no command may do in its sandbox; have it leave {what} and the machine as they are"


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
