"""Fixtures: a console that really listens on loopback, over a home with a session in it, and who asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Struct

import foregate
from foregate.agent.models.scripted import Step
from foregate.assembly.home import Home
from foregate.cli.demo import FOREIGN, build_post_tools
from foregate.console.address import Address, bind
from foregate.console.app import build_app
from foregate.console.console import Console
from foregate.console.guard import SignIn
from foregate.console.server import ConsoleServer
from foregate.console.waiting import list_waiting
from foregate.testing import ScriptedModel, calls, says
from tests.forever import FOREVER

POLICY = "version: 1\nrules: {list: [{id: ask, then: ask, tool: '*'}]}\n" + "".join(
    f"{gate}: {{mode: 'off'}}\n" for gate in ("evidence", "plan", "critique")
)
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


class Served(Struct):
    """A console that listens, and a browser that it has let in: one that keeps the cookie."""

    console: Console
    address: Address
    entry: SignIn
    browser: httpx2.AsyncClient

    def build_form(self, **fields: str) -> dict[str, str]:
        """Return the fields of a form as a page of the console sends them."""
        return {"word": self.entry.form_word, **fields}

    @property
    def origin(self) -> Mapping[str, str]:
        """What a browser says of a form of the console's own."""
        return {"Origin": self.address.url, "Sec-Fetch-Site": "same-origin"}

    async def find_question(self) -> str:
        """Return the address of the one question that waits."""
        (row,) = await list_waiting(self.console.approvals)
        return f"/waiting/{row.session}/{row.event}"

    async def send(self, path: str, **fields: str) -> httpx2.Response:
        """Send a form as a browser does."""
        return await self.browser.post(path, data=self.build_form(**fields), headers=self.origin)


Serve = Callable[..., Awaitable[Served]]


@asynccontextmanager
async def serve_home(root: Path, *, read_only: bool = False, **more: Any) -> AsyncIterator[Served]:
    """Serve the console of a home, or of a copy that is only read, until the context ends."""
    listening = bind("127.0.0.1", 0)
    address = Address("127.0.0.1", listening.getsockname()[1])
    entry = SignIn(address.port)
    app = build_app(Home(root, read_only=read_only), entry, address, **more)
    server = ConsoleServer(app)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with httpx2.AsyncClient(base_url=address.url, timeout=FOREVER) as browser:
            entered = await browser.get("/enter", params={"token": entry.token})
            assert entered.status_code == 200
            yield Served(app.state.console, address, entry, browser)
    finally:
        server.end()
        await task


@pytest.fixture
async def serve(home: Path) -> AsyncIterator[Serve]:
    """Serves the home of the test, as often as it is called."""
    async with AsyncExitStack() as stack:

        async def start(**more: Any) -> Served:
            return await stack.enter_async_context(serve_home(home, **more))

        yield start


@pytest.fixture
def home(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose policy lets everything ask, and a workspace with a file."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "FOREGATE_MODEL", "FOREGATE_CONFIG", "FOREGATE_MCP"):
        monkeypatch.delenv(name, raising=False)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    monkeypatch.setenv("FOREGATE_POLICY", str(policy))
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    (folder / "a.txt").write_text("teh cat\n")
    return tmp_path / "home"


async def ask(*wanted: tuple[str, dict[str, Any]], task: str = "fix teh in a.txt", **more: Any) -> str:
    """Have a session ask about calls, with nobody there, and be gone; return its name."""
    return await play(task, calls(*(wanted or (EDIT,)), text="I will fix a.txt."), **more)


async def play(task: str, *steps: Step, **more: Any) -> str:
    """Have a model take steps of which the last asks, with nobody there, and be gone; return the session's name."""
    async with foregate.Agent(model=ScriptedModel(steps), person=foregate.AbsentPerson(), **more) as agent:
        assert (await agent.run(task)).status == "awaiting_approval"
        return agent.session


async def ask_to_name(home: Path) -> str:
    """Have a session ask about a message to an address that only a letter named; return its name."""
    policy = home.with_name("only_mandate.yaml")
    policy.write_text(POLICY.replace("rules: {list: [{id: ask, then: ask, tool: '*'}]}\n", ""))
    send = ("send_message", {"to": FOREIGN, "text": "here it is"})
    tools = build_post_tools(home.with_name("outbox"))
    steps = calls(("read_mail", {}), text="I read the mail."), calls(send, text="I send Ann the copy.")
    return await play("Read my mail and send Ann a copy.", *steps, tools=tools, policy=policy)


async def talk(task: str = "Say hello.", answer: str = "Hello.") -> str:
    """Have a session in words; return its name."""
    async with foregate.Agent(model=ScriptedModel([says(answer)])) as agent:
        await agent.run(task)
        return agent.session
