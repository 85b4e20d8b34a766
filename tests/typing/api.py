"""Types of the public names, checked by mypy and never run."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import assert_type

import foregate
from foregate import (
    Agent,
    Answer,
    BaseToolSource,
    Blobs,
    CallAnswered,
    Configuration,
    DecisionPoint,
    Event,
    ForegateError,
    Json,
    Judgement,
    Log,
    Model,
    ModelRequest,
    ModelResponse,
    Need,
    OpenAIModel,
    Outcome,
    Person,
    Planning,
    PlanReport,
    Policy,
    Reply,
    RestoredSession,
    RunContext,
    RunResult,
    Session,
    SqliteLog,
    Standing,
    TaskPlan,
    Tool,
    ToolCall,
    ToolFinished,
    ToolResult,
    ToolSource,
    ToolSpec,
    ToolStarted,
    TurnJudged,
    Verdict,
    Verification,
    default_policy,
    load_configuration,
    load_policy,
    open_log,
    read_decisions,
    restore_trajectory,
    run,
    run_sync,
    verify_session,
    with_values,
)
from foregate.testing import (
    MemoryBlobs,
    MemoryLog,
    MemoryWorkspace,
    ScriptedModel,
    ScriptedPerson,
    answers,
    calls,
    says,
)

assert_type(default_policy(), Policy)
assert_type(load_policy("classic"), Policy)
assert_type(ToolCall.of("read_file", {"path": "a"}), ToolCall)
assert_type(ToolCall.of("read_file", {"path": "a"}).digest, str)
assert_type(foregate.__version__, str)


@foregate.tool(read_only=True)
def count(item: str) -> int:
    """Count an item."""
    return len(item)


@foregate.tool
async def order(item: str, amount: int = 1) -> str:
    """Order an item."""
    return f"{amount} of {item}"


@foregate.tool(effect="send", targets={"to": "other"}, amounts=["amount"], texts=("note",))
def pay(to: str, amount: int, note: str = "") -> str:
    """Pay somebody."""
    return f"{amount} to {to}"


@foregate.tool(read_only=True, external=False)
def lint(path: str) -> str:
    """Look for mistakes in a file."""
    ran = foregate.run_confined(["ruff", "check", path], timeout=30)
    assert_type(ran, CompletedProcess[str])
    return ran.stdout


foregate.run_confined("ls", write="no")  # type: ignore[arg-type]
assert_type(count("paint"), int)
count(3)  # type: ignore[arg-type]


async def uses_a_configuration() -> None:
    assert_type(load_configuration("mine.yaml"), Configuration)
    async with Agent(config=load_configuration()) as agent:
        assert_type(agent, Agent)
    assert_type(await run("hello", config=Path("mine.yaml")), RunResult)
    Agent(config=3)  # type: ignore[arg-type]


async def uses_an_agent() -> None:
    assert_type(await order("paint", amount=2), str)
    async with Agent(model="small", workspace=".", policy="mine.yaml", tools=[count, order]) as agent:
        assert_type(agent, Agent)
        assert_type(await agent.run("hello"), RunResult)
        assert_type(agent.events("hello"), AsyncIterator[Event])
        assert_type(await agent.open(), Session)
        planning = await agent.plan("mend a.txt")
        assert_type(planning, Planning)
        if planning.plan is not None:
            assert_type(with_values(planning.plan, {"2.path": "b.txt"}), TaskPlan)
            with_values(planning.plan, ["2.path"])  # type: ignore[arg-type]
            assert_type(await agent.execute(planning.plan, confirmed=True), PlanReport)
        assert_type(await (await agent.open()).run_child("a part of it"), RunResult)
        assert_type(agent.notes, tuple[str, ...])
        assert_type(agent.outcome, RunResult | None)
        assert_type(agent.session, str)
    assert_type(await run("hello", model="small", dry_run=True), RunResult)


def uses_it_without_a_loop() -> None:
    with Agent() as agent:
        assert_type(agent.run_sync("hello"), RunResult)
    assert_type(run_sync("hello", workspace="."), RunResult)
    try:
        run_sync("hello", colour="red")  # type: ignore[call-arg]
    except ForegateError as error:
        assert_type(error, ForegateError)


class Shopkeeper:
    """A person of one's own."""

    async def answer(self, need: Need) -> Reply | None:
        """Approve what one call asks."""
        assert_type(need.request, Mapping[str, Json])
        return Reply("yes", by="the shopkeeper") if len(need.calls) == 1 else None


class Echo:
    """A model of one's own."""

    name = "echo"

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Say the last message again."""
        assert_type(request.messages[-1].text, str)
        return ModelResponse(request.messages[-1].text)


class Shelf(BaseToolSource):
    """A source of tools of one's own."""

    def specs(self) -> Sequence[ToolSpec]:
        """Return none."""
        return ()

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Fail."""
        return ToolResult(False, "the shelf is empty")


person: Person = Shopkeeper()
echo: Model = Echo()
small: Model = OpenAIModel("small", base_url="http://127.0.0.1:11434/v1")
scripted: Model = ScriptedModel([says("yes"), calls(("count", {"item": "paint"})), answers({"ok": True})])
each: Reply = Reply("no", calls={"c3.1": "yes"}, named={"c3.1": ("10",)})
script: Person = ScriptedPerson(["yes", None, Reply("no", text="not today"), each])
assert_type(each.value, dict[str, Json])
shelf: ToolSource = Shelf()
log: Log = MemoryLog()
durable: Log = SqliteLog("events.db")
blobs: Blobs = MemoryBlobs()
MemoryWorkspace({"a.txt": b"hello"})
one_version_long: type[RunResult] = Outcome


def is_a_tool(value: Tool) -> str:
    """Return a tool's name."""
    return value.spec.name


assert_type(is_a_tool(count), str)


def tells(event: Event) -> str:
    """Say what an event holds, by its class."""
    match event.body:
        case ToolStarted(permit=permit):
            return permit.digest
        case ToolFinished() as finished:
            assert_type(finished.duration, int)
            return finished.content
        case CallAnswered() as answered:
            assert_type(answered.code == "no_such_code", bool)  # type: ignore[comparison-overlap]
            return answered.message
        case TurnJudged(judgement=judgement):
            assert_type(judgement, Judgement)
            assert_type(judgement.verdicts, tuple[Verdict, ...])
            assert_type(judgement.verdicts[0].standing, Standing)
            return judgement.consequence_gate
        case _:
            return event.kind


def audits(answer: Answer) -> None:
    """Read a log as an auditor does."""
    assert_type(answer.choice, str)
    with open_log() as kept:
        assert_type(verify_session(kept, "s1"), Verification)
        assert_type(kept.events("s1"), Iterator[Event])
        assert_type(read_decisions(kept.events("s1")), Iterator[DecisionPoint])
    assert_type(next(restore_trajectory({})), RestoredSession)
