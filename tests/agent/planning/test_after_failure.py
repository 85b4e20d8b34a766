"""Where a plan says to ask after a failure, a person chooses, it is recorded, and the plan does it."""

from __future__ import annotations

import pytest

from foregate.agent.planning.control import decide, follow_plan
from foregate.agent.planning.next_step import list_undecided
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.task_plan import FailureChoice, PlanStepChanged
from tests.agent.corpus import rules
from tests.agent.planning.plans import call, carried_out, confirmed, edit, plan, statuses, task
from tests.agent.planning.test_control import gone_on
from tests.agent.world import World
from tests.events import bodies

WANTED = plan(
    task(1, edit("b.txt", "teh", "the")),
    task(2, edit("a.txt", "nowhere", "x"), after=(1,)),
    task(3, call("note", key="three"), after=(2,)),
    task(4, call("note", key="four")),
    on_failure="ask",
)


class Chooser:
    """A person who chooses in order, and what they were asked about."""

    def __init__(self, *choices: FailureChoice | None) -> None:
        self.choices, self.asked = list(choices), list[tuple[int, str]]()

    async def __call__(self, step: StepState) -> FailureChoice | None:
        self.asked.append((step.task.id, step.reason))
        return self.choices.pop(0)


@pytest.mark.parametrize(
    ("choice", "status", "tasks", "b"),
    [
        ("go_on", "failed", ["done", "failed", "aborted", "done"], b"the dog"),
        ("stop", "blocked", ["done", "failed", "aborted", "aborted"], b"the dog"),
        ("roll_back", "blocked", ["aborted", "failed", "aborted", "aborted"], b"teh dog"),
    ],
)
async def test_what_a_person_chooses_is_done(choice: FailureChoice, status: str, tasks: list[str], b: bytes) -> None:
    world, person = World(), Chooser(choice)
    session = await world.open([])
    report = await carried_out(session, WANTED, on_failure=person)
    assert (report.status, statuses(report), world.workspace.files["b.txt"]) == (status, tasks, b)
    assert [number for number, _ in person.asked] == [2]
    log = await world.log.read("s")
    assert [body.choice for body in bodies([e for e in log if e.actor == "person"], PlanStepChanged)] == [choice]
    assert statuses(PlanState.of(log)) == tasks


async def test_a_retry_does_what_failed_again_and_then_what_depends_on_it() -> None:
    world = World()

    async def mend(step: StepState) -> FailureChoice:
        world.workspace.files["a.txt"] = b"nowhere cat"
        return "retry"

    session = await world.open([])
    report = await carried_out(session, WANTED, on_failure=mend)
    assert (report.status, world.workspace.files["a.txt"]) == ("completed", b"x cat")


async def test_without_an_answer_the_plan_pauses_and_asks_again_when_it_is_resumed() -> None:
    world, person = World(), Chooser(None)
    session = await world.open([])
    report = await carried_out(session, WANTED, on_failure=person)
    assert (report.status, statuses(report)) == ("paused", ["done", "failed", "pending", "pending"])
    await world.kill(session)
    run = await gone_on(world, await world.open([], resume=True))
    run.on_failure = person
    person.choices = ["go_on"]
    assert statuses(await run.run()) == ["done", "failed", "aborted", "done"]
    assert len(person.asked) == 2


@pytest.mark.parametrize("choice", ["stop", "roll_back"])
async def test_a_choice_that_was_recorded_is_done_by_the_process_that_resumes(choice: FailureChoice) -> None:
    world = World()
    session = await world.open([])
    await carried_out(session, WANTED)
    state = await follow_plan(session)
    await decide(session, state, list_undecided(state)[0], choice)
    await world.kill(session)
    report = await (await gone_on(world, await world.open([], resume=True))).run()
    assert (report.status, statuses(report)[3]) == ("blocked", "aborted")
    assert (world.workspace.files["b.txt"] == b"teh dog") is (choice == "roll_back")


async def test_the_last_failure_of_a_plan_asks_as_well() -> None:
    world = World()
    session = await world.open([])
    report = await carried_out(session, plan(task(1, edit("a.txt", "nowhere", "x")), on_failure="ask"))
    assert (report.status, statuses(report)) == ("paused", ["failed"])


async def test_a_denial_by_rule_ends_the_plan_without_a_question() -> None:
    world = World(policy=rules({"id": "no-b", "then": "deny", "resource": "b.txt"}))
    session = await world.open([])
    report = await carried_out(session, WANTED, on_failure=Chooser())
    assert (report.status, statuses(report)) == ("blocked", ["failed", "aborted", "aborted", "aborted"])


async def test_a_call_with_an_unknown_outcome_is_not_sent_again_by_a_retry() -> None:
    from tests.agent.planning.deadly import Deadly, Died

    world = Deadly()
    session = await world.open([])
    run = await confirmed(session, plan(task(1, call("note", key="one")), on_failure="ask"))
    world.dies = "after"
    with pytest.raises(Died):
        await run.run()
    await world.kill(session)
    run = await gone_on(world, await world.open([], resume=True))
    run.on_failure = Chooser("retry", "retry", "stop")
    report = await run.run()
    assert (report.status, len(world.effects)) == ("blocked", 1)
