"""Running the calls of a response in the blocks its model put them into: parallel ones at once, sequences in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import product
from typing import TypeVar

from foregate.agent.loop.run_call import draft_answer, run_call
from foregate.agent.session.delegation import DELEGATE
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import TurnInHand
from foregate.evidence.state.dataflow import AFTER_FAILURE
from foregate.evidence.state.task import OpenTurn
from foregate.schemas.judgement import Standing
from foregate.schemas.model_response import Block
from foregate.schemas.tool_call import CallFacts, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind

T = TypeVar("T")

_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)


class Scheduler:
    """The blocks of a response under way.

    At most `limits.parallel_calls` run at the same time. A call that is in the way of one named before it waits for it,
    whichever blocks they are in; as it only ever waits for earlier ones, none waits for ever.
    """

    def __init__(self, session: Session, open_turn: OpenTurn, in_hand: TurnInHand) -> None:
        judgement, order = in_hand.judgement, open_turn.response.order
        assert judgement is not None
        assert order is not None
        self._session, self._open, self._in_hand = session, open_turn, in_hand
        self._calls = open_turn.response.calls
        self._block = order.fit_to(len(self._calls))
        self._verdicts = {verdict.call: verdict for verdict in judgement.verdicts}
        self._room = asyncio.Semaphore(session.policy.limits.parallel_calls)
        places = [place for place in self._block.find_places() if self._calls[place].id in in_hand.facts]
        self._over = {place: asyncio.Event() for place in places}
        self._before = {
            place: [other for other in places[:at] if self.collide(other, place)] for at, place in enumerate(places)
        }

    def collide(self, first: int, second: int) -> bool:
        """Whether two calls are in each other's way."""
        facts = self._in_hand.facts
        return has_conflict(facts[self._calls[first].id], facts[self._calls[second].id])

    async def run(self) -> None:
        """Run what may run, and answer what a failure before it stops; a call that was ruled out is left to be told."""
        await self.item(self._block)

    async def item(self, item: int | Block) -> bool:
        """Run a call or a block; return whether all of it did what it should."""
        if isinstance(item, int):
            return await self.call(item)
        if item.kind == "parallel":
            return all(await run_together([self.item(inner) for inner in item.items]))
        going = True
        for inner in item.items:
            going = await self.item(inner) if going else await self.skip(inner)
        return going

    async def call(self, place: int) -> bool:
        """Run a call once what it would collide with is over."""
        call = self._calls[place]
        verdict = self._verdicts.get(call.id)
        if verdict is None:
            return False
        for other in self._before[place]:
            await self._over[other].wait()
        if call.id in self._open.unanswered:
            async with self._room:
                await run_call(self._session, self._open, self._in_hand, verdict)
        self._over[place].set()
        return call.id not in self._open.unanswered and call.id not in self._open.failed

    async def skip(self, item: int | Block) -> bool:
        """Answer the calls of an item that comes after a failure."""
        for place in (item,) if isinstance(item, int) else item.find_places():
            call = self._calls[place]
            verdict = self._verdicts.get(call.id)
            if verdict is None:
                continue
            if verdict.standing is Standing.ALLOW and call.id in self._open.unanswered:
                facts = self._in_hand.facts[call.id]
                await self._session.record(draft_answer(call, facts, "not_run_after_failure", AFTER_FAILURE))
            self._over[place].set()
        return False


async def run_together(work: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Run all at once and return what each gives; where one raises, the others are over before it is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def has_conflict(first: CallFacts, second: CallFacts) -> bool:
    """Whether two calls must not run at the same time.

    Both touch one resource and one of them changes it; or one may touch anything; or one is a child task, which shares
    the task's budget.
    """
    if is_exclusive(first) or is_exclusive(second):
        return True
    if not (first.changes or second.changes):
        return False
    return any(has_overlap(mine, yours) for mine, yours in product(first.resources, second.resources))


def is_exclusive(facts: CallFacts) -> bool:
    """Whether a call can run beside no other."""
    return facts.effect is Effect.UNKNOWN or facts.call.name == DELEGATE.name


def has_overlap(first: SurveyedResource, second: SurveyedResource) -> bool:
    """Whether two accesses, one of them a change, are to one resource, or to a folder and something in it."""
    if not (first.access.changes or second.access.changes):
        return False
    if first.kind in _PATHS and second.kind in _PATHS:
        return is_within(first.id, second.id) or is_within(second.id, first.id)
    return first.resource == second.resource


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return folder in (".", "") or path == folder or path.startswith(f"{folder.rstrip('/')}/")
