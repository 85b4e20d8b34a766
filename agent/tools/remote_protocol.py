"""What a session and a runtime say to each other, and the address of a runtime."""

from __future__ import annotations

import ipaddress
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import NODEFAULT, Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.strict_json import Json


def parse_address(text: str, *, insecure: bool = False) -> str:
    """Return the address of a runtime in the form that is shown and recorded; raise UsageError for one that is none,
    that holds a secret, or that without TLS leads to another machine, unless `insecure` says that this is meant."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("ws", "wss") or not host or any(c.isspace() or not c.isprintable() for c in text):
        raise UsageError(f"`{text[:80]}` is no runtime; write ws://127.0.0.1:PORT or wss://HOST:PORT")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError("a runtime's address holds no token, user or query; put the token in FOREGATE_RUNTIME_TOKEN")
    if parts.scheme == "ws" and not is_loopback(host) and not insecure:
        raise UsageError(
            f"`{host[:80]}` is another machine, and ws:// lets everybody on the way read and change what is said; "
            "use wss://, or say --insecure-runtime"
        )
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path or '/'}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


VERSION = 1
"""Version of what is said; each side refuses another."""
_DEEPEST = 80
"""Nesting of a message; arguments are text in it and so add nothing."""

State = Literal["finished", "refused", "unknown", "running", "missing"]
"""The state of a request: it ran to its end; it was not run; unknown; it still runs; it never arrived here."""


class WireFrame(Struct, frozen=True, tag_field="type", tag=str.lower):
    """A message; its `type` is its class's name in lower case."""


class Attach(WireFrame, frozen=True, forbid_unknown_fields=True):
    """Who calls: the agent's session, which is served by one session of the runtime, also after a restart."""

    agent: str


class Request(WireFrame, frozen=True, forbid_unknown_fields=True):
    """One call. `arguments` is their JSON as the model sent it, `digest` what was judged, `deadline` milliseconds.

    The same `id` sent again is answered with its outcome, and never run again. `approved` says that a person has
    said yes to exactly this call where the agent runs.
    """

    id: str
    tool: str
    arguments: str
    digest: str
    deadline: int
    approved: bool = False


class CallToSurvey(Struct, frozen=True, forbid_unknown_fields=True):
    """A call that is to be looked at."""

    tool: str
    arguments: str


class Look(WireFrame, frozen=True, forbid_unknown_fields=True):
    """Asks for the present state of what calls would touch; runs nothing."""

    id: str
    calls: tuple[CallToSurvey, ...]


class Cancel(WireFrame, frozen=True, forbid_unknown_fields=True):
    """Stops a request that waits or runs."""

    id: str


class Recall(WireFrame, frozen=True, forbid_unknown_fields=True):
    """Asks for the outcome of an earlier request, without sending it again."""

    id: str
    digest: str


class Welcome(WireFrame, frozen=True, forbid_unknown_fields=True):
    """What a runtime says first: what it speaks and is, how large a message may be, and its tools as a log has them."""

    v: int
    foregate: str
    max_message: int
    tools: tuple[dict[str, Json], ...]


class Attached(WireFrame, frozen=True, forbid_unknown_fields=True):
    """The runtime's session that serves the agent, where `audit` and `undo` find what was done."""

    session: str


class Seen(WireFrame, frozen=True, forbid_unknown_fields=True):
    """What a look found, a survey per call."""

    id: str
    surveys: tuple[dict[str, Json], ...]


class Problem(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a request did not run, or failed. `remedy` would cure it, `observed` is what it showed where it was run."""

    code: str
    message: str
    remedy: dict[str, Json] | None = None
    observed: dict[str, Json] | None = None


class Response(WireFrame, frozen=True, forbid_unknown_fields=True):
    """The outcome of a request. `data` is the tool's result as recorded, `duration` milliseconds."""

    id: str
    ok: bool
    state: State
    data: dict[str, Json] | None = None
    errors: tuple[Problem, ...] = ()
    duration: int = 0


class RequestRefused(WireFrame, frozen=True, forbid_unknown_fields=True, tag="refused"):
    """Why the runtime ends the connection, or could not read a message, in one sentence."""

    message: str


FromAgent = Attach | Request | Look | Cancel | Recall
FromRuntime = Welcome | Attached | Seen | Response | RequestRefused


def encode_frame(frame: WireFrame) -> str:
    """Return a message as text, with every field of its kind: who reads it need not know what is left out."""
    unset = {one.encode_name: one.default for one in msgspec.structs.fields(frame) if one.default is not NODEFAULT}
    return strict_json.encode_record({"type": frame.__struct_config__.tag, **unset, **strict_json.dump(frame)}).decode()


def parse_frame(message: str | bytes, bound: int, kind: Any) -> Any:
    """Return the `kind` that a message of at most `bound` bytes holds; raise InvalidJson naming the defect."""
    if isinstance(message, bytes):
        raise InvalidJson("it is binary; messages are text")
    value = strict_json.parse(message, max_bytes=bound, max_depth=_DEEPEST)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidJson(f"it is no message of this protocol ({str(error)[:200]})") from None
