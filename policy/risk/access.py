"""What commands of commonly known programs want of the world outside a sandbox, by the policy's table."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import get_args

from foregate.policy.policy import Policy
from foregate.policy.risk.command_line import Segment
from foregate.policy.risk.commands import has_words_at, index_entries
from foregate.policy.risk.http import normalise_host
from foregate.policy.risk.program_name import get_program_name
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import Access, AccessKind

_NAMED = compile_late(r"network:@(only|\d{1,5})?")
_URL = compile_late(r"([a-z][a-z0-9+.-]*)://(?:[^/@\s]*@)?(\[[^\]]*\]|[^/:?#\s]+)(?::(\d{1,5}))?", re.IGNORECASE)
_REMOTE = compile_late(r"(?:[\w.-]+@)?([\w.-]{2,}):(?!//).*|[\w.-]+@([\w.-]+)", re.ASCII)
_OVER_SSH = ("git", "ssh", "scp", "sftp", "rsync")
_HOST_OPTIONS = ("-h", "--host")
_PORT_OPTIONS = ("-p", "-P", "--port")
_PORTS = {"http": "80", "ws": "80", "https": "443", "wss": "443", "ssh": "22", "git": "9418", "ftp": "21"}


def find_access(segment: Segment, policy: Policy) -> Iterator[Access]:
    """Yield what a command wants of the world outside."""
    words = [word or "" for word in segment.words]
    if not words or (len(words) == 2 and words[1].startswith("-") and words[1] in policy.commands.about):
        return
    named, others = index_entries(tuple(policy.commands.access))
    for leading in (*named.get(get_program_name(words[0]), ()), *others):
        if has_words_at(leading.split(), words):
            for entry in policy.commands.access[leading]:
                yield from _resolve_entry(entry, words)


def explain_bad_access(entry: str) -> str:
    """Return why an entry of the table cannot be used, "" where it can."""
    kind, _, name = entry.partition(":")
    if kind not in get_args(AccessKind) or (not name and kind != "network"):
        kinds = ", ".join(f"`{known}:`" for known in get_args(AccessKind))
        return f"`{entry[:80]}` is no access; write {kinds} and a name, or `network` alone"
    if kind == "port" and not (name.isascii() and name.isdigit() and 0 < int(name) < 65536):
        return f"`{entry[:80]}` names no port; write a number from 1 to 65535"
    if kind == "network" and name and "@" in name and not _NAMED.fullmatch(entry):
        return f"`{entry[:80]}` names no host; write one, or `@`, `@only` or `@` and a port"
    return ""


def _resolve_entry(entry: str, words: Sequence[str]) -> Iterator[Access]:
    if not (named := _NAMED.fullmatch(entry)):
        kind, _, name = entry.partition(":")
        yield Access(kind, name)  # type: ignore[arg-type]  # `policy check` has looked at it
        return
    hosts = list(_find_hosts(words, named[1] or ""))
    if not hosts and named[1] != "only":
        hosts = [Access("port", named[1]) if named[1] else Access("network")]
    yield from hosts


def _find_hosts(words: Sequence[str], usual: str) -> Iterator[Access]:
    """Yield the hosts that words name; one that is this machine is a port of it."""
    port = next((value for word, value in pairwise(words) if word in _PORT_OPTIONS and value.isdigit()), usual)
    values = [value for word, value in pairwise(words) if word in _HOST_OPTIONS and not value.startswith("/")]
    values += [word.partition("=")[2] for word in words if word.startswith("--host=")]
    for value in values:
        yield _build_access(value, port)
    for word in words[1:]:
        if url := _URL.search(word):
            yield _build_access(url[2].strip("[]"), url[3] or _PORTS.get(url[1].lower(), port))
        elif words[0] in _OVER_SSH and (remote := _REMOTE.fullmatch(word)) and not word.startswith("-"):
            yield _build_access(remote[1] or remote[2], port or "22")
    bare = next((word for word in words[1:] if word and not word.startswith("-")), "")
    if words[0] in ("curl", "wget", "ssh", "nc") and not _URL.search(bare) and _is_host(bare):
        host, _, after = bare.partition("/")[0].partition(":")
        yield _build_access(host, after or port or ("22" if words[0] == "ssh" else "80"))


def _is_host(word: str) -> bool:
    host = word.partition("/")[0].partition(":")[0]
    return bool(normalise_host(host)) and ("." in host or host == "localhost")


def _build_access(host: str, port: str) -> Access:
    host = host.casefold().rstrip(".")
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost" or host.endswith(".localhost")
    return Access("port", port) if here and port.isdigit() else Access("network", host)
