"""The chat: a line is a message or a command, and Ctrl-C stops the step that runs, not the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial, partialmethod
from pathlib import Path

from foregate.agent.loop.cancelling import GIVEN_UP, cancel_task, turn_elsewhere
from foregate.agent.loop.changes_made import read_changes_made
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.loop.undo import preview_calls, read_undo_history
from foregate.agent.planning.control import get_plan_state
from foregate.agent.session.interaction import AbsentPerson
from foregate.agent.session.result import RunResult
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.showing import PolicyNews, find_ended_calls, format_call
from foregate.cli.chat.slash import COMMANDS, KEYS, MODES, OUTCOMES, WAITING, describe_unknown, is_command
from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.version import __version__
from foregate.telemetry.log.masking import mask_text
from foregate.views.terminal.event_rows import name_call
from foregate.views.terminal.layout import BAD, CARE, NAME, build_console, format_labelled
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.plan_sheet import PlanPerson, PlanProgressRows
from foregate.views.terminal.recap import RECAPPED, format_recap
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.standard_streams import is_lost
from foregate.views.terminal.task_work import IN_CHAT, name_commands
from foregate.views.terminal.terminal import Terminal, interruptible, pause, suppress_echo
from foregate.views.terminal.waiting import build_waiting_line


class ChatSession:
    """One session at one terminal, from the greeting to the end of input, with the commands a person can give."""

    def __init__(
        self, opened: OpenSession, terminal: Terminal, screen: Screen, person: PersonAtTerminal | None
    ) -> None:
        self.opened, self.session = opened, opened.session
        self.terminal, self.screen, self.person = terminal, screen, person
        self.outcome: RunResult | None = None
        self._over = False
        if person is not None:
            person.plans = PlanPerson(self.session, screen, terminal).answer

    async def run_chat(self) -> None:
        self._prepare()
        self.greet()
        if self.opened.resumed:
            await self.show_recap()
            await self.resume_open_task()
        while not (self._over or is_lost(self.screen.console.file)):
            try:
                line = await self.terminal.read_line(self._prompt)
            except KeyboardInterrupt:
                continue
            if line is None:
                break
            try:
                if is_command(line := line.strip()):
                    await self.run_command(line)
                elif line:
                    await self._turn_elsewhere()
                    await self.run_steps(run(self.session, line))
            except ForegateError as error:
                self.screen.idle()
                self.screen.row(f"foregate: {error}", BAD)
        if self.session.state.task is not None:
            self.screen.say(f"a task is still open: foregate chat --resume {self.opened.name}", CARE)

    async def _turn_elsewhere(self) -> None:
        """Give up what waits for an answer where the person at the terminal says something else, and tell them so."""
        if self.terminal.interactive and self.session.state.waits_for_person:
            await turn_elsewhere(self.session)
            self.screen.say(GIVEN_UP, CARE)

    def _prepare(self) -> None:
        """Wire Tab, a history without secrets, reads that wait for /execute, and the list of the calls of a text."""
        if self.opened.dialect != "native":
            self.screen.specs = self.session.catalogue
        if self.terminal.interactive:
            from foregate.cli.chat.completion import Completions

            meanings = {name: command.meaning for name, command in COMMANDS.items()}
            self.terminal.forgets = lambda text: mask_text(text, self.session.read_hidden()) != text
            self.terminal.completer = Completions(meanings, self.opened.workspace, self.list_arguments)
        PolicyNews(self.session, self.screen, self.person)

    @property
    def _prompt(self) -> str:
        state = self.session.state
        planning = [] if state.mode == "direct" else [f"mode {state.mode}"]
        switches = planning + [name for name, on in (("auto", state.auto), ("dry run", state.dry_run)) if on]
        return f"you ({', '.join(switches)})> " if switches else "you> "

    async def resume_open_task(self) -> None:
        """Resume what a session had open: a question, an approval, or an interrupted task."""
        task = self.session.state.task
        if task is not None and task.paused == "needs_input":
            self.screen.show_question(task.question)
        elif task is not None:
            await self.run_steps(run_to_outcome(self.session))

    async def show_recap(self) -> None:
        """Say where the session stands that is resumed."""
        events = await self.session.log.read_last_task(RECAPPED)
        self.screen.rows(format_recap(self.session, events, self.screen.console.width, self.screen.hints))

    def greet(self) -> None:
        """Say which session this is and what a newcomer must know."""
        state = "resumed" if self.opened.resumed else "session"
        if self.terminal.interactive:
            self.screen.say(f"Foregate {__version__}: what the model wants to do is checked before it runs.", "bold")
        self.screen.say(f"{state} {self.opened.name}", "dim")
        spoken = "" if self.opened.dialect == "native" else f", dialect {self.opened.dialect}"
        self.screen.row(f"model {self.session.model.name}{spoken}, workspace {self.opened.workspace.root}", "dim")
        for note in self.opened.notes:
            self.screen.row(note, CARE)
        if self.terminal.interactive:
            self.screen.say("Say what you want done, or /help. Ctrl-C stops a step, Ctrl-D leaves.", "dim")

    async def run_command(self, typed: str) -> None:
        name, _, rest = typed.partition(" ")
        if name in COMMANDS:
            await getattr(self, f"_{name[1:].replace('-', '_')}")(rest.strip())
        else:
            self.screen.say(describe_unknown(typed), CARE)

    async def run_steps(self, steps: Coroutine[None, None, RunResult]) -> None:
        """Run steps of the loop. Ctrl-C cancels them and their task; the first one pauses a plan that runs."""
        self.screen.busy("model")
        task = asyncio.ensure_future(steps)
        try:
            with suppress_echo(), interruptible(task, lambda: pause(self.session.plan_driver, self.screen)):
                self.outcome = await task
        finally:
            self.screen.idle()
        self.screen.show_outcome(self.outcome)
        if self.outcome.status == "awaiting_approval" and self.person is None:
            asked, name = self.session.state.question, self.session.name
            named = f"{name}:{asked.seq}" if asked is not None else name
            how = f"`foregate approvals show {named}` shows it, `foregate approvals approve {named}` says yes"
            self.screen.rows(format_labelled("answer", how, self.screen.console.width, label_style=CARE))

    async def _help(self, rest: str) -> None:
        width = self.screen.console.width
        usages = {f"{name} {command.more}".strip(): command.meaning for name, command in COMMANDS.items()}
        for heading, lines in (("At the prompt", usages), ("Keys", KEYS)):
            self.screen.say(heading, "bold")
            for what, meaning in lines.items():
                self.screen.rows(format_labelled(what, meaning, width, label_style=NAME, room=16))

    async def list_arguments(self, name: str) -> Mapping[str, str]:
        """Return what may follow a command and what each is, for Tab; the newest call that can be undone first."""
        if name == "/resolve":
            return {call: f"{known.tool} {known.target}" for call, known in self.session.state.parked.items()}
        if name == "/permissions":
            return {one.id: one.words for one in self.session.permissions.list_given()}
        if name == "/show":
            ended = find_ended_calls(await self.session.log.read_joined())
            return {call: name_call(one.tool, one.target) for call, one in reversed(ended.items())}
        if name != "/undo":
            return dict.fromkeys(COMMANDS[name].choices, COMMANDS[name].meaning)
        left = read_undo_history(await self.session.log.read_joined()).undoable_changes
        return {
            change.call: f"{change.tool} {', '.join(one.resource.id for one in change.changes)}"
            for change in reversed(left)
        }

    async def _policy(self, rest: str) -> None:
        policy, loaded = self.session.policy, self.opened.followed.loaded
        self.screen.say(f"policy {policy.hash[:12]}")
        for source in loaded.sources if loaded else ():
            self.screen.row(f"  from {source}", "dim")
        for gate in self.session.prelude.gates:
            self.screen.say(f"  {gate.name:<12} {gate.mode}")
        self.screen.say(f"  approval mode {policy.approval.mode}, reads {policy.approval.reads}")

    async def _permissions(self, rest: str) -> None:
        from foregate.views.terminal.permission_rows import format_permission, format_permission_line

        kept, width = self.session.permissions, self.screen.console.width
        word, _, name = rest.partition(" ")
        if word == "revoke" and name:
            self.screen.rows(
                row for one in kept.revoke(name.split()) for row in format_labelled("over", one.words, width)
            )
            return
        given = [kept.find(rest)] if rest else kept.list_given()
        if kept.problem:
            self.screen.row(kept.problem, CARE)
        for one in given if not rest else ():
            self.screen.row(format_permission_line(one))
        for label, said in format_permission(given[0]).items() if rest else ():
            self.screen.rows(format_labelled(label, said, width, room=11))
        if not given and not kept.problem:
            self.screen.say("nothing is permitted here; answer a sheet with p to permit something")

    async def _evidence(self, rest: str) -> None:
        ledger = self.session.state.ledger
        for resource, seen in (known := ledger.resources()).items():
            kinds = ", ".join(f"{s.kind.value} at {s.seq} ({s.trust.value})" for s in seen)
            self.screen.row(f"  {resource.kind.value} {resource.id}: {kinds}")
        for resource, earlier, later in ledger.contradictions:
            self.screen.row(f"  {resource.id}: event {later} contradicts event {earlier}", CARE)
        if not known:
            self.screen.say("nothing has been looked at yet")

    async def _plan(self, rest: str) -> None:
        task = self.session.state.task
        if rest:
            if task is not None:
                raise UsageError("a task is still open here; answer it, or say something else first")
            await self.session.record_message(rest, plan=True)
            await self.run_steps(run_to_outcome(self.session))
        elif task is None or (plan := task.plan) is None:
            self.screen.say("no plan is in force")
        else:
            self.screen.row(f"revision {plan.revision}: {plan.goal}")
            for number, item in enumerate(plan.items, start=1):
                used = f"{item.used} of {item.uses} used" + (f", in {item.folder}" if item.folder else "")
                self.screen.row(f"  {number} {item.effect.value} {item.kind.value} {item.pattern} ({used})")
            for step in task.steps:
                done = (
                    f"done by event {step.completed_by}" if step.completed_by else f"{len(step.calls)} of {step.uses}"
                )
                self.screen.row(f"  {step.id} {f'{step.tool} {step.target}'.strip()}: {done}")

    async def _mode(self, rest: str) -> None:
        if rest not in MODES:
            wanted = f"; say /mode {', /mode '.join(MODES)}" if rest else ""
            self.screen.say(f"/mode is {self.session.state.mode}{wanted}", CARE if rest else "")
            return
        await self.session.record(Draft(PolicyChanged(mode=rest), "person"))
        self.screen.say(f"/mode is {rest}", "dim")

    async def _decisions(self, rest: str) -> None:
        from foregate.telemetry.queries.decisions import read_decisions
        from foregate.views.terminal.event_rows import is_pass
        from foregate.views.terminal.timeline import format_decision_rows

        points = list(read_decisions(await self.session.log.read()))
        shown = [point for point in points if rest == "all" or not is_pass(point)]
        self.screen.rows(row for point in shown for row in format_decision_rows(point, self.screen.console.width))
        if len(shown) < len(points):
            self.screen.say(f"{len(points) - len(shown)} more decisions passed; /decisions all shows them", "dim")

    async def _history(self, rest: str) -> None:
        from foregate.views.terminal.timeline import format_conversation

        console, events = self.screen.console, await self.session.log.read_joined()
        markdown = console.is_terminal and not console.is_dumb_terminal
        self.screen.rows(format_conversation(events, console.width, markdown=markdown))

    async def _show(self, rest: str) -> None:
        events, width = await self.session.log.read_joined(), self.screen.console.width
        ended = find_ended_calls(events)
        if found := ended.get(rest) if rest else next(reversed(ended.values()), None):
            self.screen.rows(format_call(self.session, events, found, width))
        else:
            self.screen.row(f"there is no call `{rest}`; /history names them" if rest else "no call has run yet", CARE)

    async def _undo(self, rest: str) -> None:
        from foregate.agent.loop.undo import preview_undo, undo
        from foregate.views.terminal.diff import LINES, diff_change, format_change

        session, screen, width = self.session, self.screen, self.screen.console.width
        before = await undo(session, rest or None, preview=True)
        if not before.done:
            screen.row(before.reason, CARE)
            return
        what = f"{before.tool} {', '.join(before.resources)} ({before.call})"
        screen.rows(format_labelled("undo", what, width, "bold"))
        screen.rows(row for step in before.steps for row in format_labelled("would", step, width))
        change = read_undo_history(await session.log.read_joined()).finished[before.call]
        changes = preview_undo(session, change)
        for back in changes:
            screen.rows(format_labelled("file", back.path, width) if len(changes) > 1 else ())
            screen.rows(format_change(diff_change(back), width, most=LINES))
        if self.terminal.interactive:
            typed = None
            with suppress(KeyboardInterrupt):
                typed = await self.terminal.read_answer("undo this? (y) ")
            if (typed or "").strip().lower() not in ("y", "yes"):
                screen.say("nothing was undone")
                return
        report = await undo(session, before.call)
        for sentence in filter(None, (before.note,)) if report.done else report.sentences:
            screen.row(sentence, CARE)

    async def _resolve(self, rest: str) -> None:
        from foregate.agent.loop.reconcile import list_open_calls, resolve_outcomes
        from foregate.evidence.state.conversation import CAME

        call, _, word = rest.rpartition(" ")
        if rest and word not in OUTCOMES:
            self.screen.say("/resolve takes a call and done or not-done", CARE)
            return
        for found in await resolve_outcomes(self.session, call.strip(), OUTCOMES.get(word)):
            self.screen.say(f"  {found.call} {CAME[found.outcome]}")
        for known, what in (left := list_open_calls(self.session)).items():
            self.screen.row(f"  {known} {what}: whether it took effect is unknown", CARE)
        if not (left or rest):
            self.screen.say("the outcome of every call is known")

    async def _set_switch(self, name: str, rest: str) -> None:
        label, on = name.replace("_", "-"), rest == "on"
        if rest not in ("on", "off"):
            now = "on" if getattr(self.session.state, name) else "off"
            self.screen.say(f"/{label} is {now}; say /{label} on or /{label} off")
            return
        switch = PolicyChanged(auto=on) if name == "auto" else PolicyChanged(dry_run=on)
        await self.session.record(Draft(switch, "person"))
        self.screen.say(f"/{label} is {rest}", "dim")

    _auto = partialmethod(_set_switch, "auto")
    _dry_run = partialmethod(_set_switch, "dry_run")

    async def _execute(self, rest: str) -> None:
        task, person = self.session.state.task, self.person
        if rest and not (rest.isascii() and rest.isdigit() and 0 < int(rest[:6]) <= 1000):
            self.screen.say("/execute takes a number from 1 to 1000", CARE)
        elif task is None or task.paused not in WAITING:
            self.screen.say("nothing waits for an answer", CARE)
        elif person is None:
            self.screen.say("there is nobody to ask: this is not a terminal", CARE)
        else:
            person.reads_allowed = int(rest or 1)
            try:
                await self.run_steps(run_to_outcome(self.session))
            finally:
                person.reads_allowed = 0

    async def _cancel(self, rest: str) -> None:
        if self.session.state.task is None:
            self.screen.say("no task is open, so there is nothing to cancel", CARE)
        else:
            self.screen.show_outcome(await cancel_task(self.session))

    async def _quit(self, rest: str) -> None:
        self._over = True


@asynccontextmanager
async def open_terminal_session(
    setting: SessionOptions, history: Path | None = None, *, waits: bool = False
) -> AsyncIterator[ChatSession]:
    """Yield a conversation over the session of `setting`; typed lines are remembered in `history`.

    With `waits` what needs a person waits for one where nobody sits here, and is not denied.
    """
    screen, terminal = Screen(build_console(), build_waiting_line(setting)), Terminal(history)
    person = PersonAtTerminal(screen, terminal) if terminal.interactive else None
    setting.person = AbsentPerson() if waits and person is None else person
    setting.listeners, setting.on_text = [screen.show_event], screen.stream
    setting.on_retry = screen.tell_retry
    screen.busy("model")
    try:
        with suppress_echo():
            opened = await open_session(setting)
    finally:
        screen.idle()
    try:
        screen.find_changes = partial(read_changes_made, opened.session)
        screen.currency = opened.configuration.prices.currency
        screen.hints = name_commands(opened.name) if waits else IN_CHAT
        if person is not None:
            person.foresee = partial(preview_calls, opened.session)
        state = await get_plan_state(opened.session)
        progress = PlanProgressRows(screen, opened.configuration.formatting, state, ends=True)
        with opened.session.subscribe(progress.show_event):
            yield ChatSession(opened, terminal, screen, person)
    finally:
        screen.idle()
        await opened.close()
