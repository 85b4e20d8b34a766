"""The servers of a session: started together, reviewed one by one, and compared with what was pinned at each call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from mcp import types
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from foregate.agent.tools.mcp.connection import McpConnection, ServerRefusal, ServerUnavailable
from foregate.agent.tools.mcp.definition import (
    Definition,
    Pins,
    build_review,
    build_spec,
    format_names,
    get_pin_state,
    read_definitions,
    read_effect,
)
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.agent.tools.mcp.transport import ServerAtUrl, ServerProcess, ServerSandbox
from foregate.agent.tools.tool import Tool, cap_text
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.records import is_prose
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.protocols import Person
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, ToolResult

_BETWEEN = "(the structured content)"
"""A line that continues no JSON, YAML or table."""


def build_result(answer: types.CallToolResult, most: int) -> ToolResult:
    """Return the result of a call that was answered; at most about `most` bytes of text are kept."""
    text = strict_json.scrub(render_answer(answer)) or "(the tool answered without any content)"
    text, dropped = cap_text(text, most)
    failed = answer.is_error
    return ToolResult(not failed, text, origin=Origin.EXTERNAL, error="tool_error" if failed else "", dropped=dropped)


def render_answer(answer: types.CallToolResult) -> str:
    """Return the blocks of an answer and its structured content as one text.

    Where one block says the structure, or a text that the structure only wraps, the text is that block. Where each
    block says a part of the structure that is no prose, or no block exists, the text is the structure as JSON. Where a
    block says anything else it is both, and has no record by the line between them: nothing is found where they differ.
    """
    parts, structure = [render_block(block) for block in answer.content], answer.structured_content
    if structure is None:
        return "\n".join(parts)
    said = _write_forms(structure)
    if len(parts) == 1 and (_says(parts[0], said) or _is_wrapped(parts[0], structure)):
        return parts[0]
    whole = json.dumps(structure, ensure_ascii=False)
    known = said.union(*map(_write_forms, _list_parts(structure)))
    if all(isinstance(block, types.TextContent) and _says(block.text, known) for block in answer.content):
        return whole
    return "\n".join([*(part for part in parts if not _says(part, said)), _BETWEEN, whole])


def _is_wrapped(text: str, structure: Json) -> bool:
    """Whether a structure is a text or another value and a name: `result`, or for prose any name."""
    if not isinstance(structure, dict) or len(structure) != 1:
        return False
    ((name, value),) = structure.items()
    return _says(text, _write_forms(value)) if name == "result" else value == text and is_prose(text)


def render_block(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"({block.type}, {block.mime_type[:80]}, {count_bytes(block.data)} bytes, not shown)"
        case types.ResourceLink():
            kind = f", {block.mime_type[:80]}" if block.mime_type else ""
            size = f", {block.size} bytes" if block.size is not None else ""
            return f"(a link to {block.uri}: {block.name}{kind}{size})"
        case types.EmbeddedResource(resource=types.TextResourceContents() as inner):
            return f"({inner.uri})\n{inner.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            return f"({blob.uri}, {blob.mime_type or 'bytes'}, {count_bytes(blob.blob)} bytes, not shown)"
    return "(content of a kind that is not known here)"


def count_bytes(data: str) -> int:
    """Return how many bytes a text in base64 stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _list_parts(structure: Json) -> Iterator[Json]:
    """Yield the values in a structure, and the items of those that are lists; prose is better left unchanged."""
    values = structure.values() if isinstance(structure, dict) else structure if isinstance(structure, list) else ()
    for value in values:
        for part in (value, *value) if isinstance(value, list) else (value,):
            if not (isinstance(part, str) and is_prose(part)):
                yield part


def _write_forms(value: Json) -> set[str]:
    """Return how a block says a value: a text itself, and anything as JSON."""
    forms = {value} if isinstance(value, str) else set()
    with suppress(InvalidJson, TypeError):
        forms.add(strict_json.canonical(value).decode())
    return forms


def _says(text: str, forms: set[str]) -> bool:
    if text in forms:
        return True
    try:
        return strict_json.canonical(strict_json.parse(text)).decode() in forms
    except InvalidJson:
        return False


class ReviewedServer:
    """One server. A tool is offered while its definition is the one that was approved; once it differs it is gone.

    `unread`: it lists more tools than the policy lets be read.
    """

    def __init__(
        self, configuration: ServerConfiguration, policy: Policy, environ: Mapping[str, str], workspace: Workspace
    ) -> None:
        self.configuration, self.policy, self._environ, self._root = configuration, policy.mcp, environ, workspace.root
        confined = configuration.confine != "none"
        self._sandbox = ServerSandbox(configuration, policy, workspace) if confined else None
        self.name = configuration.name
        self.definitions: list[Definition] = []
        self.unread = False
        self._approved: dict[str, str] = {}
        self._gone: set[str] = set()
        self._connection: McpConnection | None = None
        self._restarts = self._calls = 0
        self._starting = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Start the server and learn what it lists; raise ServerUnavailable or UsageError where that fails."""
        self._connection = await self._open_connection()
        listed = await self._list_tools(self._connection)
        self.definitions = read_definitions(listed, self.configuration, self.policy)
        self.unread = len(listed) > self.policy.max_tools

    async def close(self) -> None:
        """End the server; doing it twice is harmless."""
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
        if self._connection is not None:
            await self._connection.close()

    def approve(self, definitions: list[Definition]) -> list[Tool]:
        """Let the model be offered these tools, exactly as they are defined, and return them."""
        self._approved |= {definition.name: definition.hash for definition in definitions}
        return [self._build_tool(definition) for definition in definitions]

    def _build_tool(self, definition: Definition) -> Tool:
        effect = read_effect(definition.hints)
        return Tool(
            build_spec(definition, self.configuration, self.policy),
            partial(self._call_tool, definition.name),
            classify=(lambda arguments: effect) if effect is not None else None,
            offered=lambda: definition.name not in self._gone,
        )

    async def _call_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Call a tool that is still what was approved."""
        self._calls += 1
        try:
            connection = await self._connect_and_compare()
            if tool in self._gone:
                changed = f"the server `{self.name}` changed what it says of this tool since it was pinned"
                text = f"nothing was sent: {changed}; it is no longer offered"
                return ToolResult(False, text, error="definition_changed")
            return build_result(await connection.call_tool(tool, arguments), self.policy.max_result)
        except ServerRefusal as error:
            return ToolResult(False, f"the server refused: {error}", origin=Origin.EXTERNAL, error="refused")
        except (ServerUnavailable, UsageError) as error:
            sent = isinstance(error, ServerUnavailable) and error.sent
            unknown = "gave no answer, so it is unknown whether this took effect"
            text = f"the server `{self.name}` {unknown if sent else 'cannot be asked; nothing was sent'}: {error}"
            return ToolResult(False, text, origin=Origin.EXTERNAL, error="" if sent else "not_sent", unknown=sent)
        finally:
            self._calls -= 1

    async def _connect_and_compare(self) -> McpConnection:
        """Return a connection over which the server has just said what its tools are; one that broke is made again."""
        while True:
            connection = await self._connect()
            try:
                self._compare(await self._list_tools(connection))
            except ServerUnavailable:
                if connection.is_alive:
                    raise
            else:
                return connection

    async def _connect(self) -> McpConnection:
        """Return a connection that is alive; a server that ended is started again, later each time, a few times."""
        async with self._starting:
            if self._connection is not None and self._sandbox is not None and self._sandbox.is_outdated:
                if self._calls > 1:
                    raise ServerUnavailable("files it must not see have changed; call again when its other calls end")
                await self._reopen()
            left = 0 if self._closed else max(self.policy.restarts - self._restarts, 0)
            retrying = AsyncRetrying(
                stop=stop_after_attempt(1 + left),
                wait=wait_exponential(multiplier=self.policy.backoff * 2**self._restarts / 1000),
                retry=retry_if_exception_type(ServerUnavailable),
                reraise=True,
            )
            async for attempt in retrying:
                with attempt:
                    if attempt.retry_state.attempt_number > 1:
                        await self._restart()
                    if self._connection is None or not self._connection.is_alive:
                        raise ServerUnavailable(f"it ended, and was started again {self._restarts} times already")
            assert self._connection is not None
            return self._connection

    async def _restart(self) -> None:
        """Start the server again in place of the one that ended."""
        self._restarts += 1
        await self._reopen()

    async def _reopen(self) -> None:
        """Start the server again, ended or not."""
        ended, self._connection = self._connection, None
        if ended is not None:
            await ended.close()
        self._connection = await self._open_connection()

    async def _open_connection(self) -> McpConnection:
        at_url = self.configuration.url and ServerAtUrl(self.configuration, self.policy, self._environ)
        other = at_url or ServerProcess(self.configuration, self.policy, self._environ, self._root, self._sandbox)
        connection = McpConnection(self.configuration, self.policy, other, self._schedule_check)
        try:
            await connection.open()
        except BaseException:
            # Once more, for a cancel may have cut the first closing short.
            await connection.close()
            raise
        return connection

    async def _list_tools(self, connection: McpConnection) -> list[Json]:
        """Return what the server lists now; half the time of a call is left for the call itself."""
        start = self.configuration.start_timeout or self.policy.start_timeout
        call = self.configuration.call_timeout or self.policy.call_timeout
        seconds = min(start, max(1, call // 2))
        try:
            async with asyncio.timeout(seconds):
                return await connection.list_tools()
        except TimeoutError:
            raise ServerUnavailable(f"it did not list its tools within {seconds} seconds") from None

    def _compare(self, listed: list[Json]) -> None:
        """Withdraw every tool that is not listed any more exactly as it was approved, for good."""
        definitions = read_definitions(listed, self.configuration, self.policy, check=False)
        now = {definition.name: definition.hash for definition in definitions if not definition.problem}
        self._gone |= {name for name, pinned in self._approved.items() if now.get(name) != pinned}

    def _schedule_check(self) -> None:
        """Look again soon, once however often the server says that it has changed."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._check_listing())

    async def _check_listing(self) -> None:
        try:
            if self._connection is not None and self._connection.is_alive:
                self._compare(await self._list_tools(self._connection))
        except ServerUnavailable:
            # The next call starts it again, or says why it cannot.
            return


class McpTools:
    """What servers bring to a session: `tools` that are pinned, and `notes` on what is not offered and why."""

    def __init__(self, servers: Sequence[ReviewedServer], pins: Pins) -> None:
        self.servers, self.pins = servers, pins
        self.tools: list[Tool] = []
        self.notes: list[str] = []
        self.failed: dict[str, str] = {}

    @classmethod
    async def start(
        cls,
        listed: Sequence[ServerConfiguration],
        policy: Policy,
        pins: Pins,
        environ: Mapping[str, str],
        workspace: Workspace,
    ) -> McpTools:
        """Start the servers, note those that fail; raise WorkspaceError, with none started, for unreadable pins."""
        for configuration in listed:
            pins.of(configuration.name)
        found = cls([ReviewedServer(configuration, policy, environ, workspace) for configuration in listed], pins)
        try:
            await asyncio.gather(*(found._begin(server) for server in found.servers))
        except BaseException:
            await found.close()
            raise
        return found

    async def offer(self, person: Person | None, clock: Callable[[], str]) -> None:
        """Take over the tools that are pinned; ask the person for others, once per server, and pin what is agreed."""
        for server in self.servers:
            pinned = self.pins.of(server.name)
            stands: dict[str, list[Definition]] = {"pinned": [], "changed": [], "new": [], "unusable": []}
            for definition in server.definitions:
                stands[get_pin_state(definition, pinned)].append(definition)
            asked = [*stands["changed"], *stands["new"]]
            if asked and person is not None:
                reply = await person.answer(build_review(server.configuration, server.definitions, pinned))
                if reply is not None and reply.choice == "yes":
                    self.pins.pin(asked, clock())
                    stands["pinned"] += asked
                    asked = []
            self.tools += server.approve([d for d in server.definitions if d in stands["pinned"]])
            self._note(server.configuration, stands, asked)
            if server.unread:
                most = f"the first {server.policy.max_tools} (`mcp.max_tools`)"
                self.notes.append(f"MCP server `{server.name}`: it lists more tools than are read, {most}")

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self.servers))

    def _note(
        self, server: ServerConfiguration, stands: Mapping[str, list[Definition]], asked: Sequence[Definition]
    ) -> None:
        name = server.name
        begin, pin = f"MCP server `{name}`: not offered", f"`foregate tools pin {name}`"
        changed, new = f"`foregate tools diff {name}` shows how, {pin} pins them anew", f"{pin} shows and pins them"
        if server.is_handed_over:
            changed = new = "a new session asks about them again"
        for state, why, remedy in (
            ("changed", "they changed since they were pinned", changed),
            ("new", "nobody has pinned them", new),
        ):
            if asked and stands[state]:
                self.notes.append(f"{begin}, since {why}: {format_names(stands[state])}; {remedy}")
        self.notes += [f"{begin} is `{d.name}`: {d.problem}" for d in stands["unusable"]]

    async def _begin(self, server: ReviewedServer) -> None:
        try:
            await server.start()
        except (ServerUnavailable, UsageError) as error:
            await server.close()
            self.failed[server.name] = str(error)
            self.notes.append(f"MCP server `{server.name}` is not available: {error}")
