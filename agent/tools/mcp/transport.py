"""How a server is reached: as a process of ours, or at a URL; what it sends is bounded, and counted against a budget.

The SDK's own transport keeps a line without an end in memory, however long; here such a line cuts the connection. Over
HTTP no redirect leads off the server's origin, and no proxy of the environment is used.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from foregate.agent.sandbox.starter import SandboxPlace, StartedProgram, start_program
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration, expand_variables
from foregate.agent.workspace.confinement import (
    find_tier,
    list_kept_files,
    list_secret_files,
    plan_sandbox,
    plan_writable,
)
from foregate.agent.workspace.process import HeadTail
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Mcp, Policy
from foregate.policy.risk.globs import is_beneath
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError, WorkspaceError

CONFINED: Mapping[str, str] = {"TMPDIR": "/tmp", "npm_config_offline": "true", "UV_OFFLINE": "1"}  # noqa: S108
"""What a confined server sees beside its HOME: package runners would wait for a network that is not there."""
_HOME = "/run/foregate"
"""Where HOME lies where the workspace must not lie in it, as it would then be writable with it to Landlock."""
_PACKAGES = "node_modules"
_MANIFESTS = ("package.json", "pyproject.toml")
_CHUNK = 65536
_TICK = 0.01
_SEEN = 80
"""Characters kept of a line that is no message, to be shown where the server fails."""
Heard = MemoryObjectSendStream[SessionMessage | Exception]
Said = MemoryObjectReceiveStream[SessionMessage]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class ServerSandbox:
    """What one server is confined in: the workspace, read-only or to `work` in, the system, and the server's own files.

    What it hides and holds it does by covering the files there are when the server starts. Other than a view of the
    workspace that is laid over it, this shows what changes there; but a file that another replaces is then bare.
    """

    def __init__(self, server: ServerConfiguration, policy: Policy, workspace: Workspace) -> None:
        self._server, self._policy, self._workspace = server, policy, workspace
        self._covered: dict[str, tuple[int, int]] = {}

    def plan(self, program: str, environment: Mapping[str, str], private: str) -> SandboxPlace:
        """Return the sandbox to start the server in now, and its folder there; `private` is an empty folder.

        Raises UsageError where this machine has none: the server is then not to be started.
        """
        probe = find_tier(self._workspace, self._policy)
        if probe["tier"] != "full":
            why = f"it is to be confined (`confine: {self._server.confine}`), which this machine cannot"
            cure = f"{probe['cure']}, or " if probe["cure"] else ""
            raise UsageError(f"{why} ({probe['reason']}); {cure}let it run as you do with `confine: none`")
        cwd = self._server.cwd and str(Path(self._server.cwd).expanduser())
        words = [*self._server.args, *([program] if "/" in self._server.command else []), *([cwd] if cwd else [])]
        path = os.pathsep.join([environment.get("PATH", os.defpath), str(Path(program).parent)])
        more = tuple(list_folders(words, self._policy.files.secret))
        self._covered = self._find_covered()
        plan = plan_sandbox(self._workspace, self._policy, named=(), path=path, more=more)
        assert plan is not None
        if self._server.confine == "work":
            plan = plan_writable(plan, self._policy)
        else:
            seen = [*plan["folders"], str(self._workspace.root)]
            plan = {**plan, "workspace": private, "writable": True, "kept": [private], "home": _HOME, "folders": seen}
        return plan, cwd or plan["home"]

    @property
    def is_outdated(self) -> bool:
        """Whether a file that is to be hidden or held has come or was replaced since the server was started."""
        return self._find_covered() != self._covered

    def _find_covered(self) -> dict[str, tuple[int, int]]:
        root = self._workspace.root
        found = list_secret_files(self._workspace, self._policy)
        found += list_kept_files(root, self._policy) if self._server.confine == "work" else []
        marks = {}
        for path in found:
            with suppress(OSError):
                there = (root / path).stat()
                marks[path] = there.st_ino, 0 if stat.S_ISDIR(there.st_mode) else there.st_ctime_ns
        return marks


def list_folders(words: Sequence[str], secret: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders that words name, also behind a `=`; of a file, the folder it lies in with what it loads.

    A path that matches one of the `secret` patterns counts as no path.
    """
    for word in words:
        for text in (word, word.partition("=")[2]):
            if text.startswith("/") and not is_beneath(text.strip("/"), secret):
                path = Path(os.path.normpath(text))
                if path.is_dir():
                    yield str(path)
                elif path.is_file():
                    yield from map(str, find_project(path))


def find_project(file: Path) -> Iterator[Path]:
    """Yield the folder of a file, and where that is part of a project or of installed packages, theirs."""
    yield file.parent
    packages = [folder for folder in file.parents if folder.name == _PACKAGES][-1:]
    yield from packages or [f for f in file.parents if any((f / name).is_file() for name in _MANIFESTS)][:1]


class Flood(Exception):
    """A server sent more than it may."""


class McpTraffic:
    """A budget of bytes; `renew` fills it up, which only a call of ours does."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def renew(self) -> None:
        """Let the server send as much as it may from here on."""
        self._left = self._most

    def take(self, count: int) -> None:
        """Count bytes that came; raise Flood once they are too many."""
        self._left -= count
        if self._left < 0:
            raise Flood(f"it sent more than {self._most} bytes without being asked for anything")


class ServerProcess:
    """One process of a server. `ended` says why its output ended, `stderr` keeps the ends of what it wrote there."""

    def __init__(
        self,
        server: ServerConfiguration,
        policy: Mcp,
        environ: Mapping[str, str],
        root: Path,
        sandbox: ServerSandbox | None = None,
    ) -> None:
        self._server, self._policy, self._environ, self._root = server, policy, environ, root
        self.sandbox = sandbox
        self.traffic, self.stderr = McpTraffic(policy.max_traffic), HeadTail(policy.max_stderr)
        self.ended = self.stray = ""
        self._closing = False

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Streams]:
        """Yield the streams from and to the process, its group gone afterwards; raise UsageError if it cannot start."""
        with tempfile.TemporaryDirectory(prefix="foregate-mcp-", ignore_cleanup_errors=True) as empty:
            process = self._start(empty)
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                async with self._connect_streams(process, process.stdin, process.stdout, process.stderr) as streams:
                    yield streams
            finally:
                process.end()

    def _start(self, empty: str) -> StartedProgram:
        environment = build_environment(self._server, self._policy, self._environ, self._root)
        command = str(Path(self._server.command).expanduser()) if "/" in self._server.command else self._server.command
        program = command if "/" in command else shutil.which(command, path=environment.get("PATH", os.defpath))
        if program is None:
            raise UsageError(f"the program `{command[:80]}` was not found; install it, or write its absolute path")
        cwd = Path(self._server.cwd).expanduser() if self._server.cwd else empty
        try:
            folder = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                place = None
                if self.sandbox is not None:
                    place = self.sandbox.plan(program, environment, empty)
                    own = {name: environment[name] for name in self._server.env}
                    environment = {**environment, **CONFINED, "HOME": place[0]["home"], **own}
                words = [command, *self._server.args]
                return start_program(
                    words, program=program, environment=environment, folder=folder, speaks=True, sandbox=place
                )
            finally:
                os.close(folder)
        except (OSError, ValueError, WorkspaceError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"`{command[:80]}` could not be started: {why}") from None

    @asynccontextmanager
    async def _connect_streams(
        self, process: StartedProgram, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
    ) -> AsyncIterator[Streams]:
        heard, hear = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        say, said = anyio.create_memory_object_stream[SessionMessage](0)
        # A cancel may come between any two of these lines.
        with ExitStack() as opened:
            for stream in (heard, hear, say, said):
                opened.callback(stream.close)
            out = await open_reader(stdout, self._policy.max_message, opened)
            errors = await open_reader(stderr, _CHUNK, opened)
            into = await open_writer(stdin, opened)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_messages, process, out, heard)
                tasks.start_soon(self._keep_errors, errors)
                tasks.start_soon(self._write_messages, into, said, heard)
                try:
                    yield hear, say
                finally:
                    self._closing = True
                    for end in (say, hear, into):
                        end.close()
                    with anyio.CancelScope(shield=True):
                        await self._wind_down(process)
                    tasks.cancel_scope.cancel()

    async def _read_messages(self, process: StartedProgram, out: asyncio.StreamReader, heard: Heard) -> None:
        """Hand on each line that is a message, until the output ends or the server sends what no server may."""
        async with heard:
            try:
                while True:
                    line = await out.readuntil(b"\n")
                    self.traffic.take(len(line))
                    if (message := self._parse_message(line)) is not None:
                        await heard.send(message)
            except asyncio.IncompleteReadError:
                self.ended = "" if self._closing else "it closed its output"
            except (asyncio.LimitOverrunError, Flood) as error:
                too_long = f"it sent a message of more than {self._policy.max_message} bytes"
                self.ended = str(error) if isinstance(error, Flood) else too_long
                process.kill()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                # Nobody listens any more.
                return

    def _parse_message(self, line: bytes) -> SessionMessage | None:
        """Return the message in a line; what is none, such as a line of a log, is remembered and left out."""
        try:
            text = strict_json.scrub_escapes(line.decode())
            value = strict_json.parse(text, max_bytes=len(line), max_depth=strict_json.MAX_RECORD_DEPTH)
            return SessionMessage(jsonrpc_message_adapter.validate_python(value, by_name=False))
        except (InvalidJson, ValueError):
            self.stray = self.stray or line[: 4 * _SEEN].decode("utf-8", "replace").strip()[:_SEEN]
            return None

    async def _keep_errors(self, errors: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await errors.read(_CHUNK):
                self.stderr.feed(data)

    async def _write_messages(self, into: asyncio.StreamWriter, said: Said, heard: Heard) -> None:
        try:
            async with said:
                async for message in said:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    into.write(text.encode() + b"\n")
                    await into.drain()
        except OSError:
            self.ended = self.ended or ("" if self._closing else "it closed its input")
            await heard.aclose()

    async def _wind_down(self, process: StartedProgram) -> None:
        """Let the server end by itself now that its input is closed, then tell its group to; killing comes after."""
        if not await self._has_ended_in_time(process):
            process.terminate()
            await self._has_ended_in_time(process)

    async def _has_ended_in_time(self, process: StartedProgram) -> bool:
        with anyio.move_on_after(self._policy.stop_timeout):
            while not process.has_ended:  # noqa: ASYNC110 - a process gives no event
                await anyio.sleep(_TICK)
        return process.has_ended


async def open_reader(pipe: IO[bytes], limit: int, opened: ExitStack) -> asyncio.StreamReader:
    """Return a reader of a pipe that holds lines of at most `limit` bytes; `opened` closes it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
    opened.callback(transport.close)
    return reader


async def open_writer(pipe: IO[bytes], opened: ExitStack) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
    opened.callback(transport.close)
    return asyncio.StreamWriter(transport, protocol, None, loop)


def build_environment(
    server: ServerConfiguration, policy: Mcp, environ: Mapping[str, str], root: Path
) -> dict[str, str]:
    """Return the listed variables and the server's own; no folder of the workspace, whose files could pose as programs,
    and no relative one stays in PATH."""
    listed = {name: environ[name] for name in policy.environment if name in environ}
    if "PATH" in listed:
        folders = (Path(folder) for folder in listed["PATH"].split(os.pathsep) if folder)
        kept = [str(f) for f in folders if f.is_absolute() and not f.resolve().is_relative_to(root)]
        listed["PATH"] = os.pathsep.join(kept)
    return {**listed, **expand_variables(server.env, environ)}


class ServerAtUrl:
    """One connection to a server at a URL. `ended` says why it broke where the server sent what no server may."""

    def __init__(self, server: ServerConfiguration, policy: Mcp, environ: Mapping[str, str]) -> None:
        self._server, self._policy, self._environ = server, policy, environ
        self.traffic = McpTraffic(policy.max_traffic)
        self.ended = self.stray = ""

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Any]:
        """Yield the streams of messages from and to the server; raise UsageError where a header's variable is unset."""
        headers = httpx2.Headers(expand_variables(self._server.headers, self._environ))
        # So that what is counted is what is kept.
        headers["Accept-Encoding"] = "identity"
        start = self._server.start_timeout or self._policy.start_timeout
        call, most = self._server.call_timeout or self._policy.call_timeout, self._policy.max_message
        async with (
            httpx2.AsyncClient(
                transport=httpx2.AsyncHTTPTransport(trust_env=False, retries=0),
                event_hooks={"response": [self._count_answer]},
                trust_env=False,
                follow_redirects=False,
                timeout=httpx2.Timeout(start, read=call),
                headers=headers,
            ) as client,
            streamable_http_client(self._server.url, http_client=client, max_sse_event_size=most) as streams,
        ):
            yield streams

    async def _count_answer(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.DecodingError("it answered in a coding it was not asked for")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = CountedBody(response.stream, self)

    def count(self, size: int, total: int) -> None:
        """Take note of bytes that came, `total` of them in one answer; raise ReadError where they are too many."""
        try:
            if total > self._policy.max_traffic:
                raise Flood(f"it answered with more than {self._policy.max_traffic} bytes")
            self.traffic.take(size)
        except Flood as flood:
            self.ended = str(flood)
            raise httpx2.ReadError(self.ended) from None


class CountedBody(httpx2.AsyncByteStream):
    """The body of an answer, counted."""

    def __init__(self, inner: httpx2.AsyncByteStream, place: ServerAtUrl) -> None:
        self._inner, self._place = inner, place

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._inner:
            total += len(chunk)
            self._place.count(len(chunk), total)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


Transport = ServerProcess | ServerAtUrl
