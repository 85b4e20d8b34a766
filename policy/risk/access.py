"""What commands want of the world outside a sandbox: by the policy's table, and as requests write it. Pure."""

from __future__ import annotations

import ipaddress
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import get_args

from foregate.policy.policy import Policy
from foregate.policy.risk.command_line import Segment
from foregate.policy.risk.commands import get_program_name, has_words_at, index_entries
from foregate.schemas.errors import AccessError
from foregate.schemas.host import is_address, normalise_host
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import Access, AccessKind

# "network:@only", "network:@8080".
_NAMED = compile_late(r"network:@(only|\d{1,5})?")
# "https://ann@example.org:8080/a", "http://[::1]/".
_URL = compile_late(r"([a-z][a-z0-9+.-]*)://(?:[^/@\s]*@)?(\[[^\]]*\]|[^/:?#\s]+)(?::(\d{1,5}))?", re.IGNORECASE)
# "git@example.org:a/b.git", "example.org:a", "ann@example.org"; "https://example.org" is an address.
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


FORMS = "`network:HOST`, `network`, `port:NUMBER`, `socket:/PATH`, `device:/dev/NAME` or `folder:/PATH`"
DEVICES = (  # noqa: SIM905 - grouped by what they are
    # Graphics, computing, virtual machines.
    "/dev/dri/* /dev/kfd /dev/nvidia* /dev/kvm "
    # Sound, cameras.
    "/dev/snd/* /dev/video* /dev/media* "
    # Boards on a desk.
    "/dev/ttyUSB* /dev/ttyACM* /dev/i2c-* /dev/spidev* /dev/gpiochip*"
).split()
"""Devices a sandbox can be given. Behind others are disks, memory, keyboards, terminals and the machine itself."""
_LONGEST = 4096
# "localhost", "db.internal".
_LOCAL = compile_late(r"localhost|.*\.(localhost|local|internal)")


def parse_access(text: str) -> Access:
    """Return what an access in words stands for; raise AccessError, whose one sentence says what to write instead."""
    kind, colon, name = text.partition(":")
    if text == "network":
        return Access("network")
    match kind:
        case "network" if colon:
            return Access("network", _check_host(name))
        case "port":
            return Access("port", _check_port(name))
        case "socket" | "folder":
            return Access(kind, _check_path(kind, name))
        case "device":
            return Access("device", _check_device(_check_path(kind, name)))
    raise AccessError(f"`{_show(text)}` names no access; write {FORMS}")


def _check_host(name: str) -> str:
    host = normalise_host(name)
    if not host:
        raise AccessError(f"`{_show(name)}` is no host name; write one whole name like `example.org`, or its xn-- form")
    if is_address(host):
        raise AccessError(f"`{host}` is an address; name the host, because only names are reached")
    if "." not in host or _LOCAL.fullmatch(host):
        raise AccessError(f"`{host}` is a name of this machine or its network; for a service here write `port:NUMBER`")
    return host


def _check_port(name: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,4}", name, re.ASCII) or int(name) > 65535:
        raise AccessError(f"`{_show(name)}` is no port; write a number from 1 to 65535")
    return name


def _check_path(kind: str, path: str) -> str:
    plain = all(unicodedata.category(letter)[0] != "C" for letter in path) and len(path) <= _LONGEST
    if not plain or not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise AccessError(f"`{_show(path)}` is no whole path; write one from `/` on, without `.`, `..` or a final `/`")
    if path == "/":
        raise AccessError(f"the whole machine is no {kind} a sandbox can be given; name what is needed of it")
    return path


def _check_device(path: str) -> str:
    if not any(fnmatchcase(path, pattern) for pattern in DEVICES):
        raise AccessError(f"`{_show(path)}` is no device a sandbox can be given; there are {', '.join(DEVICES)}")
    return path


def _show(text: str) -> str:
    return ascii(text[:80])[1:-1]
