"""Which MCP servers there are: the file people already have, read strictly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, ValidationError, convert, field

from foregate.agent.workspace.user_files import UserConfigFile
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.visible import make_visible

SERVERS_FILE = UserConfigFile("mcp.json", "FOREGATE_MCP")
"""The file that lists the servers. A workspace has no say: a repository must not be able to start processes."""
LARGEST = 1_000_000
"""Bytes of a configuration file at most."""
# "docs-server".
_NAME = compile_late(r"[A-Za-z0-9_-]{1,64}\Z")
# "${TOKEN}", "${PORT:-8080}".
_VARIABLE = compile_late(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# "X-Api-Key".
_HEADER = compile_late(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_KINDS = {"stdio": "command", **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http"), "url")}
_UNSPOKEN = ("sse", "ws", "websocket")
"""Transports other clients know: a server behind one is left out, and the others of the file are there."""
_PROCESS = ("command", "args", "env", "cwd", "confine")
_PLACE = ("url", "headers")
_BOTH = ("type", "transport", "disabled", "start_timeout", "call_timeout")
_ELSEWHERE = {
    **dict.fromkeys(("alwaysAllow", "autoApprove", "trust"), "the policy says what may run unasked"),
    "timeout": "programs count it in different units; write `call_timeout`, in seconds",
    "description": "only people read it",
}
"""What other clients know and has no effect here, with the reason."""


Confine = Literal["none", "read", "work"]
_TEXT = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]
_SECONDS = Annotated[int, Meta(ge=1, le=86400)]
_FORMS: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(("command", "cwd", "url"), (Annotated[_TEXT, Meta(min_length=1)], "a text")),
    **dict.fromkeys(("env", "headers"), (dict[str, _TEXT], "an object of texts")),
    **dict.fromkeys(("start_timeout", "call_timeout"), (_SECONDS, "a whole number of seconds, 1 to 86400")),
    "args": (tuple[_TEXT, ...], "a list of texts"),
    "confine": (Confine, "none, read or work"),
}
"""What a value must be, and how a sentence calls that."""


class ServerConfiguration(Struct, frozen=True):
    """One server: a command to start, or a URL. Times in seconds, 0 = the policy's; `${NAME}` is not yet expanded.

    `confine` is what its process may do: anything its user may (`none`), `read` the workspace, or `work` in it. One
    that a program has handed over stands in no file, where the command line would find it.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    confine: Confine = "none"
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    start_timeout: int = 0
    call_timeout: int = 0
    is_handed_over: bool = False

    @property
    def launch(self) -> Mapping[str, Json]:
        """What a definition is pinned together with: the command that is started, or the URL."""
        if self.url:
            return {"url": self.url}
        return {"command": self.command, "args": list(self.args), **({"cwd": self.cwd} if self.cwd else {})}

    @property
    def launch_line(self) -> str:
        words = self.url or " ".join([self.command, *self.args])
        return words if self.confine == "none" else f"{words} (confined: {self.confine})"


def read_servers(file: Path) -> tuple[list[ServerConfiguration], list[str]]:
    """Return the servers of a file that are not disabled, and remarks; raise UsageError naming file, server and key."""
    shown = make_visible(str(file))
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST + 1)
        content = strict_json.parse(data.decode("utf-8-sig"), max_bytes=LARGEST)
    except OSError as error:
        raise UsageError(f"`{shown}` cannot be read ({error.strerror}); name a file that lists MCP servers") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{shown}` is no UTF-8 text; name a file that lists MCP servers") from None
    except InvalidJson as error:
        raise UsageError(f"`{shown}`: {error}") from None
    listed = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        raise UsageError(f'`{shown}` lists no servers; write {{"mcpServers": {{NAME: {{"command": ...}}}}}}')
    servers, notes = [], []
    for name, entry in listed.items():
        if other := next((kind for kind in _list_transports(entry) if kind in _UNSPOKEN), ""):
            notes.append(
                f"MCP server `{make_visible(name[:64])}` is left out: `{other}` is not spoken here, only stdio and http"
            )
            continue
        try:
            server = read_server(name, entry)
        except ValueError as error:
            raise UsageError(f"`{shown}`: the server `{make_visible(name[:64])}`: {error}") from None
        if server is not None:
            servers.append(server)
            notes += [
                f"MCP server `{name}`: `{key}` has no effect; {_ELSEWHERE[key]}" for key in entry if key in _ELSEWHERE
            ]
            notes += [f"MCP server `{name}`: {why}" for why in find_unexpanded(server)]
    return servers, notes


def read_server(name: str, entry: Json) -> ServerConfiguration | None:
    """Return a server from its entry, None where it is disabled; raise ValueError with the rest of a sentence."""
    if _NAME.fullmatch(name) is None:
        raise ValueError("a name has letters, digits, `_` and `-`, at most 64; rename it")
    if not isinstance(entry, dict):
        raise ValueError("must be an object with a `command` or a `url`")
    what = "command" if "command" in entry else "url"
    known = (*(_PROCESS if what == "command" else _PLACE), *_BOTH)
    if "command" in entry and "url" in entry:
        raise ValueError("has a `command` and a `url`; keep one")
    if what not in entry:
        raise ValueError("has neither `command` nor `url`; write one")
    if what == "url" and "confine" in entry:
        raise ValueError("`confine` needs a `command`: what answers at a `url` runs elsewhere; leave it out")
    if unknown := [key for key in entry if key not in known and key not in _ELSEWHERE]:
        raise ValueError(f"the key `{make_visible(unknown[0][:64])}` is unknown; the keys are {', '.join(known)}")
    if any(_KINDS.get(str(kind)) != what for kind in _list_transports(entry)):
        raise ValueError("its transport is none that is spoken here; use stdio with `command`, http with `url`")
    if not isinstance(entry.get("disabled", False), bool):
        raise ValueError("`disabled` must be true or false")
    read: dict[str, Any] = {}
    for key, (form, what) in _FORMS.items():
        try:
            if key in entry:
                read[key] = convert(entry[key], form)
        except ValidationError:
            raise ValueError(f"`{key}` must be {what}") from None
    server = ServerConfiguration(name, **read)
    _check(server)
    return None if entry.get("disabled") else server


def _list_transports(entry: Json) -> Iterator[Json]:
    if isinstance(entry, dict):
        yield from (entry[key] for key in ("type", "transport") if key in entry)


def find_unexpanded(server: ServerConfiguration) -> Iterator[str]:
    """Yield the rest of a sentence for each value that looks as if a variable were taken from the environment there."""
    places = {"command": [server.command], "args": server.args, "cwd": [server.cwd], "url": [server.url]}
    for key, words in places.items():
        if found := next(filter(None, map(_VARIABLE.search, words)), None):
            shown = make_visible(found[0][:64])
            yield f"`{shown}` in `{key}` is taken as it stands; only `env` and `headers` are filled in"


def expand_variables(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return values with each `${NAME}` or `${NAME:-otherwise}` filled in; raise UsageError for one that is not set."""

    def value(match: re.Match[str]) -> str:
        name, otherwise = match.groups()
        found = environ.get(name, otherwise)
        if found is None:
            raise UsageError(f"the environment variable `{name}` is not set")
        return found

    return {name: _VARIABLE.sub(value, text) for name, text in values.items()}


def _check(server: ServerConfiguration) -> None:
    if "/" in server.command and not server.command.startswith(("/", "~/")):
        raise ValueError("`command` is a relative path; write the absolute one")
    if server.cwd and not server.cwd.startswith(("/", "~/")):
        raise ValueError("`cwd` is a relative path; write the absolute one")
    if wrong := [name for name in server.env if "=" in name or not name]:
        raise ValueError(f"`env` has the name `{make_visible(wrong[0][:64])}`, which no variable can have")
    if wrong := [name for name, value in server.headers.items() if not _HEADER.match(name) or {"\r", "\n"} & {*value}]:
        raise ValueError(f"`headers` has `{make_visible(wrong[0][:64])}`, which cannot be sent")
    if server.url:
        try:
            parts = urlsplit(server.url)
            good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            good = False
        if not good or make_visible(server.url) != server.url or " " in server.url:
            raise ValueError("`url` must be an http or https address")
        if parts.username is not None or parts.password is not None:
            raise ValueError("`url` holds a user name or a password; send them in `headers`")
