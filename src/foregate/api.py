"""The agent as a library: one class over a session, and two functions for one task."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from foregate.agent.session.prompts import quote_material
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event
from foregate.schemas.protocols import Blobs, Log, Model, Person

if TYPE_CHECKING:
    from foregate.agent.planning.answering import PlanReport
    from foregate.agent.planning.configuration import Configuration, PlanMode
    from foregate.agent.planning.planner import Planning
    from foregate.agent.session.result import RunResult
    from foregate.agent.session.session import Session
    from foregate.agent.tools.tool import Tool
    from foregate.policy.policy import Policy
    from foregate.schemas.identity import Identity
    from foregate.schemas.judgement import Need
    from foregate.schemas.protocols import Reply, ToolSource
    from foregate.schemas.question import Question
    from foregate.schemas.task_plan import TaskPlan


class Options(TypedDict, total=False):
    """The keyword arguments of Agent, `run` and `run_sync`."""

    model: Model | str | None
    policy: Policy | Path | str | None
    config: Configuration | Path | str | None
    tools: Sequence[Tool | ToolSource] | ToolSource
    workspace: Path | str
    person: Person | None
    log: Log | None
    blobs: Blobs | None
    resume: str
    dry_run: bool
    builtin: bool
    mode: PlanMode | None
    dialect: str | None
    mcp: Path | str | None
    runtime: str
    on_text: Callable[[str], None] | None
    user: Identity | str


class Agent:
    """An agent whose every tool call is judged first. Tasks of one agent share one session: one log, one memory.

    `model` is a Model, a name at the configured endpoint, or None for the environment's choice (the rehearsal model
    without one). `policy` is a Policy, a YAML file over the defaults, or the name of a shipped one. `config`, for plan
    mode, is a Configuration or a YAML file; None is FOREGATE_CONFIG. `tools` come beside the built-in ones, or instead
    of them with `builtin=False`. `mcp` is a file that lists MCP servers, `runtime` the address of a process that runs
    the tools. Without a `person`, what would need one is denied. `mode` is `direct`, `plan` (nothing changes outside a
    confirmed plan) or `auto` (a task makes one change without); None is the configuration's, and a resumed session
    keeps its own. `dialect` is `native`, `json`, `action_tags`, `service_tags` or `auto`. `on_text` gets the words of
    each response as they arrive. `log` defaults to the one in FOREGATE_HOME; `resume` names a session of it. `user` is
    whom the caller has authenticated, by name or as an Identity; else the log names the operating system's user.

    Use it as a context manager, sync or async; leaving it ends the session's log.
    """

    def __init__(
        self,
        *,
        model: Model | str | None = None,
        policy: Policy | Path | str | None = None,
        config: Configuration | Path | str | None = None,
        tools: Sequence[Tool | ToolSource] | ToolSource = (),
        workspace: Path | str = ".",
        person: Person | None = None,
        log: Log | None = None,
        blobs: Blobs | None = None,
        resume: str = "",
        dry_run: bool = False,
        builtin: bool = True,
        mode: PlanMode | None = None,
        dialect: str | None = None,
        mcp: Path | str | None = None,
        runtime: str = "",
        on_text: Callable[[str], None] | None = None,
        user: Identity | str = "",
    ) -> None:
        from foregate.assembly.identity import find_identity

        by = find_identity("program", user) if isinstance(user, str) else user
        first = (workspace, model, policy, tools, builtin, mcp, person, log, blobs, resume, dry_run, mode)
        self._setting = SessionOptions(*first, on_text=on_text, runtime=runtime, config=config, dialect=dialect, by=by)
        self._opened: OpenSession | None = None
        self._runner: asyncio.Runner | None = None
        self._busy = False
        self.outcome: RunResult | None = None
        """How the last task ended or paused."""

    async def open(self) -> Session:
        """Open the session if it is not open, and return it. Raises a ForegateError of one sentence."""
        return (await self._open_session()).session

    @property
    def session(self) -> str:
        """The session's name in the log, "" while it is not open."""
        return self._opened.name if self._opened else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about how the session was opened that a person should read."""
        return self._opened.notes if self._opened else ()

    async def run(self, text: str, *, quoted: str = "") -> RunResult:
        """Take a message through to an answer, a pause or an end; after a question in words, `text` answers it.

        `text` is what the person says, and gives authority. `quoted` is material that goes with it, such as a mail: the
        model reads it, and nothing in it counts as the person's word. Raises UsageError while calls or a plan wait for
        a yes: no message is one. A cancelling caller, such as `asyncio.timeout`, ends the task and gets CancelledError;
        `outcome` says what stands.

            await agent.run("Answer this mail in two sentences.", quoted=mail)
        """
        from foregate.agent.loop.runner import run

        with self._work():
            self.outcome = await run(await self.open(), quote_material(text, quoted))
        return self.outcome

    def run_sync(self, text: str, *, quoted: str = "") -> RunResult:
        """Do what `run` does, for programs without an event loop; raises UsageError inside one."""
        return self._get_runner().run(self.run(text, quoted=quoted))

    async def events(self, text: str, *, quoted: str = "") -> AsyncIterator[Event]:
        """Yield the events of a task as they are recorded; `text` and `quoted` are those of `run`.

        It ends with the task; `outcome` then says how. Leaving it early cancels the task.
        """
        from foregate.agent.loop.runner import run
        from foregate.agent.workspace.cancelled_work import wait_until_over

        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        with self._work():
            session = await self.open()
            with session.subscribe(queue.put_nowait):
                task = asyncio.create_task(run(session, quote_material(text, quoted)))
                task.add_done_callback(lambda _: queue.put_nowait(None))
                try:
                    while (event := await queue.get()) is not None:
                        yield event
                finally:
                    task.cancel()
                    again = await wait_until_over(task)
                    self.outcome = session.outcome if task.cancelled() else task.result()
                    if again:
                        raise asyncio.CancelledError

    async def plan(self, request: str) -> Planning:
        """Have the planning model write a plan for a request; nothing of it runs.

        Without a sound plan the result names every defect. Raises UsageError without a planning model.
        """
        from foregate.agent.planning.planner import make_plan

        with self._work():
            opened = await self._open_session()
            return await make_plan(opened.session, request, opened.roles.get_model("planning"), opened.configuration)

    async def execute(self, plan: TaskPlan, *, confirmed: bool = False) -> PlanReport:
        """Run a plan in this session, task by task; every call is judged. A plan under way here is resumed.

        The execution model fills in what a task does not list. The `person` confirms the plan, unless `confirmed=True`
        says that somebody did; that permits nothing that the policy asks about or denies. The planner then answers or
        proposes a further plan, which the `person` confirms, or which stays in the log. Raises UsageError with neither
        `person` nor `confirmed`, and for a plan that is not sound.
        """
        from foregate.agent.planning.asking import sentence
        from foregate.agent.planning.controller import PlanController
        from foregate.agent.planning.planner import record_proposal
        from foregate.agent.planning.validator import validate

        if not confirmed and self._setting.person is None:
            raise UsageError("show the plan to somebody, then pass confirmed=True")
        with self._work():
            opened = await self._open_session()
            session, configuration = opened.session, opened.configuration
            found = validate(plan, session.catalogue, session.workspace, configuration)
            if found.defects:
                raise UsageError(f"the plan is not sound: {sentence(found.defects[0])}")
            assert isinstance(session.plan_driver, PlanController)
            driver, state = session.plan_driver, await session.plan_driver.follow()
            same = state.digest == found.plan.digest
            if same and state.running:
                return await driver.run()
            if not same or state.confirmed:
                await record_proposal(session, found.plan, configuration, actor="person")
            return (await driver.take_through(unseen=confirmed))[0]

    async def open_questions(self) -> list[Question]:
        """Return the questions to a person that are open in this session, and in the tasks it has delegated."""
        from foregate.telemetry.queries.questions import list_questions

        session = await self.open()
        await session.log.settle()
        found = await list_questions(session.log.store, session.blobs)
        return [one for one in found if one.session == session.name or one.session.startswith(f"{session.name}.")]

    async def answer(self, question: Question | Need | str, reply: Reply | str) -> RunResult:
        """Answer an open question of this session, and resume its task up to an answer, a pause or an end.

        `question` is one of `open_questions`, its Need, or its name. `reply` is a Reply, whose `by` is whom the caller
        has authenticated, or a choice such as `yes`. The answer is durable before anything runs. Raises UsageError for
        a question that is not open, has expired or was answered, and for a reply that does not fit it; then nothing
        happens.
        """
        from foregate.agent.loop.runner import run_to_outcome
        from foregate.agent.session.answering import keep_answer
        from foregate.agent.session.interaction import draft_answer
        from foregate.schemas.event import Draft, NeedAnswered
        from foregate.schemas.protocols import QuestionStore, Reply

        with self._work():
            session, said = await self.open(), Reply(reply) if isinstance(reply, str) else reply
            asked = choose_question(await self.open_questions(), question, session.name)
            given = await keep_answer(session.log.store, asked, said, session.clock(), session.log.by)
            if not isinstance(session.log.store, QuestionStore):
                answer = NeedAnswered(answer=draft_answer(asked.asked, given), elsewhere=True, by=given.person)
                await session.record(Draft(answer, "person"))
            self.outcome = await run_to_outcome(session)
        return self.outcome

    async def go_on(self) -> RunResult:
        """Resume the open task: with an answer that was given elsewhere, or where a process ended in its midst.

        Raises UsageError where no task is open, or one waits for words, which `run` takes.
        """
        from foregate.agent.loop.runner import run_to_outcome

        with self._work():
            session = await self.open()
            if (task := session.state.task) is None or task.paused == "needs_input":
                raise UsageError("no task is open that could go on by itself; say what to do with `run`")
            self.outcome = await run_to_outcome(session)
        return self.outcome

    async def cancel(self) -> RunResult:
        """Give up the open task: what waits for an answer does not run. Raises UsageError where none is open."""
        from foregate.agent.loop.cancelling import cancel_task

        with self._work():
            self.outcome = await cancel_task(await self.open())
        return self.outcome

    async def close(self) -> None:
        """End the session's log and release the workspace; doing it twice is harmless.

        A task that is paused stays open, so that the session can be resumed.
        """
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def __aenter__(self) -> Agent:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __enter__(self) -> Agent:
        try:
            self._get_runner().run(self.open())
        except BaseException:
            self._close_runner()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._get_runner().run(self.close())
        self._close_runner()

    async def _open_session(self) -> OpenSession:
        if self._opened is None:
            self._opened = await open_session(self._setting)
        return self._opened

    @contextmanager
    def _work(self) -> Iterator[None]:
        if self._busy:
            raise UsageError("this agent is at work; one session does one task at a time, so use a second agent")
        self._busy = True
        try:
            yield
        except asyncio.CancelledError:
            self.outcome = self._opened.session.outcome if self._opened is not None else None
            raise
        finally:
            self._busy = False

    def _close_runner(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _get_runner(self) -> asyncio.Runner:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise UsageError("an event loop is running here; use `await agent.run(text)` and `async with`")
        if self._runner is None:
            self._runner = asyncio.Runner()
            weakref.finalize(self, _discard_runner, self._runner)
        return self._runner


def _discard_runner(runner: asyncio.Runner) -> None:
    """Close the runner of an agent nobody closed; while another loop runs here, only its loop, which runs no more."""
    # It is closed.
    with suppress(RuntimeError):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            runner.close()
        else:
            runner.get_loop().close()


def choose_question(open_: Sequence[Question], wanted: Question | Need | str, session: str) -> Question:
    """Return which of the open questions is meant; raise UsageError where it is none of them."""
    from foregate.schemas.question import Question

    for one in open_:
        match wanted:
            case str():
                is_meant = wanted == one.name or (wanted == session and len(open_) == 1)
            case Question():
                is_meant = wanted.name == one.name
            case _:
                is_meant = all(getattr(wanted, key) == getattr(one.need, key) for key in ("gate", "key", "digests"))
        if is_meant:
            return one
    named = ", ".join(one.name for one in open_) or "none"
    raise UsageError(f"that question is not open here; open is: {named}")


async def run(text: str, *, quoted: str = "", **options: Unpack[Options]) -> RunResult:
    """Do one task in a session of its own; the options are those of Agent, `quoted` is that of `Agent.run`."""
    async with Agent(**options) as agent:
        return await agent.run(text, quoted=quoted)


def run_sync(text: str, *, quoted: str = "", **options: Unpack[Options]) -> RunResult:
    """Do one task in a session of its own, for programs without an event loop."""
    with Agent(**options) as agent:
        return agent.run_sync(text, quoted=quoted)
