"""The chat's own commands; none of them reaches the model."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from rich.text import Text

from foregate.agent.effects.undo import read_undo_history
from foregate.cli.terminal.layout import CARE, NAME, format_labelled, make_visible
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged

if TYPE_CHECKING:
    from foregate.agent.session.result import RunResult
    from foregate.agent.session.session import Session
    from foregate.assembly.open import OpenSession
    from foregate.cli.terminal.person import PersonAtTerminal
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.terminal import Terminal
    from foregate.schemas.event_body import KnownOutcome


MODES = ("direct", "plan", "auto")
"""What /mode takes: see the configuration's `mode`."""


class SlashCommand(Struct, frozen=True):
    """What a command means, what may follow it as /help writes it, and those of it that Tab completes."""

    meaning: str
    more: str = ""
    choices: tuple[str, ...] = ()


COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("this list"),
    "/undo": SlashCommand("take the last change back, or that of a call; shows it first, and asks", "[CALL]"),
    "/resolve": SlashCommand(
        "what came of a call with an unknown outcome; alone: which those are", "[CALL done|not-done]"
    ),
    "/history": SlashCommand("the conversation so far, with the calls that ran"),
    "/decisions": SlashCommand("what was held, denied, asked or allowed; `all`: what passed too", "[all]", ("all",)),
    "/plan": SlashCommand(
        "the plan in force, and what of it is used; of a REQUEST, a plan to confirm and run", "[REQUEST]"
    ),
    "/evidence": SlashCommand("what this session has looked at and changed"),
    "/policy": SlashCommand("the policy in force: where it comes from, and what each gate does"),
    "/auto": SlashCommand(
        "reads and reversible changes in the workspace do not ask; nothing else", "on|off", ("on", "off")
    ),
    "/mode": SlashCommand(
        "who plans changes: `direct` nobody, `plan` all of them, `auto` all but a single one",
        "[direct|plan|auto]",
        MODES,
    ),
    "/dry-run": SlashCommand("calls are judged, changes are not made", "on|off", ("on", "off")),
    "/execute": SlashCommand("show what waits for an answer again; reads that wait run, with N the next N", "[N]"),
    "/quit": SlashCommand("leave; the session stays in the log"),
}
KEYS = {
    "Enter": "sends the message",
    "Alt-Enter": "begins a new line (or Esc, then Enter); pasted lines stay one message",
    "Tab": "completes commands, calls to undo and paths of the workspace",
    "Up, Ctrl-R": "an earlier message; search for one",
    "Ctrl-C": "stops what works, or clears the line; the session goes on",
    "Ctrl-D": "leaves; at a question, leaves it open",
}
_HELP = 16
_COMMAND = re.compile(r"/[a-z-]*(\s|\Z)")


def is_command(typed: str) -> bool:
    """Whether a line is meant as a command; a path, which has another slash in its first word, is not."""
    return _COMMAND.match(typed) is not None


class Chat(Protocol):
    """The conversation whose commands these are: what they show and ask at, and what they act on."""

    opened: OpenSession
    session: Session
    screen: Screen
    terminal: Terminal
    person: PersonAtTerminal | None
    over: bool

    async def run_steps(self, steps: Coroutine[None, None, RunResult]) -> None:
        """Run steps of the loop until they end or a person stops them."""


class SlashCommands:
    """Obeys a line that begins with a slash."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    async def run_command(self, typed: str) -> None:
        """Do what the command says, or say in one sentence why not."""
        name, _, rest = typed.partition(" ")
        if name not in COMMANDS:
            why = "a command is one line" if "\n" in typed else f"there is no command `{make_visible(name)}`"
            self._say(f"{why}; /help lists them", CARE)
            return
        await getattr(self, f"_{name[1:].replace('-', '_')}")(rest.strip())

    def _say(self, text: str | Text, style: str = "") -> None:
        self.chat.screen.say(text, style)

    async def _help(self, rest: str) -> None:
        width = self.chat.screen.console.width
        usages = {f"{name} {command.more}".strip(): command.meaning for name, command in COMMANDS.items()}
        for heading, lines in (("At the prompt", usages), ("Keys", KEYS)):
            self._say(heading, "bold")
            for what, meaning in lines.items():
                self.chat.screen.rows(format_labelled(what, meaning, width, label_style=NAME, room=_HELP))

    async def list_arguments(self, name: str) -> Mapping[str, str]:
        """Return what may follow a command and what each is, for Tab; the newest call that can be undone first."""
        if name == "/resolve":
            return {call: f"{known.tool} {known.target}" for call, known in self.chat.session.state.parked.items()}
        if name != "/undo":
            return dict.fromkeys(COMMANDS[name].choices, COMMANDS[name].meaning)
        left = read_undo_history(await self.chat.session.log.read()).undoable_changes
        return {
            change.call: f"{change.tool} {', '.join(one.resource.id for one in change.changes)}"
            for change in reversed(left)
        }

    async def _policy(self, rest: str) -> None:
        policy, loaded = self.chat.session.policy, self.chat.opened.loaded
        self._say(f"policy {policy.hash[:12]}")
        for source in loaded.sources if loaded else ():
            self.chat.screen.row(f"  from {source}", "dim")
        for gate in self.chat.session.prelude.gates:
            self._say(f"  {gate.name:<12} {gate.mode}")
        approval = policy.approval
        self._say(f"  approval mode {approval.mode}, reads {approval.reads}")

    async def _evidence(self, rest: str) -> None:
        ledger = self.chat.session.state.ledger
        known = ledger.resources()
        for resource, seen in known.items():
            kinds = ", ".join(f"{s.kind.value} at {s.seq} ({s.trust.value})" for s in seen)
            self.chat.screen.row(f"  {resource.kind.value} {resource.id}: {kinds}")
        for resource, earlier, later in ledger.contradictions:
            self.chat.screen.row(f"  {resource.id}: event {later} contradicts event {earlier}", CARE)
        if not known:
            self._say("nothing has been looked at yet")

    async def _plan(self, rest: str) -> None:
        if rest:
            await self._request_plan(rest)
            return
        task = self.chat.session.state.task
        plan = task.plan if task is not None else None
        if plan is None:
            self._say("no plan is in force")
            return
        self.chat.screen.row(f"revision {plan.revision}: {plan.goal}")
        for number, item in enumerate(plan.items, start=1):
            used = f"{item.used} of {item.uses} used" + (f", in {item.folder}" if item.folder else "")
            self.chat.screen.row(f"  {number} {item.effect.value} {item.kind.value} {item.pattern} ({used})")

    async def _request_plan(self, request: str) -> None:
        from foregate.agent.loop.runner import run_to_outcome

        session = self.chat.session
        if session.state.task is not None:
            raise UsageError("a task is still open here; answer it, or say something else first")
        await session.record_message(request, plan=True)
        await self.chat.run_steps(run_to_outcome(session))

    async def _mode(self, rest: str) -> None:
        session = self.chat.session
        if rest not in MODES:
            wanted = f"; say /mode {', /mode '.join(MODES)}" if rest else ""
            self._say(f"/mode is {session.state.mode}{wanted}", CARE if rest else "")
            return
        await session.record(Draft(PolicyChanged(mode=rest), "person"))
        self._say(f"/mode is {rest}", "dim")

    async def _decisions(self, rest: str) -> None:
        from foregate.cli.terminal.screen import is_notable
        from foregate.cli.terminal.timeline import format_decision_rows
        from foregate.telemetry.audit.decisions import read_decisions

        width = self.chat.screen.console.width
        points = list(read_decisions(await self.chat.session.log.read()))
        shown = [point for point in points if rest == "all" or is_notable(point)]
        self.chat.screen.rows(row for point in shown for row in format_decision_rows(point, width))
        if len(shown) < len(points):
            self._say(f"{len(points) - len(shown)} more decisions passed; /decisions all shows them", "dim")

    async def _history(self, rest: str) -> None:
        from foregate.cli.terminal.timeline import format_conversation

        screen = self.chat.screen
        screen.rows(format_conversation(await self.chat.session.log.read(), screen.console.width))

    async def _undo(self, rest: str) -> None:
        from foregate.agent.effects.preview import preview_undo
        from foregate.agent.effects.undo import undo
        from foregate.cli.terminal.diff import LINES, diff_lines, format_change

        chat = self.chat
        before = await undo(chat.session, rest or None, preview=True)
        if not before.done:
            chat.screen.row(before.reason, CARE)
            return
        width = chat.screen.console.width
        chat.screen.rows(
            format_labelled("undo", f"{before.tool} {', '.join(before.resources)} ({before.call})", width, "bold")
        )
        chat.screen.rows(row for step in before.steps for row in format_labelled("would", step, width))
        change = read_undo_history(await chat.session.log.read()).finished[before.call]
        for back in preview_undo(chat.session, change):
            lines = diff_lines(back.before or b"", back.after)
            chat.screen.rows(format_change(lines, width, most=LINES))
        if chat.terminal.interactive and not await self._ask_to_confirm("undo this? (y) "):
            self._say("nothing was undone")
            return
        report = await undo(chat.session, before.call)
        for sentence in () if report.done else report.sentences:
            chat.screen.row(sentence, CARE)

    async def _resolve(self, rest: str) -> None:
        from foregate.agent.effects.reconcile import list_open_calls, resolve_outcomes
        from foregate.evidence.state.conversation import CAME

        ways: Mapping[str, KnownOutcome] = {"done": "done", "not-done": "not_done"}
        call, _, word = rest.rpartition(" ")
        if rest and word not in ways:
            self._say("/resolve takes a call and done or not-done", CARE)
            return
        session = self.chat.session
        for found in await resolve_outcomes(session, call.strip(), ways.get(word)):
            self._say(f"  {found.call} {CAME[found.outcome]}")
        for known, what in (left := list_open_calls(session)).items():
            self.chat.screen.row(f"  {known} {what}: nobody knows whether it took effect", CARE)
        if not (left or rest):
            self._say("the outcome of every call is known")

    async def _ask_to_confirm(self, question: str) -> bool:
        try:
            typed = await self.chat.terminal.read_answer(question)
        except KeyboardInterrupt:
            return False
        return (typed or "").strip().lower() in ("y", "yes")

    async def _auto(self, rest: str) -> None:
        await self._set_switch("auto", rest)

    async def _dry_run(self, rest: str) -> None:
        await self._set_switch("dry_run", rest)

    async def _set_switch(self, name: str, rest: str) -> None:
        session, label = self.chat.session, name.replace("_", "-")
        if rest not in ("on", "off"):
            self._say(f"/{label} is {'on' if getattr(session.state, name) else 'off'}; say /{label} on or /{label} off")
            return
        on = rest == "on"
        switch = PolicyChanged(auto=on) if name == "auto" else PolicyChanged(dry_run=on)
        await session.record(Draft(switch, "person"))
        self._say(f"/{label} is {rest}", "dim")

    async def _execute(self, rest: str) -> None:
        from foregate.agent.loop.runner import run_to_outcome

        chat = self.chat
        task = chat.session.state.task
        if rest and not (rest.isascii() and rest.isdigit() and 0 < int(rest[:6]) <= 1000):
            self._say("/execute takes a number from 1 to 1000", CARE)
            return
        if task is None or task.paused not in ("awaiting_approval", "paused"):
            self._say("nothing waits for an answer", CARE)
            return
        if chat.person is None:
            self._say("there is nobody to ask: this is not a terminal", CARE)
            return
        chat.person.reads_allowed = int(rest or 1)
        try:
            await chat.run_steps(run_to_outcome(chat.session))
        finally:
            chat.person.reads_allowed = 0

    async def _quit(self, rest: str) -> None:
        self.chat.over = True
