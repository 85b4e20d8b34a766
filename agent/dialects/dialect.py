"""The contract of a dialect, and the names a configuration gives tools, services and parameters: theirs to ours."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from foregate.agent.dialects.window import is_name
from foregate.schemas.errors import UsageError
from foregate.schemas.message import Message
from foregate.schemas.model_response import Block, BlockKind
from foregate.schemas.strict_json import Json
from foregate.schemas.thoughts import THOUGHTS
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

DialectName = Literal["native", "json", "action_tags", "service_tags", "auto"]
"""How a model may say its calls; `native` is no dialect but the endpoint's own way, `auto` finds out."""
BLOCKS: Mapping[str, BlockKind] = {"parallel": "parallel", "sequential": "sequential"}
RESULT, GENERIC = "result", "call_tool"
RESERVED = frozenset((*THOUGHTS, *BLOCKS, RESULT, GENERIC))
"""Names with the same meaning in every dialect of tags; a tool of such a name is called by `call_tool`."""
_MARKUP = """
    a abbr article aside b blockquote body br button code dd del details div dl dt em footer form h1 h2 h3 h4 h5 h6
    head header hr html i img input ins kbd label li link main mark meta nav ol option p pre q s samp script section
    select small span strong style sub summary sup svg table tbody td textarea th thead title tr u ul var video
    caption center cite figcaption figure font iframe picture source tfoot
"""
MARKUP = frozenset(_MARKUP.split())
"""Tags of HTML that stand in words; they call nothing unless a tool or a service has the name."""
_TABLES = ("tags", "services", "tools", "parameters")
_LISTED = ", ".join(f"`{name}`" for name in _TABLES)
_POLICYS = "execute_command"
"""The tag that the policy gives to a shell or to a single program, so that no table of names can."""


class ParsedResponse(Struct, frozen=True):
    """What a text said in a dialect: words, what was thought aloud, calls with their order, and notes about it.

    A call that was begun and cannot be read is a `ToolCall.broken`. `order` and `deferred` are those of ModelResponse.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    order: Block | None = None
    deferred: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def build_order(items: Sequence[int | Block]) -> Block | None:
    """Return the order that places of calls and blocks of a response say, None where no block is among them."""
    if not any(isinstance(item, Block) for item in items):
        return None
    only = items[0]
    return only if len(items) == 1 and isinstance(only, Block) else Block("sequential", tuple(items))


class Reader(Protocol):
    """Reads one response as it arrives. However the text is split, `close` returns the same."""

    def feed(self, text: str) -> str:
        """Take in the next piece; return the words in it that may be shown now, without tags and thoughts."""

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The calls that are complete by now, in written order."""

    def close(self) -> ParsedResponse:
        """Return what the response said; called once, at its end."""


class ReadableDialect(Protocol):
    """A way to write calls into a text that can be read."""

    def build_reader(self, tools: Sequence[ToolSpec]) -> Reader:
        """Return a reader of one response; only these tools can be called, another name is a call that is refused."""


class Dialect(ReadableDialect, Protocol):
    """A way for a model to write calls into its text. Pure: it reads and writes texts, and knows nothing of effects."""

    stop: tuple[str, ...] = ()
    """Texts before which generation may end; at most four."""

    def build_section(self, tools: Sequence[ToolSpec]) -> str:
        """Return the part of the system prompt that teaches the dialect for these tools."""

    def render_message(self, message: Message) -> str:
        """Return an assistant's message as a model would write it; it reads as the same words, calls and order."""

    def render_answers(self, answers: Sequence[tuple[str, str]]) -> str:
        """Return the answers to calls, (tool name, JSON object text) each, as one text; nothing in it can be a call."""


class Names(Struct, frozen=True):
    """A table of names.

    `tags` leads from a tag to a tool, `services` from a service to one of ours or to an MCP server, `tools` from
    `service.tool` to a tool. `parameters` leads, by tool of ours, from a parameter to ours; `paths[]` says that the
    value is the one item of the list `paths`.
    """

    tags: Mapping[str, str] = {}
    services: Mapping[str, str] = {}
    tools: Mapping[str, str] = {}
    parameters: Mapping[str, Mapping[str, str]] = {}

    @classmethod
    def from_json(cls, data: Json) -> Names:
        """Return the table a configuration holds; raise UsageError with one sentence for what is none."""
        if not isinstance(data, Mapping):
            raise UsageError(f"the names of a dialect are a table with the keys {_LISTED}")
        if other := sorted(str(key) for key in data if key not in _TABLES):
            raise UsageError(f"the names of a dialect have no key `{other[0][:64]}`; there are {_LISTED}")
        for key in ("tags", "services"):
            table = data.get(key)
            if taken := sorted(RESERVED & {str(name).lower() for name in table} if isinstance(table, Mapping) else ()):
                raise UsageError(f"`{key}` holds `{taken[0]}`, a tag with a meaning of its own; choose another name")
        parameters = data.get("parameters", {})
        if not isinstance(parameters, Mapping):
            raise UsageError("`parameters` leads from a tool to a table of its parameters' names")
        tags = _read_texts(data.get("tags", {}), "tags")
        if any(tag.lower() == _POLICYS and tool == "run_shell" for tag, tool in tags.items()):
            where = "`commands.execute_command: run_shell` in a policy file"
            raise UsageError(f"`tags` cannot lead `{_POLICYS}` to `run_shell`; the policy does, by {where}")
        return cls(
            tags,
            _read_texts(data.get("services", {}), "services"),
            _read_texts(data.get("tools", {}), "tools"),
            {str(tool): _read_texts(table, f"parameters.{tool}") for tool, table in parameters.items()},
        )


def _read_texts(table: Json, where: str) -> Mapping[str, str]:
    if not isinstance(table, Mapping):
        raise UsageError(f"`{where[:80]}` is no table of names; write `theirs: ours`")
    found: dict[str, str] = {}
    for theirs, ours in table.items():
        if not isinstance(theirs, str) or not isinstance(ours, str) or not ours or not is_name(theirs):
            raise UsageError(f"`{where[:80]}` holds `{str(theirs)[:64]}`, which cannot be a tag; write `theirs: ours`")
        found[theirs] = ours
    return found


_FILES = "read_file list_files search_text analyze_error write_file edit_file search_replace render_template"
SERVICES: Mapping[str, Sequence[str]] = {
    "files": (*_FILES.split(" "), "create_directory", "delete_path", "move_path"),
    "git": ("git_status", "git_diff", "git_log", "git_add", "git_commit", "git_push"),
    "shell": ("run_command", "run_shell", "run_tests", "run_build", "list_processes"),
    "http": ("http_request",),
    "memory": ("remember", "recall"),
}
"""The built-in tools as services."""
SERVICE_OF: Mapping[str, str] = {tool: service for service, tools in SERVICES.items() for tool in tools}
COMMANDS: Mapping[str, Sequence[str]] = {"run_command": ("argv",), "run_tests": ("argv",), "run_build": ("argv",)}
"""Built-in tools that run a program, and the parameters that hold it."""
LINES = frozenset(("content", "old", "new", "diff", "message", "text", "body", "pattern", "replacement"))
"""Their parameters that are taken literally and may well have many lines."""


class LookAlikes:
    """The names of tags, to be compared with what is in a text."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        # "<read_file>", "<read_file path".
        self._tag = re.compile(rf"<(?:{'|'.join(map(re.escape, self._names))})[\s/>]")

    def has_tag(self, text: str) -> bool:
        """Whether a text holds the opening tag of one of the names."""
        return self._tag.search(text) is not None

    def find_like(self, text: str) -> str:
        """Return the name that a text with characters beyond ASCII looks like, "" for none.

        It does when the name is left once invisible characters are gone and compatible ones are replaced, or when it
        differs only in characters beyond ASCII, and in no more than half.
        """
        seen = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
        for name in self._names:
            if len(name) == len(seen):
                other = [char for char, own in zip(seen.lower(), name.lower(), strict=False) if char != own]
                if len(other) * 2 <= len(name) and not any(char.isascii() for char in other):
                    return name
        return ""
