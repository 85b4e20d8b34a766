"""The chat as a stream for programs: lines of JSON out, JSON or plain text in, until the input ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from foregate.agent.effects.undo import undo
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.assembly.open import open_session
from foregate.cli.chat.slash import COMMANDS, is_command
from foregate.cli.terminal.diff import diff_lines, format_unified
from foregate.cli.terminal.exit_codes import COMPLETED, STATUS
from foregate.cli.terminal.scripting import format_event_line, to_json_line
from foregate.cli.terminal.terminal import InputLine, Pipe, interruptible
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, InvalidJson
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, as_object, as_texts

if TYPE_CHECKING:
    from foregate.agent.effects.preview import Preview
    from foregate.agent.session.result import RunResult
    from foregate.agent.session.session import Session
    from foregate.assembly.open import OpenSession
    from foregate.assembly.setting import SessionOptions


KEYS: Mapping[str, Mapping[str, str]] = {
    "approval": {"y": "yes", "yes": "yes", "a": "grant", "n": "no", "no": "no"},
    "loop": {"a": "anyway", "s": "stop", "m": "more"},
    "tools": {"y": "yes", "yes": "yes", "n": "no", "no": "no"},
}
"""Per gate that asks: what plain text answers, and the answer it is."""
_MAY_HAVE = {"message": frozenset(), "command": frozenset(), "answer": frozenset(("text", "request"))}
_FORMS = '{"message": TEXT}, {"command": TEXT} or {"answer": WORD}'


class Misheard(ForegateError):
    """A line that cannot be taken for anything."""


class Utterance(Struct, frozen=True):
    """One line. `text` is the message, the command or the words that go with an answer.

    `choice` is an answer's word, and `request` the hash of the request it is for, "" where it names none.
    """

    kind: Literal["message", "command", "answer"]
    text: str = ""
    choice: str = ""
    request: str = ""


def parse_utterance(line: str, gate: str = "") -> Utterance | None:
    """Return what a line says, None for an empty one; `gate` is who asks a question now, "" for nobody.

    Raises Misheard with one sentence for anything that is not clearly one thing.
    """
    line = line.strip()
    if not line:
        return None
    if line.startswith("{"):
        return parse_json_utterance(line)
    if is_command(line):
        return Utterance("command", line)
    if not gate:
        return Utterance("message", line)
    key, _, words = line.partition(" ")
    choice = KEYS.get(gate, KEYS["approval"]).get(key.lower())
    if choice is None:
        raise Misheard('a question is open: answer it, or send {"message": TEXT}, which answers it with no')
    return Utterance("answer", words.strip(), choice)


def parse_json_utterance(line: str) -> Utterance:
    """Return what a JSON object says."""
    try:
        said = as_object(strict_json.parse(line))
    except InvalidJson as error:
        raise Misheard(f"{error}; send {_FORMS}, or plain text") from None
    kinds = [kind for kind in _MAY_HAVE if kind in said]
    if len(kinds) != 1 or said.keys() - {kinds[0], *_MAY_HAVE[kinds[0]]}:
        raise Misheard(f"this object is none of {_FORMS}")
    texts: dict[str, str] = {}
    for key in (kinds[0], "text", "request"):
        value = said.get(key, "")
        if not isinstance(value, str):
            raise Misheard(f"`{key}` must be a text")
        texts[key] = value
    content = texts[kinds[0]].strip()
    if not content:
        raise Misheard(f"`{kinds[0]}` is empty")
    match kinds[0]:
        case "message":
            return Utterance("message", content)
        case "command":
            return Utterance("command", content)
        case _:
            return Utterance("answer", texts["text"].strip(), content, texts["request"])


class ChatProgram:
    """Speaks JSON lines. As a Person it prints a question and waits for the one line that answers exactly that."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe, self._out = pipe, sys.stdout
        self.session: Session | None = None

    def print_line(self, value: Json) -> None:
        """Print one line."""
        print(to_json_line(value), file=self._out, flush=True)

    def print_error(self, why: str) -> None:
        """Say in one sentence why nothing came of a line."""
        self.print_line({"error": why})

    def print_event(self, event: Event) -> None:
        """Print an event as it was recorded; a listener of the session."""
        print(format_event_line(event), file=self._out, flush=True)

    async def answer(self, need: Need) -> Reply | None:
        """Ask and return the reply; see Person. Another message, /quit and the end of input leave the question open."""
        asked = strict_json.digest(need.request)
        choices = list_choices(need)
        self.pipe.count_question()
        self.print_line(
            {
                "asks": need.gate,
                "code": need.code,
                "request": asked,
                "answers": choices,
                "expires_at": need.expires_at,
                "sheet": need.request,
                "prospects": self.preview_calls(need),
            }
        )
        while (line := await self.pipe.next_line()) is not None:
            try:
                said = parse_utterance(line.text, need.gate)
                if said is None:
                    continue
                if said.kind == "answer":
                    return build_reply(said, line, choices, asked, self.pipe.questions)
                if said.kind == "message" or said.text == "/quit":
                    self.pipe.put_back(
                        line if said.kind == "command" else InputLine(to_json_line({"message": said.text}))
                    )
                    return None
                raise Misheard(f"a question is open; answer it first: {', '.join(choices)}")
            except Misheard as error:
                self.print_error(str(error))
        return None

    def preview_calls(self, need: Need) -> Mapping[str, Json]:
        """Return what the calls of a sheet would do to the workspace as it is now, by call id."""
        from foregate.agent.effects.preview import preview_calls

        if self.session is None or need.gate != "approval":
            return {}
        return {call: format_preview(prospect) for call, prospect in preview_calls(self.session, need).items()}


def list_choices(need: Need) -> list[str]:
    """Return the words that answer a question; one about a plan names them itself."""
    if need.gate == "task_plan":
        return list(as_texts(need.request["answers"], "answers"))
    if need.gate == "loop":
        return [*(["anyway"] if need.request.get("can_override") else []), "stop", "more"]
    return ["yes", *(["grant"] if need.request.get("grants") else []), "no"]


def build_reply(said: Utterance, line: InputLine, choices: list[str], asked: str, questions: int) -> Reply:
    """Return the reply an answer gives; raise Misheard for one to another question, or to one it cannot have read."""
    if said.request and said.request != asked:
        raise Misheard("this answers another request than the one that is open; nothing was decided")
    if not said.request and line.questions < questions:
        raise Misheard("this answer came before the question was asked; read the question, then answer it")
    if said.choice not in choices:
        raise Misheard(f"`{said.choice[:40]}` is no answer here; answer with {', '.join(choices)}")
    if said.choice in ("more", "edit") and not said.text:
        raise Misheard(f"`{said.choice}` needs a `text`")
    return Reply(said.choice, said.text, by="program")


def format_preview(prospect: Preview) -> Json:
    """Return a prospect as JSON; there are no `changes` where no change of a file is known."""
    return {
        "changes": [
            {
                "path": change.path,
                "new": change.before is None,
                "diff": format_unified(diff_lines(change.before or b"", change.after)),
            }
            for change in prospect.changes
        ],
        "problem": prospect.problem,
        "kept": [resource.id for resource in prospect.kept],
        "lost": [resource.id for resource in prospect.lost],
    }


_FOR_PEOPLE = "shows something to a person; a program reads it from the events"


async def run_stream(setting: SessionOptions, program: ChatProgram) -> int:
    """Open the session and talk with a program; return the exit code, which tells whether something is left open."""
    setting.person, setting.listeners = program, [program.print_event]
    opened = await open_session(setting)
    program.session = opened.session
    try:
        program.print_line({"opened": opened.name, "resumed": opened.resumed, "notes": list(opened.notes)})
        await ChatStream(opened, program).run_chat()
        task = opened.session.state.task
        return STATUS[task.paused] if task is not None and task.paused else COMPLETED
    finally:
        await opened.close()


class ChatStream:
    """One session and the program it talks with."""

    def __init__(self, opened: OpenSession, program: ChatProgram) -> None:
        self.session, self.program = opened.session, program
        self.over = False

    async def run_chat(self) -> None:
        """Go on with what is open, then act on each line; a line that cannot be acted on is one error."""
        if (task := self.session.state.task) is not None and task.paused != "needs_input":
            await self.run_steps(run_to_outcome(self.session))
        while not self.over and (line := await self.program.pipe.next_line()) is not None:
            try:
                said = parse_utterance(line.text)
                if said is not None:
                    await self.take_utterance(said)
            except ForegateError as error:
                self.program.print_error(str(error))

    async def take_utterance(self, said: Utterance) -> None:
        """Act on what was said; raise Misheard where nothing can come of it."""
        if said.kind == "answer":
            raise Misheard("no question is open, so there is nothing to answer")
        if said.kind == "message":
            await self.run_steps(run(self.session, said.text))
            return
        name, _, rest = said.text.partition(" ")
        match name, rest.strip():
            case "/quit", "":
                self.over = True
            case "/undo", call:
                await self.undo_call(call)
            case "/auto", ("on" | "off") as switch:
                await self.session.record(Draft(PolicyChanged(auto=switch == "on"), "person"))
            case "/dry-run", ("on" | "off") as switch:
                await self.session.record(Draft(PolicyChanged(dry_run=switch == "on"), "person"))
            case "/mode", ("direct" | "plan" | "auto") as mode:
                await self.session.record(Draft(PolicyChanged(mode=mode), "person"))
            case "/plan", request if request and self.session.state.task is None:
                await self.session.record_message(request, plan=True)
                await self.run_steps(run_to_outcome(self.session))
            case "/execute", "":
                await self.ask_again()
            case _ if name in COMMANDS:
                raise Misheard(
                    f"`{name}` {_FOR_PEOPLE}" if not COMMANDS[name].more else f"say `{describe_usage(name)}`"
                )
            case _:
                raise Misheard(f"there is no command `{name[:40]}`")

    async def undo_call(self, call: str) -> None:
        """Take a change back, without asking again."""
        report = await undo(self.session, call or None)
        if not report.done:
            raise Misheard("; ".join(report.sentences))

    async def ask_again(self) -> None:
        """Ask again what waits for an answer."""
        task = self.session.state.task
        if task is None or task.paused not in ("awaiting_approval", "paused"):
            raise Misheard("nothing waits for an answer")
        await self.run_steps(run_to_outcome(self.session))

    async def run_steps(self, steps: Coroutine[None, None, RunResult]) -> None:
        """Run steps of the loop; an interrupt ends their task as cancelled, and the chat goes on."""
        with interruptible(asyncio.ensure_future(steps)) as task:
            await task


def describe_usage(name: str) -> str:
    """Return how a command is written."""
    return f"{name} {COMMANDS[name].more}"
