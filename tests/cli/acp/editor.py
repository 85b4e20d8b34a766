"""An editor for tests: the protocol package's own client, around a real process of `foregate acp`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import connect_to_agent, text_block
from acp.interfaces import Agent
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    DeniedOutcome,
    FileEditToolCallContent,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
    UserMessageChunk,
)

from foregate.assembly.home import Home, find_session
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.verify import verify_session
from tests.agent.models.openai.scripted_server import KEY, Stream, delta, piece

Press = Callable[[ToolCallUpdate, Sequence[PermissionOption]], str]
"""Which option is pressed, "" to take the question back."""
LIMIT = 64 * 1024 * 1024
SERVE = (sys.executable, "-Im", "foregate", "acp")


def press(*choices: str) -> Press:
    """Return somebody who presses these in order, and the last one from then on."""
    left = list(choices)
    return lambda call, options: left.pop(0) if len(left) > 1 else left[0]


@dataclass
class Editor:
    """What an editor sees. `asked` are the questions with their options, `updates` what it is told, in order."""

    press: Press = field(default_factory=lambda: press("no"))
    updates: list[Any] = field(default_factory=list)
    asked: list[tuple[ToolCallUpdate, Sequence[PermissionOption]]] = field(default_factory=list)
    asking: asyncio.Event = field(default_factory=asyncio.Event)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    holds: bool = False
    """Whether a question is left without an answer."""

    def on_connect(self, conn: Agent) -> None:
        """Nothing is needed of it."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.told.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self.asking.set()
        if self.holds:
            await asyncio.Event().wait()
        choice = self.press(tool_call, options)
        outcome = AllowedOutcome(outcome="selected", option_id=choice) if choice else DeniedOutcome(outcome="cancelled")
        return RequestPermissionResponse(outcome=outcome)

    @property
    def words(self) -> str:
        """What the agent has said."""
        return "".join(one.content.text for one in self.updates if isinstance(one, AgentMessageChunk))

    @property
    def heard(self) -> list[str]:
        """What the person said, as a replay tells it."""
        return [one.content.text for one in self.updates if isinstance(one, UserMessageChunk)]

    def find_calls(self, kind: str = "") -> list[Any]:
        """Return the updates about calls."""
        about = [one for one in self.updates if one.session_update in ("tool_call", "tool_call_update")]
        return [one for one in about if not kind or one.status == kind]

    @property
    def diffs(self) -> list[FileEditToolCallContent]:
        """The diffs of calls that are done."""
        content = [part for one in self.find_calls("completed") for part in one.content or ()]
        return [part for part in content if isinstance(part, FileEditToolCallContent)]

    async def until(self, words: str = "", status: str = "") -> None:
        """Return once the agent has said these words, or a call stands so."""
        while words not in self.words or (status and not self.find_calls(status)):
            self.told.clear()
            await self.told.wait()

    @property
    def kinds(self) -> list[list[str]]:
        """The kinds of the options of each question."""
        return [[one.kind for one in options] for _, options in self.asked]


@dataclass
class Desk:
    """A home, a workspace and an environment in which `foregate acp` is started."""

    home: Path
    folder: Path
    environ: dict[str, str]

    def use(self, url: str) -> None:
        """Let a scripted endpoint answer."""
        self.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY, "FOREGATE_MODEL": "m"}

    def judge_by(self, **sections: Mapping[str, str]) -> None:
        """Let only approval judge, and what is said here beside it."""
        quiet = {gate: {"mode": "off"} for gate in ("narration", "uncertainty", "evidence", "plan", "critique")}
        file = self.home.parent / "policy.yaml"
        file.write_text(json.dumps({**quiet, **sections}))
        self.environ["FOREGATE_POLICY"] = str(file)

    @asynccontextmanager
    async def start(self, editor: Editor) -> AsyncIterator[tuple[Any, asyncio.subprocess.Process]]:
        """Start the agent and connect; afterwards it has ended by itself, and well."""
        process = await asyncio.create_subprocess_exec(
            *SERVE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=self.environ,
            limit=LIMIT,
        )
        connection = connect_to_agent(editor, process.stdin, process.stdout)  # type: ignore[arg-type]
        await connection.initialize(protocol_version=1)
        try:
            yield connection, process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await connection.close()
            code = await process.wait()
        assert code == 0

    async def foregate(self, *arguments: str) -> tuple[int, str]:
        """Run another command in the same home."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-Im",
            "foregate",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
            env=self.environ,
        )
        out, _ = await process.communicate()
        return process.returncode or 0, out.decode()

    async def is_sound(self) -> bool:
        """Whether the newest session's log has no defect; one that is left open may still grow."""
        log = Home(self.home).open_log()
        try:
            return verify_session(log, await find_session(log, "last")).ok
        finally:
            log.close()


def says(text: str, *calls: tuple[str, str]) -> Stream:
    """Return a response that streams its words, then calls with a name and arguments each."""
    words = [delta(content=part) for part in text.split(" ") for part in ([f"{part} "])]
    made = [piece(number, arguments, id=f"w{number}", name=name) for number, (name, arguments) in enumerate(calls)]
    return Stream([*words, *made, delta("tool_calls" if calls else "stop")])


async def begin(desk: Desk, connection: Any, *servers: Any) -> str:
    """Begin a session in the workspace; return its name."""
    begun = await connection.new_session(cwd=str(desk.folder), mcp_servers=list(servers))
    return str(begun.session_id)


async def prompt(connection: Any, session: str, *blocks: Any) -> str:
    """Send a prompt, texts or blocks; return why its turn ended."""
    given = [text_block(block) if isinstance(block, str) else block for block in blocks]
    return str((await connection.prompt(session_id=session, prompt=given)).stop_reason)


def build_environ(home: Path) -> dict[str, str]:
    """Return an environment without anything of the one that runs the tests but its path."""
    return {"PATH": os.environ["PATH"], "HOME": str(home.parent), "FOREGATE_HOME": str(home)}


def read_blobs(home: Path) -> FileBlobs:
    """Return what a home keeps beside its log."""
    return FileBlobs(home / "blobs")


def build_stdio(name: str, command: str, args: Sequence[str], env: Mapping[str, str]) -> Any:
    """Return an MCP server as an editor hands it over."""
    from acp.schema import EnvVariable, McpServerStdio

    variables = [EnvVariable(name=key, value=value) for key, value in env.items()]
    return McpServerStdio(name=name, command=command, args=list(args), env=variables)
