"""A conversation is remembered: a proposal in words and the plain yes to it hold for the next message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.session import Session
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.prelude import judge
from foregate.policy.source.load import load_policy
from foregate.schemas.event import TurnJudged
from foregate.schemas.judgement import Judgement
from tests.agent.loop.post import UNCRITICISED
from tests.agent.session.test_state_from_log import assert_folded
from tests.agent.world import EVE, World
from tests.policies import policy_with

BEN = "ben@lake.example"
FIRST = f"Read the letter, then draft an answer for {BEN}."
PROPOSAL = f"I read it. I would post the answer to {BEN}, shall I?"
POST = calls(("post", {"to": BEN, "text": "hello"}))
TO_EVE = calls(("post", {"to": EVE, "text": "hello"}))
DONE = says("Done.")


async def open_answered(
    world: World, *after: Any, proposal: str = PROPOSAL, replies: Sequence[Any] | None = (), first: str = FIRST
) -> Session:
    """Return a session with a first message behind it, at the end of which the model proposed something."""
    session = await world.open([calls(("letter", {})), says(proposal), *after], replies)
    assert (await run(session, first)).status == "completed"
    return session


async def list_codes(world: World) -> list[str]:
    """Return the codes of all verdicts, in order."""
    return [v.ruling.code for body in await world.bodies(TurnJudged) for v in body.judgement.verdicts]


async def test_a_proposal_and_a_yes_to_it_are_as_good_as_the_request_in_so_many_words() -> None:
    world = World()
    session = await open_answered(world, POST, DONE)
    await run(session, "yes please")
    assert world.sent == [BEN]
    await assert_folded(world, session)


async def test_a_session_taken_up_again_remembers_the_same() -> None:
    world = World()
    await world.kill(await open_answered(world))
    session = await world.open([POST, DONE], [], resume=True)
    await run(session, "yes please")
    assert world.sent == [BEN]


async def test_the_recorded_turn_is_judged_the_same_again() -> None:
    world = World()
    session = await open_answered(world, POST, DONE)
    await run(session, "yes please")
    (recorded,) = [one for one in read_judged_turns(await world.log.read("s")) if one.turn.proposal is not None]
    assert recorded.turn.proposal is not None
    assert recorded.turn.proposal.text == PROPOSAL
    again = judge(recorded.turn, session.prelude)
    assert isinstance(again, Judgement)
    assert again.decisions == recorded.judgement.decisions


async def test_a_yes_in_words_to_an_address_that_a_letter_said_releases_nothing() -> None:
    for replies in (None, ["yes"]):
        world = World(policy=UNCRITICISED)
        session = await open_answered(
            world, TO_EVE, DONE, proposal=f"The letter asks for it. Shall I post it to {EVE}?", replies=replies
        )
        await run(session, "yes please")
        assert (world.sent, (await list_codes(world))[-1]) == ([], "outside_mandate")


async def test_a_yes_to_one_proposal_is_none_to_another_call() -> None:
    world = World(policy=UNCRITICISED)
    session = await open_answered(world, TO_EVE, DONE, replies=["yes"])
    await run(session, "yes please")
    assert (world.sent, (await list_codes(world))[-1]) == ([], "outside_mandate")


async def test_only_the_newest_proposal_is_agreed_to() -> None:
    world = World()
    more = (says("Or shall I wait?"), POST, DONE)
    session = await open_answered(world, *more, replies=None)
    await run(session, "What would be better?")
    await run(session, "yes please")
    assert world.sent == []


async def test_what_the_model_said_before_a_yes_is_no_longer_to_be_said() -> None:
    order, silent = "Tidy up after the letter.", calls(("send", {"to": BEN, "text": "x"}))
    for reply, held in (("ok, go ahead", False), (f"Send it to {BEN} and to others.", True)):
        world = World(policy=policy_with({"plan.mode": "off", "critique.mode": "off", "narration.max_holds": 0}))
        proposal = "I am going to send a message to somebody now."
        session = await open_answered(world, silent, DONE, first=order, proposal=proposal, replies=["no"] * (not held))
        await run(session, reply)
        assert ("narration_required" in await list_codes(world)) is held


async def test_nothing_carries_over_under_the_strict_policy() -> None:
    world = World(policy=load_policy("classic"))
    session = await open_answered(world, says("I see."), replies=None)
    await session.record_message("yes please")
    turn = session.turns.build_own_turn(1, POST.calls, "model", 0).turn
    assert (turn.proposal, turn.narrated) == (None, 0)


async def test_a_yes_to_another_deed_is_none_to_what_the_answer_tells_besides() -> None:
    world = World(policy=UNCRITICISED)
    told = f"The letter wants you to write to {BEN}. Shall I delete b.txt?"
    session = await open_answered(world, POST, DONE, proposal=told, replies=["yes"])
    await run(session, "yes please")
    assert (world.sent, (await list_codes(world))[-1]) == ([], "outside_mandate")


async def test_a_question_that_names_no_deed_asks_for_what_the_answer_proposes() -> None:
    world = World()
    session = await open_answered(world, POST, DONE, proposal=f"I would post the answer to {BEN}. Shall I?")
    await run(session, "yes please")
    assert world.sent == [BEN]
