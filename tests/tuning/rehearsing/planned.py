"""Sessions with plans of a whole task that are played twice: what the models say, what the person says, who begins."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import answers, says
from foregate.agent.planning.configuration import Configuration
from foregate.agent.planning.control import reset_failed_tasks
from foregate.agent.planning.controller import PlanController
from foregate.agent.planning.planner import make_plan, record_proposal
from foregate.agent.session.session import Session
from foregate.policy.policy import Policy
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import PolicyChanged, ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply
from foregate.schemas.task_plan import PlanStepChanged, TaskPlan
from tests.agent.planning.plans import CONFIGURATION
from tests.agent.planning.test_worked_examples import wire_task
from tests.agent.world import World
from tests.tuning.rehearsing.models import Heedless, Wanted

REQUEST = "fix the typos in a.txt and b.txt and tell bob@example.org"
JUNK = "I would rather not write any JSON."


def wire(*tasks: Mapping[str, Any], goal: str = "Mend the files", **more: Any) -> str:
    """Return a plan as a planning model writes it."""
    about = {"estimated_duration": None, "requires_confirmation": True, "metadata": None}
    return json.dumps({"goal": goal, "tasks": list(tasks), **about, **more})


def task(number: int, *calls: Wanted, **more: Any) -> dict[str, Any]:
    """Return a task as it travels."""
    return wire_task(number, f"the reason of task {number}", *calls, **more)


@dataclass
class Models(Heedless):
    """All models of a session: `plans` and `results` are what the planner writes in turn, `fills` fill in a task."""

    plans: Sequence[str] = ()
    results: Sequence[Any] = ()
    fills: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        if request.purpose == "task_plan":
            return says(self._next("plan", self.plans, JUNK))
        if request.purpose == "plan_results":
            return answers(self._next("results", self.results, {"answer": "All done.", "plan": None}))
        told = _read_task(request)
        if told:
            return self._next(f"fill {told}", self.fills.get(told, ()), says("There is nothing to do."))
        return await super().respond(request, on_text)

    def _next(self, what: str, said: Sequence[Any], else_: Any) -> Any:
        self.asked[what] += 1
        return said[self.asked[what] - 1] if self.asked[what] <= len(said) else else_


def _read_task(request: ModelRequest) -> int:
    try:
        told = json.loads(request.messages[-1].text)
    except ValueError:
        return 0
    return int(told["task"]["task"]) if isinstance(told, dict) and isinstance(told.get("task"), dict) else 0


@dataclass
class Somebody:
    """A person who answers each question by its key with what `says` has for it in turn; else with yes, or to go on.

    None is no answer now.
    """

    says: Mapping[str, Sequence[Reply | str | None]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    async def answer(self, need: Need) -> Reply | None:
        self.asked[need.key] += 1
        known, often = self.says.get(need.key, ()), self.asked[need.key]
        said = known[often - 1] if often <= len(known) else "go_on" if need.key.startswith("failure:") else "yes"
        return Reply(said) if isinstance(said, str) else said


@dataclass(frozen=True)
class Story:
    """What happens in a session. `begins` says how its plan comes about, `further` what is asked once it has ended.

    The plan is paused once so many calls of it began, where `pauses` is not 0. `later` is the configuration of the
    processes that go on with it, None for the same. Where tasks failed, `retries` is the one that is tried again in
    the end, 0 for all of them, once the files are as `meanwhile` says.
    """

    plans: Sequence[str]
    steps: Sequence[tuple[str, Sequence[Wanted]]] = ()
    begins: Literal["plan", "auto", "made", "brought"] = "plan"
    person: Mapping[str, Sequence[Reply | str | None]] = field(default_factory=dict)
    results: Sequence[Any] = ()
    fills: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    dry_run: bool = False
    asks_first: bool = False
    unseen: bool = False
    resumes: int = 0
    pauses: int = 0
    retries: int | None = None
    meanwhile: Mapping[str, bytes] = field(default_factory=dict)
    further: str = ""
    configuration: Configuration = CONFIGURATION
    brought: TaskPlan | None = None
    later: Configuration | None = None


def drive(made: Session, configuration: Configuration) -> PlanController:
    """Return what takes a session through plans, of which its own model is every model."""
    return PlanController(made, configuration, lambda role: made.model)


async def live(story: Story, policy: Policy) -> World:
    """Return the world in which a story really happened under a policy."""
    world = World(policy=policy)
    model = Models(story.steps, plans=story.plans, results=story.results, fills=story.fills)
    person = Somebody(story.person)

    def drive_first(made: Session) -> PlanController:
        return drive(made, story.configuration)

    def drive_later(made: Session) -> PlanController:
        return drive(made, story.later or story.configuration)

    session = await world.open(model, person, plan_driver=drive_first)
    pause_after(session, story.pauses)
    if story.dry_run:
        await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    if story.begins in ("plan", "auto"):
        await session.record(Draft(PolicyChanged(mode=story.begins), "person"))
        await run(session, REQUEST)
    else:
        if story.brought is not None:
            await record_proposal(session, story.brought, story.configuration, actor="person")
        else:
            await make_plan(session, REQUEST, model, story.configuration)
        session = await _reopen(world, session, model, person, drive_later)
        pause_after(session, story.pauses)
        if (await get_driver(session).follow()).plan is not None:
            await get_driver(session).take_through(unseen=story.unseen, step=story.asks_first)
    for _ in range(story.resumes):
        if session.state.task is not None and session.state.task.paused == "paused":
            session = await _reopen(world, session, model, person, drive_later)
            await run_to_outcome(session)
    if story.retries is not None and session.state.task is None:
        world.workspace.files.update(story.meanwhile)
        session = await _reopen(world, session, model, person, drive_later)
        await try_again(session, story.retries)
    if story.further and (session.state.task is None or session.state.task.paused == "needs_input"):
        await run(session, story.further)
    await world.kill(session)
    return world


async def try_again(session: Session, only: int) -> None:
    """Have tasks tried again, or just one, where any failed."""
    state = await get_driver(session).follow()
    with suppress(UsageError):
        await reset_failed_tasks(session, state, only)
        await get_driver(session).take_through()


def pause_after(session: Session, calls: int) -> None:
    """Have the person pause the plan once so many calls of it have begun, for -1 once a model is to fill in a task."""
    begun = 0

    def follow(event: Event) -> None:
        nonlocal begun
        task = session.state.task
        begun += isinstance(event.body, ToolStarted) and task is not None and bool(task.running_plan)
        asks = isinstance(event.body, PlanStepChanged) and event.body.ask is not None
        if (begun == calls and isinstance(event.body, ToolStarted)) or (calls < 0 and asks):
            get_driver(session).pause()

    session.subscribe(follow)


async def _reopen(world: World, session: Session, model: Models, person: Somebody, driver: Any) -> Session:
    """Return the session as another process opens it an hour later."""
    await world.kill(session)
    world.clock.seconds += 3600
    return await world.open(model, person, resume=True, plan_driver=driver)


def get_driver(session: Session) -> PlanController:
    """Return what takes the session through its plan."""
    assert isinstance(session.plan_driver, PlanController)
    return session.plan_driver
