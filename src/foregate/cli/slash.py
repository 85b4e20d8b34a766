"""The chat's own commands; none of them reaches the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from foregate.cli.layout import labelled
from foregate.cli.visible import visible
from foregate.schemas.event import Draft

if TYPE_CHECKING:
    from foregate.cli.conversation import Conversation

COMMANDS = {
    "/help": "this list",
    "/policy": "the policy in force: where it comes from and what each gate does",
    "/evidence": "what this session has looked at and changed",
    "/plan": "the plan in force and what of it is used",
    "/decisions": "the decision points that held, asked or allowed something; /decisions all",
    "/history": "the conversation so far",
    "/undo": "undo the last change, or /undo CALL; shows first what it would do",
    "/auto": "on: reads and reversible changes in the workspace do not ask; nothing else",
    "/dry-run": "on: calls are judged, changes are not made",
    "/execute": "show what waits for an answer again; reads that wait run, /execute N the next N",
    "/quit": "leave; the session stays in the log",
}


class Slash:
    """Obeys a line that begins with a slash."""

    def __init__(self, chat: Conversation) -> None:
        self.chat = chat

    async def obey(self, typed: str) -> None:
        """Do what the command says, or say in one sentence why not."""
        name, _, rest = typed.partition(" ")
        if name not in COMMANDS:
            self._say(f"there is no command `{visible(name)}`; /help lists them", "yellow")
            return
        await getattr(self, f"_{name[1:].replace('-', '_')}")(rest.strip())

    def _say(self, text: str | Text, style: str = "") -> None:
        self.chat.screen.say(text, style)

    async def _help(self, rest: str) -> None:
        for name, what in COMMANDS.items():
            self.chat.screen.rows(labelled(name, what, self.chat.screen.console.width, label_style="cyan", room=10))

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
            self.chat.screen.row(f"  {resource.id}: event {later} contradicts event {earlier}", "yellow")
        if not known:
            self._say("nothing has been looked at yet")

    async def _plan(self, rest: str) -> None:
        task = self.chat.session.state.task
        plan = task.plan if task is not None else None
        if plan is None:
            self._say("no plan is in force")
            return
        self.chat.screen.row(f"revision {plan.revision}: {plan.goal}")
        for item in plan.items:
            used = f"{item.used} of {item.uses} used" + (f", in {item.folder}" if item.folder else "")
            self.chat.screen.row(f"  {item.effect.value} {item.kind.value} {item.pattern} ({used})")

    async def _decisions(self, rest: str) -> None:
        from foregate.cli.rows import notable
        from foregate.cli.timeline import row_of
        from foregate.telemetry.decisions import decision_points

        width = self.chat.screen.console.width
        points = list(decision_points(await self.chat.session.log.read(self.chat.opened.name)))
        shown = [point for point in points if rest == "all" or notable(point)]
        self.chat.screen.rows(row_of(point, width) for point in shown)
        if len(shown) < len(points):
            self._say(f"{len(points) - len(shown)} more decisions passed; /decisions all shows them", "dim")

    async def _history(self, rest: str) -> None:
        from foregate.cli.timeline import messages_of

        screen = self.chat.screen
        screen.rows(messages_of(await self.chat.session.log.read(self.chat.opened.name), screen.console.width))

    async def _undo(self, rest: str) -> None:
        from foregate.agent.undo import undo

        chat = self.chat
        before = await undo(chat.session, rest or None, preview=True)
        if not before.done:
            chat.screen.row(before.reason, "yellow")
            return
        chat.screen.row(f"{before.call} {before.tool}")
        chat.screen.rows(row for step in before.steps for row in labelled("would", step, chat.screen.console.width))
        if chat.terminal.interactive and not await self._sure("undo this? (y) "):
            self._say("nothing was undone")
            return
        report = await undo(chat.session, before.call)
        for sentence in () if report.done else report.sentences:
            chat.screen.row(sentence, "yellow")

    async def _sure(self, question: str) -> bool:
        try:
            typed = await self.chat.terminal.answer(question)
        except KeyboardInterrupt:
            return False
        return (typed or "").strip().lower() in ("y", "yes")

    async def _auto(self, rest: str) -> None:
        await self._switch("auto", rest)

    async def _dry_run(self, rest: str) -> None:
        await self._switch("dry_run", rest)

    async def _switch(self, name: str, rest: str) -> None:
        session, label = self.chat.session, name.replace("_", "-")
        if rest not in ("on", "off"):
            self._say(f"/{label} is {'on' if getattr(session.state, name) else 'off'}; say /{label} on or /{label} off")
            return
        await session.record(Draft("policy_changed", "person", {name: rest == "on"}))
        self._say(f"/{label} is {rest}", "dim")

    async def _execute(self, rest: str) -> None:
        from foregate.agent.loop import go_on

        chat = self.chat
        task = chat.session.state.task
        if rest and not (rest.isascii() and rest.isdigit() and 0 < int(rest[:6]) <= 1000):
            self._say("/execute takes a number from 1 to 1000", "yellow")
            return
        if task is None or task.paused != "awaiting_approval":
            self._say("nothing waits for an answer", "yellow")
            return
        if chat.person is None:
            self._say("there is nobody to ask: this is not a terminal", "yellow")
            return
        chat.person.reads_allowed = int(rest or 1)
        try:
            await chat.work(go_on(chat.session))
        finally:
            chat.person.reads_allowed = 0

    async def _quit(self, rest: str) -> None:
        self.chat.over = True
