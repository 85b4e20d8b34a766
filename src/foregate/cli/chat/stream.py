"""The chat as a stream for programs: lines of JSON out, JSON or plain text in, until the input ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import redirect_stdout
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct, ValidationError, convert, field

from foregate.agent.loop.cancelling import cancel_task
from foregate.agent.loop.reconcile import list_open_calls, resolve_outcomes
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.loop.undo import preview_calls, undo
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.assembly.identity import find_identity
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.slash import COMMANDS, FOR_PEOPLE, OUTCOMES, WAITING, describe_unknown, is_command
from foregate.gates.support.replies import check_reply, list_choices
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, InvalidJson, UsageError
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.identity import name_person
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, as_object
from foregate.views.terminal.answer_keys import KEYS as APPROVAL_KEYS
from foregate.views.terminal.diff import dump_preview
from foregate.views.terminal.exit_codes import COMPLETED, STATUS
from foregate.views.terminal.scripting import format_event_line, to_json_line
from foregate.views.terminal.standard_streams import is_lost
from foregate.views.terminal.terminal import InputLine, Pipe, interruptible

T = TypeVar("T")
Kind = Literal["message", "command", "answer"]
KEYS: Mapping[str, Mapping[str, str]] = {
    "approval": APPROVAL_KEYS,
    "loop": {"a": "anyway", "s": "stop", "m": "more"},
    "tools": {"y": "yes", "yes": "yes", "n": "no", "no": "no"},
}
"""Per gate that asks: what plain text answers, and the answer it is."""
_PER_CALL: Mapping[str, str] = {
    "calls": '`calls` must be an object that gives calls by their ids an answer, such as {"c3.1": "no"}',
    "named": '`named` must be an object that gives calls by their ids lists of texts, such as {"c3.1": ["10"]}',
    "declared": '`declared` must be an object that says of tools what they do, such as {"mail.list": "reads"}',
}
"""What of an answer is about single calls, and what is said where its shape is another."""
_MAY_HAVE: Mapping[Kind, tuple[str, ...]] = {
    "message": (),
    "command": (),
    "answer": ("text", "request", "user", *_PER_CALL),
}
_FORMS = '{"message": TEXT}, {"command": TEXT} or {"answer": WORD}'
_ASKING = 'a question is open: answer it, or give its task up with {"command": "/cancel"}'
_FOR_PEOPLE = "is for a person at a terminal; a program reads the events"


class Misheard(ForegateError):
    """A line that cannot be taken for anything."""


class Utterance(Struct, frozen=True):
    """One line a program says. `text` is the message, the command or the words that go with an answer. `choice` is an
    answer's word, `request` the hash of the request it is for, "" where it names none; `calls`, `named` and
    `declared` are as in a Reply. `user` is whom the program has authenticated, "" where it names nobody."""

    kind: Kind
    text: str = ""
    choice: str = ""
    request: str = ""
    calls: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    declared: Mapping[str, Json] = field(default_factory=dict)
    user: str = ""


def parse_utterance(line: str, gate: str = "") -> Utterance | None:
    """Return what a line says to `gate`, which asks now, or to nobody (""); None for an empty one. Raises Misheard with
    one sentence for anything that is not clearly one thing."""
    line = line.strip()
    if not line:
        return None
    if line.startswith("{"):
        return _parse_json(line)
    if is_command(line):
        return Utterance("command", line)
    if not gate:
        return Utterance("message", line)
    key, _, words = line.partition(" ")
    choice = KEYS.get(gate, KEYS["approval"]).get(key.lower())
    if choice is None:
        raise Misheard(_ASKING)
    return Utterance("answer", words.strip(), choice)


def _parse_json(line: str) -> Utterance:
    try:
        said = as_object(strict_json.parse(line))
    except InvalidJson as error:
        raise Misheard(f"{error}; send {_FORMS}, or plain text") from None
    kinds = [kind for kind in _MAY_HAVE if kind in said]
    if len(kinds) != 1 or said.keys() - {(kind := kinds[0]), *_MAY_HAVE[kind]}:
        raise Misheard(f"this object is none of {_FORMS}")
    texts: dict[str, str] = {}
    for key in (kind, "text", "request", "user"):
        value = said.get(key, "")
        if not isinstance(value, str):
            raise Misheard(f"`{key}` must be a text")
        texts[key] = value.strip() if key != "request" else value
    if not texts[kind]:
        raise Misheard(f"`{kind}` is empty")
    if kind != "answer":
        return Utterance(kind, texts[kind])
    calls = _read_per_call(said, "calls", dict[str, Literal["yes", "no", "grant", "project", "wider"]])
    named = _read_per_call(said, "named", dict[str, tuple[str, ...]])
    declared = _read_per_call(said, "declared", dict[str, str | dict[str, bool | str | list[str]]])
    return Utterance(kind, texts["text"], texts[kind], texts["request"], calls, named, declared, texts["user"])


def _read_per_call(said: Mapping[str, Json], key: str, shape: type[T]) -> T:
    """Return what an answer says of single calls; raise Misheard where it has another shape."""
    try:
        return convert(said.get(key, {}), shape)
    except ValidationError:
        raise Misheard(_PER_CALL[key]) from None


async def run_stream(setting: SessionOptions) -> int:
    """Open the session and talk with a program; return the exit code, which tells whether something is left open."""
    stream = ChatStream()
    # What a tool prints is no line of ours.
    with redirect_stdout(sys.stderr):
        setting.by = find_identity("program")
        setting.person, setting.listeners = stream, [stream.print_event]
        setting.on_retry = stream.print_retry
        opened = await open_session(setting)
        try:
            stream.print_line({"opened": opened.name, "resumed": opened.resumed, "notes": list(opened.notes)})
            await stream.run_chat(opened.session)
            task = opened.session.state.task
            return STATUS[task.paused] if task is not None and task.paused else COMPLETED
        finally:
            await opened.close()


class ChatStream:
    """A session and a program that talk in JSON lines; as a Person it waits for the line that answers its question."""

    session: Session

    def __init__(self) -> None:
        self._pipe, self._out = Pipe(), sys.stdout
        self._over = False
        self._cancel: Callable[[], object] = bool
        """Cancels what runs."""

    def print_line(self, value: Json) -> None:
        print(to_json_line(value), file=self._out, flush=True)

    def print_event(self, event: Event) -> None:
        """Print an event as it was recorded; a listener of the session."""
        print(format_event_line(event), file=self._out, flush=True)

    def print_retry(self, told: str) -> None:
        """Print why a request to the model failed that is tried again, and for how long."""
        self.print_line({"retrying": told})

    async def answer(self, need: Need) -> Reply | None:
        """Ask and return the reply; see Person. /quit and the end of input leave the question open."""
        asked, choices = strict_json.digest(need.request), list_choices(need)
        self._pipe.count_question()
        previews = preview_calls(self.session, need) if need.gate == "approval" else {}
        told: dict[str, Json] = {"asks": need.gate, "code": need.code, "request": asked, "answers": choices}
        told |= {"expires_at": need.expires_at, "sheet": need.request}
        self.print_line({**told, "prospects": {call: dump_preview(preview) for call, preview in previews.items()}})
        while (line := await self._pipe.next_line()) is not None:
            try:
                said = parse_utterance(line.text, need.gate)
                if said is None:
                    continue
                if said.kind == "answer":
                    reply = _build_reply(said, line, asked, self._pipe.questions)
                    check_reply(need, reply)
                    return reply
                if said.kind == "message":
                    raise Misheard(_ASKING)
                if is_cancel(line.text):
                    self._cancel()
                    await asyncio.sleep(0)
                if said.text != "/quit":
                    raise Misheard(f"a question is open; answer it first: {', '.join(choices)}")
                self._pipe.put_back(line)
                return None
            except (Misheard, UsageError) as error:
                self.print_line({"error": str(error)})
        return None

    async def run_chat(self, session: Session) -> None:
        """Resume what is open, then act on each line; a line that cannot be acted on is one error. Once nobody
        reads, the task in hand is the last."""
        self.session = session
        if (task := session.state.task) is not None and task.paused != "needs_input":
            await self._run_steps(run_to_outcome(session))
        while not (self._over or is_lost(self._out)) and (line := await self._pipe.next_line()) is not None:
            try:
                said = parse_utterance(line.text)
                if said is not None and said.kind == "answer" and session.state.question is not None:
                    # It is asked once more, and this is the answer.
                    self._pipe.put_back(line)
                    await self._run_steps(run_to_outcome(session))
                elif said is not None:
                    await self._take_utterance(said)
            except ForegateError as error:
                self.print_line({"error": str(error)})

    async def _take_utterance(self, said: Utterance) -> None:
        """Act on what was said; raise Misheard where nothing can come of it."""
        session = self.session
        if said.kind == "answer":
            raise Misheard("no question is open, so there is nothing to answer")
        if said.kind == "message":
            await self._run_steps(run(session, said.text))
            return
        name, _, rest = said.text.partition(" ")
        match name, rest.strip():
            case "/quit", "":
                self._over = True
            case "/cancel", "":
                await cancel_task(session)
            case "/undo", call:
                report = await undo(session, call or None)
                if not report.done:
                    raise Misheard("; ".join(report.sentences))
            case (("/auto" | "/dry-run"), ("on" | "off") as switch):
                is_on = switch == "on"
                changed = PolicyChanged(auto=is_on) if name == "/auto" else PolicyChanged(dry_run=is_on)
                await session.record(Draft(changed, "person"))
            case "/mode", ("direct" | "plan" | "auto") as mode:
                await session.record(Draft(PolicyChanged(mode=mode), "person"))
            case "/plan", request if request and session.state.task is None:
                await session.record_message(request, plan=True)
                await self._run_steps(run_to_outcome(session))
            case "/execute", "":
                if (task := session.state.task) is None or task.paused not in WAITING:
                    raise Misheard("nothing waits for an answer")
                await self._run_steps(run_to_outcome(session))
            case "/resolve", rest:
                await self._resolve(rest)
            case _ if name not in COMMANDS:
                raise Misheard(describe_unknown(said.text))
            case _ if name in FOR_PEOPLE:
                raise Misheard(f"`{name}` {_FOR_PEOPLE}")
            case _:
                raise Misheard(f"say `{f'{name} {COMMANDS[name].more}'.strip()}`")

    async def _resolve(self, rest: str) -> None:
        """Say which calls have an unknown outcome, once what can be found out is, or what the program knows of one."""
        call, _, word = rest.rpartition(" ")
        if rest and (word not in OUTCOMES or not call.strip()):
            raise Misheard(f"say `/resolve CALL {'|'.join(OUTCOMES)}`")
        await resolve_outcomes(self.session, call.strip(), OUTCOMES[word] if rest else None)
        self.print_line({"unknown": list_open_calls(self.session)})

    async def _run_steps(self, steps: Coroutine[None, None, RunResult]) -> None:
        """Run steps of the loop; an interrupt or a line that cancels ends their task, and the chat goes on."""
        task, cancelled = asyncio.ensure_future(steps), asyncio.ensure_future(self._pipe.take_line(is_cancel))
        self._cancel = partial(stop_task, task)
        cancelled.add_done_callback(partial(self._take_cancel, task))
        try:
            with interruptible(task):
                await task
        finally:
            cancelled.cancel()

    def _take_cancel(self, task: asyncio.Task[RunResult], waited: asyncio.Future[None]) -> None:
        """Cancel what runs for the line that says so; where that has just ended, the line is for what is left open."""
        if not waited.cancelled() and not stop_task(task):
            self._pipe.put_back(InputLine("/cancel"))


def is_cancel(line: str) -> bool:
    """Whether a line cancels what runs: `/cancel`, as text or as a command."""
    try:
        said = parse_utterance(line)
    except Misheard:
        return False
    return said is not None and (said.kind, said.text) == ("command", "/cancel")


def _build_reply(said: Utterance, line: InputLine, asked: str, questions: int) -> Reply:
    """Return the reply an answer gives; raise Misheard for one to another question, or to one it cannot have read."""
    if said.request and said.request != asked:
        raise Misheard("this answers another request than the one that is open; nothing was decided")
    if not said.request and line.questions < questions:
        raise Misheard("this answer came before the question was asked; read the question, then answer it")
    by = name_person(said.user).user or "program"
    return Reply(said.choice, said.text, by, said.calls, said.named, said.declared)
