"""The cases of a row, each played by a real session over a real workspace against the server of that row."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import foregate
from foregate.agent.loop.runner import run
from foregate.agent.models.openai.model import OpenAIModel
from foregate.agent.tools.tool import Tool
from foregate.assembly.model_roles import open_learnt
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.message import Message, ModelRequest
from foregate.telemetry.log.memory_log import MemoryLog
from serving.mind import FIXED, LONG, NOTE, NOTED, PARTS, READ, TYPO
from serving.row import Refusal, Server, read_table
from serving.rules import count_tokens
from serving.server import KEY, Played, listen

ROOM = 9000
"""Tokens that a window is larger than the first request of a job: two parts of the long one fit, not three."""
PART = 3200
"""Tokens of a part of the long job, about."""
MOST = 12
"""Requests of one job at most beyond those that it needs."""
OTHER = "OpenAI"
"""Whose conversation a case takes over."""
STRICT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Case:
    """What is played: `kind` says how, `refusal` is the one that the case is about."""

    server: str
    kind: str
    refusal: Refusal | None = None

    @property
    def name(self) -> str:
        """The server and what is played."""
        about = f": {self.refusal.case}" if self.refusal is not None and self.refusal.case else ""
        return f"{self.server}, {self.kind}{about}"


@dataclass(slots=True)
class Ended:
    """How a case ended. `first` and `second` are requests beyond those needed, the first and the second time.

    `effects` counts the entries, `wrong` says in words what should not be, "" where all is well.
    """

    case: Case
    done: bool = False
    said: str = ""
    doubled: int = 0
    first: int = 0
    second: int = 0
    slept: Sequence[float] = ()
    wrong: str = ""
    refused: Sequence[str] = field(default_factory=list)


def list_cases(row: Server) -> Iterator[Case]:
    """Yield the cases of a row."""
    kinds = ("whole", "streamed", "resumed", "from elsewhere", "strict", "too long")
    yield from (Case(row.name, kind) for kind in kinds if kind != "too long" or row.too_long is not None)
    yield from (Case(row.name, "refuses", one) for one in row.refuses if one.case)
    if row.bad_call is not None:
        yield Case(row.name, "bad call", row.bad_call)
    if row.limit is not None:
        yield Case(row.name, "limit", row.limit)


def play(case: Case) -> Ended:
    """Play a case; nothing that goes wrong in it is raised."""
    row, ended = read_table()[case.server], Ended(case)
    try:
        asyncio.run(asyncio.wait_for(_play(row, case, ended), 60))
    except Exception as error:
        ended.wrong = f"{type(error).__name__}: {str(error)[:300]}"
    judge(row, ended)
    return ended


def judge(row: Server, ended: Ended) -> None:
    """Say what is wrong with an end: it is neither done nor one true sentence, or something was done twice."""
    ends = ended.case.refusal.ends if ended.case.refusal is not None else ""
    ends = ends or (row.too_long.ends if row.too_long is not None and ended.case.kind == "too long" else "")
    if ended.wrong:
        return
    if ended.doubled:
        ended.wrong = f"{ended.doubled} effects too many or too few"
    elif not ended.done and not (ends and re.search(ends, ended.said)):
        ended.wrong = f"ended with: {ended.said[:300]}"
    elif not ended.done and "\n" in ended.said.strip():
        ended.wrong = f"ended with more than a sentence: {ended.said[:300]}"
    elif ended.first > MOST or ended.second > MOST:
        ended.wrong = f"took {ended.first} and {ended.second} requests more than needed"
    elif ended.case.kind == "limit" and ended.done and ended.case.refusal is not None:
        wait, slept = ended.case.refusal.wait, sum(ended.slept)
        if wait is not None and not wait <= slept <= wait * 1.5 + 1:
            ended.wrong = f"waited {slept:.1f} s where {wait:g} s were asked for"


async def _play(row: Server, case: Case, ended: Ended) -> None:
    always = [one for one in row.refuses if not one.case]
    once, refusals, at = None, always, 0
    match case.kind:
        case "refuses":
            assert case.refusal is not None
            refusals = [case.refusal, *always] if case.refusal.when else always
            once = None if case.refusal.when else case.refusal
        case "bad call":
            once, at = case.refusal, 1
        case "limit":
            once = case.refusal
    with tempfile.TemporaryDirectory() as folder:
        world = World(row, Path(folder))
        world.offers = case.refusal.offers if case.refusal is not None else 0
        async with listen(Played(row, refusals, once, at)) as played:
            by = case.refusal.by if case.kind == "refuses" and case.refusal is not None else case.kind
            await play_against(world, played, by, ended)
            ended.refused = played.refused


async def play_against(world: World, played: Played, kind: str, ended: Ended) -> None:
    """Play a kind of case against a server that listens."""
    match kind:
        case "strict":
            await _ask_strictly(world, played, ended)
        case "too long":
            await _play_long(world, played, ended)
        case "from elsewhere":
            await _go_on_elsewhere(world, played, ended)
        case "resumed":
            await _resume(world, played, ended)
        case _:
            await _play_twice(world, played, ended, stream=kind == "streamed")


class World:
    """A workspace, a home, and a tool whose effects are counted."""

    def __init__(self, row: Server, root: Path) -> None:
        self.row, self.home, self.workspace = row, root / "home", root / "workspace"
        self.entries = Counter[str]()
        self.slept: list[float] = []
        self.offers = 0
        for place in (self.home, self.workspace / "notes", self.workspace / "parts"):
            place.mkdir(parents=True)
        self.write()

    def write(self) -> None:
        """Put the files where they are when a job begins."""
        (self.workspace / "notes/a.txt").write_text("It is teh cat.\n")
        line = "This is a line of a part that says nothing of any use, number {}.\n"
        for number in range(PARTS):
            text = "".join(line.format(at) for at in range(PART * 4 // len(line)))
            (self.workspace / f"parts/{number}.txt").write_text(text)

    def build_tools(self, more: int) -> list[Tool]:
        """Return the tool that adds an entry to a list, and so many others that the job does not need."""
        entries = self.entries

        @foregate.tool(effect="edit", external=False, reversible=True, targets={"path": "file"})
        def add_entry(path: str, item: str) -> str:
            """Add an entry to a list that counts what was done.

            Args:
                path: The file of the list.
                item: What was done.
            """
            entries[item] += 1
            return f"added {item} to {path}"

        def build_other(number: int) -> Tool:
            @foregate.tool(name=f"look_{number}", effect="observation", external=False)
            def look() -> str:
                """Look at nothing."""
                return ""

            return look

        return [add_entry, *map(build_other, range(more))]

    def build_model(self, played: Played, *, stream: bool) -> OpenAIModel:
        """Return the client for a server; waits are recorded and take no time."""

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        kept = open_learnt({"FOREGATE_HOME": str(self.home)})
        return OpenAIModel(played.row.model, base_url=played.url, api_key=KEY, stream=stream, sleep=sleep, kept=kept)

    async def open(
        self, played: Played, log: MemoryLog, *, stream: bool = False, resume: str = "", builtin: bool = True
    ) -> Any:
        """Open a session, or go on with one."""
        setting = SessionOptions(
            self.workspace,
            self.build_model(played, stream=stream),
            tools=self.build_tools(self.offers),
            log=log,
            environ={"FOREGATE_HOME": str(self.home)},
            resume=resume,
            builtin=builtin,
            dialect=None if resume or not self.row.dialect else self.row.dialect,
        )
        return await open_session(setting)


async def _play_twice(world: World, played: Played, ended: Ended, *, stream: bool) -> None:
    """Do the short job in a session, and again in another one: what was learnt the first time is known by then."""
    extra: list[int] = []
    for _ in range(2):
        before, entries = played.extra, sum(world.entries.values())
        opened = await world.open(played, MemoryLog(), stream=stream)
        try:
            outcome = await run(opened.session, TYPO)
        finally:
            await opened.close()
        ended.said = f"{outcome.text or outcome.report.blocker}"
        ended.done = outcome.status == "completed" and FIXED in outcome.text
        extra.append(played.extra - before)
        wanted = sum(world.entries.values()) - entries - 1
        ended.doubled += max(wanted, 0) if not ended.done else abs(wanted)
        if ended.done and "the cat" not in (world.workspace / "notes/a.txt").read_text():
            ended.wrong = "the file is not as it should be"
        if not extra[1:]:
            ended.slept = tuple(world.slept)
        if not ended.done or ended.wrong or ended.case.kind in ("bad call", "limit"):
            break
        world.write()
    ended.first, ended.second = extra[0], extra[-1] if len(extra) > 1 else 0


async def _resume(world: World, played: Played, ended: Ended) -> None:
    """Do a job, close the session, open it again, and do the next: the server gets what it said."""
    log, before = MemoryLog(), played.extra
    opened = await world.open(played, log)
    name = opened.name
    outcome = await run(opened.session, TYPO)
    await opened.close(end=False)
    ended.said = outcome.text or outcome.report.blocker
    if outcome.status != "completed":
        return
    await _take_up(world, played, log, name, ended)
    ended.first = played.extra - before


async def _go_on_elsewhere(world: World, played: Played, ended: Ended) -> None:
    """Do a job with another server, then go on with this one: it gets what every server has."""
    log = MemoryLog()
    other = read_table()[OTHER if played.row.name != OTHER else "DeepSeek, thinking"]
    async with listen(Played(other, [one for one in other.refuses if not one.case])) as elsewhere:
        opened = await world.open(elsewhere, log)
        name = opened.name
        outcome = await run(opened.session, TYPO)
        await opened.close(end=False)
    ended.said = outcome.text or outcome.report.blocker
    if outcome.status == "completed":
        await _take_up(world, played, log, name, ended)
        ended.first = played.extra


async def _take_up(world: World, played: Played, log: MemoryLog, name: str, ended: Ended) -> None:
    opened = await world.open(played, log, resume=name)
    try:
        outcome = await run(opened.session, NOTE)
    finally:
        await opened.close()
    ended.said = outcome.text or outcome.report.blocker
    ended.done = outcome.status == "completed" and NOTED in outcome.text
    ended.doubled = abs(sum(world.entries.values()) - 2) if ended.done else 0


async def _play_long(world: World, played: Played, ended: Ended) -> None:
    """Do the long job against a window that it does not fit into."""
    row = played.row
    before = played.extra
    assert row.too_long is not None
    opened = await world.open(played, MemoryLog())
    first = opened.session

    base = _measure_first(first)
    window = base + ROOM
    played.refusals = [*played.refusals, row.too_long.model_copy(update={"when": {"window": window}})]
    try:
        outcome = await run(first, LONG)
    finally:
        await opened.close()
    ended.said = outcome.text or outcome.report.blocker
    ended.done = outcome.status == "completed" and READ in outcome.text
    ended.doubled = max(0, world.entries["parts"] - 1) if not ended.done else abs(world.entries["parts"] - 1)
    ended.first = played.extra - before


def _measure_first(session: Any) -> int:
    tools = [
        {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        for spec in session.catalogue.values()
    ]
    return count_tokens({"messages": [{"content": message.text} for message in session.state.messages], "tools": tools})


async def _ask_strictly(world: World, played: Played, ended: Ended) -> None:
    """Ask as plan mode does: a strict schema, a temperature, a bound on tokens, texts to stop at; twice."""
    messages = [Message("system", "Answer in JSON."), Message("user", TYPO)]
    request = ModelRequest(
        messages, schema_name="plan", schema=STRICT, temperature=0.2, max_tokens=500, stop=("<end>",), purpose="plan"
    )
    extra: list[int] = []
    for _ in range(2):
        before = played.extra
        model = world.build_model(played, stream=False)
        try:
            ended.said = (await model.respond(request)).text
        finally:
            await model.close()
        extra.append(played.extra - before)
        played.place = ""
    ended.first, ended.second = extra
    ended.done = bool(ended.said)
