"""What a sandbox can be given of the world outside, as it is written in requests: pure, from the words alone."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from fnmatch import fnmatchcase

from foregate.policy.risk.http import is_address, normalise_host
from foregate.schemas.errors import AccessError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import Access

FORMS = "`network:HOST`, `network`, `port:NUMBER`, `socket:/PATH`, `device:/dev/NAME` or `folder:/PATH`"
DEVICES = (  # noqa: SIM905 - grouped by what they are
    "/dev/dri/* /dev/kfd /dev/nvidia* /dev/kvm "  # graphics, computing, virtual machines
    "/dev/snd/* /dev/video* /dev/media* "  # sound, cameras
    "/dev/ttyUSB* /dev/ttyACM* /dev/i2c-* /dev/spidev* /dev/gpiochip*"  # boards on a desk
).split()
"""Devices a sandbox can be given. Behind others are disks, memory, keyboards, terminals and the machine itself."""
_LONGEST = 4096
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
