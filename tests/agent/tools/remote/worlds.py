"""A real runtime in a process of its own, a wire to it that can be cut, and agents that use it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from foregate.agent.models.scripted import Answer, ScriptedModel, ScriptedPerson, Step
from foregate.agent.tools.remote_connection import EndingClient
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from tests.forever import FOREVER
from tests.policies import policy_with
from tests.processes import FOREGATE_WITHOUT_SANDBOXES

TOKEN = "a-token-for-tests-only"
BELIEVING = {
    "runtime.declarations": "believe",
    "runtime.patience": 2,
    "runtime.timeout": FOREVER,
    "runtime.backoff": 10,
    "narration.mode": "off",
    "uncertainty.mode": "off",
    "plan.mode": "off",
    "critique.mode": "off",
}
"""What an agent's policy says in these tests: the runtime is the operator's own, and only evidence and approval ask."""
WAITING = "echo x > started\nread x < gate\necho done >> effects.txt\n"
"""A program that says it has begun, waits for leave, and then has its effect."""


@dataclass
class RuntimeProcess:
    """`foregate tools serve --ws` over `folder`, with a home of its own; it can be killed and started again."""

    folder: Path
    home: Path
    policy: Mapping[str, Any] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process, at the port it had before, and wait until it listens."""
        file = self.home.parent / f"{self.home.name}.yaml"
        file.write_text(json.dumps({"version": 1, **self.policy}))
        self.process = subprocess.Popen(
            [
                sys.executable,
                *FOREGATE_WITHOUT_SANDBOXES,
                "tools",
                "serve",
                "--ws",
                f"127.0.0.1:{self.port}",
                "--workspace",
                str(self.folder),
                "--policy",
                str(file),
            ],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("serving ws://127.0.0.1:"), said + self.process.stdout.read()
        self.port = int(said.strip().rpartition(":")[2])

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the runtime, and of commands in its home."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return kept | {"FOREGATE_HOME": str(self.home), "FOREGATE_RUNTIME_TOKEN": TOKEN}

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the process with a signal, and return its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(FOREVER)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def foregate(self, *arguments: str) -> tuple[int, str]:
        """Run a command in the runtime's home; return exit code and what it said."""
        done = subprocess.run(
            [sys.executable, "-Im", "foregate", *arguments],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FOREVER,
        )
        return done.returncode, done.stdout


class Wire:
    """A TCP proxy to a port. `cut` breaks every connection through it; while `down` it takes no new one."""

    def __init__(self, port: int) -> None:
        self.to, self.port, self.down = port, 0, False
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen at a port of its own."""
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self, *, down: bool = False) -> None:
        """Break every connection at once, as a cable does."""
        self.down = down
        for writer in list(self._open):
            writer.transport.abort()

    async def stop(self) -> None:
        """Stop listening."""
        self.cut(down=True)
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.down:
                return
            there, away = await asyncio.open_connection("127.0.0.1", self.to)
            self._open |= {writer, away}
            await asyncio.gather(self._pass(reader, away), self._pass(there, writer))
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        self._open.discard(writer)
        writer.transport.abort()


@dataclass
class RemoteAgent:
    """An agent with a home of its own whose tools run in a runtime."""

    home: Path
    port: int
    policy: Mapping[str, Any] = field(default_factory=lambda: BELIEVING)
    token: str = TOKEN

    @asynccontextmanager
    async def session(
        self, steps: Sequence[Step] = (), *, replies: Sequence[Answer] | None = None, resume: str = "", **more: Any
    ) -> AsyncIterator[OpenSession]:
        """Open a session whose script is to be played to its end."""
        model = ScriptedModel(steps)
        person = ScriptedPerson(replies) if replies is not None else None
        here = self.home.parent / "here"
        here.mkdir(exist_ok=True)
        environ = {"FOREGATE_HOME": str(self.home), "FOREGATE_RUNTIME_TOKEN": self.token, "HOME": str(self.home.parent)}
        opened = await open_session(
            SessionOptions(
                workspace=here,
                model=model,
                policy=policy_with(dict(self.policy)),
                person=person,
                resume=resume,
                runtime=f"ws://127.0.0.1:{self.port}",
                environ=environ,
                **more,
            )
        )
        try:
            yield opened
        finally:
            await opened.close(end=False)
        model.finish()
        if person is not None:
            person.finish()


async def events(opened: OpenSession, *kinds: str) -> list[Event]:
    """Return the events of a session of these kinds, all without."""
    log = await opened.session.log.read()
    return [event for event in log if not kinds or event.kind in kinds]


class Bare:
    """Someone who knows the token and speaks the protocol by hand."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, **frame: Json) -> None:
        """Send one message."""
        await self.connection.send(json.dumps(frame))

    async def next(self) -> dict[str, Json]:
        """Return the next message."""
        said: dict[str, Json] = json.loads(await self.connection.recv())
        return said

    async def request(
        self,
        id: str,  # noqa: A002
        tool: str,
        arguments: Json,
        *,
        deadline: int = FOREVER * 1000,
        **more: Json,
    ) -> None:
        """Send a call."""
        raw = json.dumps(arguments)
        body = {"digest": ToolCall.parse(tool, raw).digest, "deadline": deadline, **more}
        await self.say(type="request", id=id, tool=tool, arguments=raw, **body)

    async def call(self, id: str, tool: str, arguments: Json, **more: Json) -> dict[str, Json]:  # noqa: A002
        """Send a call and return what is said next."""
        await self.request(id, tool, arguments, **more)
        return await self.next()


@asynccontextmanager
async def bare(port: int, agent: str | None = "tester", token: str = TOKEN) -> AsyncIterator[Bare]:
    """Connect by hand; as `agent`, or without saying who."""
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(
        f"ws://127.0.0.1:{port}",
        additional_headers=headers,
        compression=None,
        proxy=None,
        close_timeout=1,
        create_connection=EndingClient,
    ) as connection:
        talk = Bare(connection)
        assert (await talk.next())["type"] == "welcome"
        if agent is not None:
            await talk.say(type="attach", agent=agent)
            assert (await talk.next())["type"] == "attached"
        yield talk


class Gate:
    """A program in a workspace that says when it has begun, and has its effect when it is let go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "go.sh").write_text(WAITING)
        for name in ("started", "gate"):
            os.mkfifo(folder / name)
        self._started = os.open(folder / "started", os.O_RDONLY | os.O_NONBLOCK)
        self._gate = os.open(folder / "gate", os.O_RDWR | os.O_NONBLOCK)

    async def begun(self) -> None:
        """Return when the program has begun; fails when it does not."""
        loop, seen = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._started, seen.set)
        try:
            async with asyncio.timeout(FOREVER):
                await seen.wait()
        finally:
            loop.remove_reader(self._started)

    def let_go(self) -> None:
        """Let the program have its effect."""
        os.write(self._gate, b"x\n")

    @property
    def effects(self) -> int:
        """How often it had its effect."""
        file = self.folder / "effects.txt"
        return file.read_text().count("done") if file.exists() else 0

    def close(self) -> None:
        """Let go of everything."""
        self.let_go()
        os.close(self._started)
        os.close(self._gate)
