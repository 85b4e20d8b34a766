"""Sessions that between them fire every public code, each a run of the real loop over a small world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import answers, calls, says
from foregate.agent.session.session import Session
from foregate.policy.source.load import load_policy_layers, resolve_policy_file
from foregate.schemas.errors import ModelError
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.model_response import Block
from foregate.schemas.protocols import Reply
from tests.agent.world import ACCEPT, EVE, World, plan_json
from tests.policies import policy_with

TALK = "I understand, and this is what I will do now."
BOB = "bob@example.org"
SEND = ("send", {"to": BOB, "text": "hello"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
READ = ("read_file", {"path": "a.txt"})
REQUEST = f"fix a.txt and send a greeting to {BOB}"
PLAN = answers(plan_json("send", BOB))
BAD = answers(plan_json("send", "eve@example.org"))
YES = answers(ACCEPT)


def rules(*more: dict[str, Any], **keys: Any) -> Any:
    """Return the default policy with more rules."""
    listed = policy_with().model_dump(mode="json")["rules"]["list"]
    return policy_with({"rules.list": [*listed, *more], **keys})


ASK_EDITS = {"id": "ask-edits", "then": "ask", "tool": "edit_file"}
REVIEWED = {"critique.level": "plan"}
Story = Callable[[World], Awaitable[Session]]


async def told(world: World, model: list[Any], person: list[Any] | None = None, says: str = REQUEST) -> Session:
    """Run one message through a session of the world."""
    session = await world.open(model, person)
    await run(session, says)
    return session


async def validity(world: World) -> Session:
    """An unknown tool, arguments that do not fit, and a read that is fine."""
    return await told(world, [calls(("nope", {}), ("read_file", {"path": 3}), READ), says("ok")])


async def rules_deny(world: World) -> Session:
    """A path outside the workspace."""
    return await told(world, [calls(("read_file", {"path": "../x"})), says("ok")])


async def rules_ask(world: World) -> Session:
    """A rule asks, the person says no, and the same call comes again."""
    world.policy = rules(ASK_EDITS)
    return await told(world, [calls(READ, text=TALK), calls(EDIT), calls(EDIT), says("ok")], [Reply("no", "not now")])


async def unplanned(world: World) -> Session:
    """A change where nothing is changed outside a confirmed plan, and a look beside it."""
    session = await world.open([calls(READ, EDIT, text=TALK), says("I would mend a.txt")])
    await session.record(Draft(PolicyChanged(mode="plan"), "person"))
    await run(session, "fix the typo in a.txt")
    return session


async def narration(world: World) -> Session:
    """A silent risky call."""
    return await told(world, [calls(SEND), calls(SEND, text=TALK), PLAN, says("ok")], ["yes"])


async def drift(world: World) -> Session:
    """An edit where words were asked for."""
    return await told(world, [calls(READ), calls(EDIT), says("It is a text.")], says="just tell me what a.txt says")


async def uncertainty(world: World) -> Session:
    """A vague request answered with a message to somebody nobody named; another change waits with it."""
    world.policy = policy_with({"uncertainty.threshold": 300})
    return await told(
        world, [calls(("send", {"to": "eve@example.org"}), ("note", {"key": "k"}), text=TALK)], [], "do it for k"
    )


async def evidence(world: World) -> Session:
    """An edit of the unseen, then of what has changed."""

    def meanwhile(_: object) -> Any:
        world.workspace.files["a.txt"] = b"teh dog"
        return calls(EDIT)

    return await told(world, [calls(EDIT), meanwhile, calls(EDIT), says("ok")])


async def made_up(world: World) -> Session:
    """A message to an account that nobody said and nothing read holds, then what the model found."""
    invented, found = (("post", {"to": to, "text": "hello"}) for to in ("acct_7334", BOB))
    model = [calls(invented, text=TALK), calls(found), says("sent")]
    return await told(world, model, [], f"post a greeting to {BOB}")


async def plan_accepted(world: World) -> Session:
    """A plan and a critique, both fine, and a yes for the session."""
    world.policy = policy_with(REVIEWED)
    return await told(world, [calls(SEND, text=TALK), PLAN, YES, says("sent")], ["grant"])


async def said_by_the_person(world: World) -> Session:
    """A message that the person asked for in so many words: no plan, no critique, no yes."""
    post = ("post", {"to": BOB, "text": "hello"})
    return await told(world, [calls(post), says("sent")], [], says=f"post a greeting to {BOB}")


async def outside_the_mandate(world: World) -> Session:
    """A message to somebody only a letter named: the critic lets it pass, a yes alone releases nothing, and it stays
    refused."""
    post = ("post", {"to": EVE, "text": "hello"})
    model = [calls(("letter", {})), calls(post), YES, calls(post), says("no")]
    return await told(world, model, ["yes"], "read my letter")


async def plan_rejected(world: World) -> Session:
    """A plan for the wrong person, twice."""
    return await told(world, [calls(SEND, text=TALK), BAD, BAD, says("ok")], [])


async def plan_unavailable(world: World) -> Session:
    """No plan can be had, and the person says no."""
    return await told(world, [calls(SEND, text=TALK), says("not a plan"), says("nor this"), says("ok")], ["no"])


async def plan_let_go(world: World) -> Session:
    """No plan can be had for something tame."""
    world.policy = policy_with({"plan.changed_resources": 1})
    note = calls(("note", {"key": "k"}), text=TALK)
    return await told(world, [note, ModelError("gone"), says("ok")], says="note k")


async def plan_drift(world: World) -> Session:
    """A second message the plan does not cover, and no amendment is allowed."""
    world.policy = policy_with({"plan.max_amendments": 0})
    other = ("send", {"to": "carol@example.org"})
    request = f"{REQUEST} and carol@example.org"
    model = [calls(SEND, text=TALK), PLAN, calls(other), says("ok")]
    return await told(world, model, ["yes"], says=request)


async def critique_rejected(world: World) -> Session:
    """The critic sees the wrong target."""
    world.policy = policy_with(REVIEWED)
    replan = answers({"verdict": "replan", "issues": ["it is the wrong Bob"], "summary": "no"})
    return await told(world, [calls(SEND, text=TALK), PLAN, replan, says("ok")], [])


async def critique_invalid(world: World) -> Session:
    """The critic says nothing of use."""
    world.policy = policy_with(REVIEWED)
    empty = answers({"verdict": "accept", "issues": [], "summary": ""})
    return await told(world, [calls(SEND, text=TALK), PLAN, empty, says("ok")], ["no"])


async def critique_unavailable(world: World) -> Session:
    """The critic cannot be had."""
    world.policy = policy_with(REVIEWED)
    return await told(world, [calls(SEND, text=TALK), PLAN, ModelError("gone"), says("ok")], ["no"])


async def critique_skipped(world: World) -> Session:
    """The safety budget is used up by the plan."""
    world.policy = policy_with({**REVIEWED, "safety.model_calls": 1})
    return await told(world, [calls(SEND, text=TALK), PLAN, says("ok")], ["no"])


async def critique_not_asked(world: World) -> Session:
    """The critic would look at each call, and nobody is there to say yes."""
    world.policy = policy_with({"plan.mode": "off", "critique.level": "call"})
    return await told(world, [calls(SEND, text=TALK), says("ok")])


async def approval_required(world: World) -> Session:
    """Nobody is there to say yes, so no plan is asked for."""
    return await told(world, [calls(SEND, text=TALK), says("ok")])


async def approval_expired(world: World) -> Session:
    """A yes comes too late."""

    def late(_: object) -> Reply:
        world.clock.seconds += 90000
        return Reply("yes")

    return await told(world, [calls(SEND, text=TALK), PLAN, says("ok")], [late])


async def changed_while_waiting(world: World) -> Session:
    """The policy changes between a yes and its use."""
    world.policy = rules(ASK_EDITS)
    session = await world.open([calls(READ, text=TALK), calls(EDIT)], [None])
    await run(session, REQUEST)
    assert session.state.open is not None
    assert session.state.open.need is not None
    need, turn = session.state.open.need.need, session.turns.build_turn(session.state.open).turn
    await session.interaction.record_answer(need, turn, {"choice": "yes", "text": "", "by": "person"})
    await world.kill(session)
    world.policy = rules(ASK_EDITS, **{"scope.max_resources": 7})
    again = await world.open([says("ok")], ["yes"], resume=True)
    await run_to_outcome(again)
    return again


async def gate_error(world: World) -> Session:
    """Nobody can say which host a rule about hosts is to be compared with: the gate holds the call and says so."""
    hosts = {"tools.send": {"targets": {"to": {"kind": "host", "access": "send"}}}}
    world.policy = rules({"id": "no-host", "then": "deny", "host": "example.org"}, **hosts)
    odd = ("send", {"to": "example.org\\@other.org", "text": "hello"})
    return await told(world, [calls(odd, text=TALK), says("ok")])


def checked(check: str | None, target: str = "", expected: str = "") -> Any:
    """Return a plan for the message with one typed criterion."""
    plan = plan_json("send", BOB)
    plan["success_criteria"] = [{"text": "it can be seen", "check": check, "target": target, "expected": expected}]
    return answers(plan)


async def verification(world: World) -> Session:
    """After a change, what was promised is looked at and is so."""
    world.policy = policy_with({"plan.due": "first_side_effect", "plan.changed_resources": 1})
    plan = plan_json("edit_file", "a.txt")
    plan["success_criteria"] = [{"text": "fixed", "check": "file_contains", "target": "a.txt", "expected": "the cat"}]
    return await told(world, [calls(READ, text=TALK), calls(EDIT), answers(plan), says("fixed")], [], "fix a.txt")


async def unverified(world: World) -> Session:
    """A promise that needs more than a look is named once, and then the answer passes marked."""
    world.policy = policy_with({"plan.due": "first_side_effect", "plan.changed_resources": 1})
    plan = plan_json("edit_file", "a.txt")
    plan["success_criteria"] = [{"text": "tests", "check": "command_succeeds", "target": "make test", "expected": None}]
    model = [calls(READ, text=TALK), calls(EDIT), answers(plan), says("fixed"), says("really")]
    return await told(world, model, [], "fix a.txt")


async def classic(world: World) -> Session:
    """Under `classic`: silence, an edit of the unseen, a message the critic does not like, and then all as wished."""
    world.policy = load_policy_layers(resolve_policy_file("classic")).policy
    plan = answers(plan_json("send", BOB))
    replan = answers({"verdict": "replan", "issues": ["it greets nobody by name"], "summary": "no"})
    better = ("send", {"to": BOB, "text": "hello Bob"})
    model = [calls(READ), calls(READ, EDIT, text=TALK), calls(SEND, EDIT), plan, replan, calls(better), plan, YES]
    return await told(world, [*model, calls(EDIT), says("both done")], ["yes"])


async def classic_drift(world: World) -> Session:
    """Under `classic`: a wish nobody can make out, and a model that calls a tool it was not offered any more."""
    world.policy = load_policy_layers(resolve_policy_file("classic")).policy
    model = [calls(READ, ("note", {"key": "k"}), text=TALK), calls(("note", {"key": "l"})), says("Hello.")]
    return await told(world, model, says="hello there")


async def stages(world: World) -> Session:
    """Blocks whose later steps name results: one is edited by what another file says, one leads nowhere."""
    world.workspace.files["which.txt"] = b"a.txt"
    said = [
        ("read_file", {"path": "which.txt"}),
        ("read_file", {"path": "$result_of_step_1"}),
        ("edit_file", {"path": "$result_of_step_1", "old": "teh", "new": "the"}),
        ("read_file", {"path": "$result_of_step_1.name"}),
        ("note", {"key": "k"}),
    ]
    order = Block("parallel", (Block("sequential", (0, 1, 2, 3, 4)),))
    response = replace(calls(*said, text=TALK), order=order, deferred=(1, 2, 3))
    return await told(world, [response, says("ok")])


STORIES: tuple[Story, ...] = (
    validity,
    unplanned,
    rules_deny,
    rules_ask,
    narration,
    drift,
    uncertainty,
    evidence,
    made_up,
    plan_accepted,
    said_by_the_person,
    outside_the_mandate,
    plan_rejected,
    plan_unavailable,
    plan_let_go,
    plan_drift,
    critique_rejected,
    critique_invalid,
    critique_unavailable,
    critique_skipped,
    critique_not_asked,
    approval_required,
    approval_expired,
    changed_while_waiting,
    gate_error,
    verification,
    unverified,
    classic,
    classic_drift,
    stages,
)


async def events_of(story: Story) -> list[Event]:
    """Return the events of a story, checked to its scripts' ends."""
    world = World()
    session = await story(world)
    session.model.finish()  # type: ignore[attr-defined]
    if session.person is not None:
        session.person.finish()  # type: ignore[attr-defined]
    return list(await world.log.read("s"))
