"""Asking nobody: what planner, critic and person answered then, and what they are assumed to where they were not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foregate.agent.rehearsing.progress import Progress
from foregate.agent.rehearsing.recording import NothingRecorded, RecordedAnswer
from foregate.agent.session.absent_person import AbsentPerson
from foregate.agent.session.interaction import Interaction, build_override
from foregate.agent.session.prefetched import PrefetchedResults
from foregate.agent.session.session_log import SessionLog
from foregate.agent.session.turn_builder import TurnInHand
from foregate.gates.replay.assumption import CHOICES, UNAVAILABLE, build_value
from foregate.policy.policy import Policy
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import Usage
from foregate.schemas.protocols import Blobs, Model
from foregate.schemas.strict_json import Json


class RecordedInteraction(Interaction):
    """Answers a question as it was answered then, else as it is assumed; raises NothingRecorded for any other."""

    def __init__(self, log: SessionLog, blobs: Blobs, model: Model, policy: Policy, progress: Progress) -> None:
        super().__init__(log, blobs, model, policy, AbsentPerson(), PrefetchedResults())
        self._progress = progress

    async def answer_need(self, need: Need, in_hand: TurnInHand) -> bool:
        """Record a question and its answer; True, for it never waits."""
        open_ = self._log.state.open
        known = self._progress.find_answer(need, sandboxed=open_ is not None and open_.sandbox is not None)
        need, _ = await self._raise_need(need, in_hand.turn)
        if known is None:
            await self._assume_answer(need, in_hand)
            return True
        self._progress.pass_time(known.time)
        body, value = known.body, self._name_calls_anew(known, need)
        more: dict[str, Any] = {"usage": body.usage, "response": body.response, "model_calls": body.model_calls}
        if need.who == "person":
            more = {"grants": build_override(need, known.answer.choice)} if value is not None else {}
            more |= {"by": body.by}
        await self.record_answer(need, in_hand.turn, value, known.answer.error, at=known.answer.at, **more)
        return True

    def _name_calls_anew(self, known: RecordedAnswer, need: Need) -> Mapping[str, Json] | None:
        """Return a recorded value with what it says of single calls under the ids these have now."""
        value = known.answer.value
        if value is None or need.who != "person":
            return value
        then = dict(zip(known.need.calls, known.need.digests, strict=True))
        now = dict(zip(need.digests, need.calls, strict=True))
        changed: dict[str, Json] = dict(value)
        for name in ("calls", "named"):
            if isinstance(said := value.get(name), Mapping):
                changed[name] = {now[then[call]]: one for call, one in said.items() if then.get(call, "") in now}
        return changed

    async def _assume_answer(self, need: Need, in_hand: TurnInHand) -> None:
        said = self._progress.assume(need.who, _find_choice(need, self._progress.assumed.get_choice(need.who)))
        if not said:
            goes_on = f"--assume {need.who}={CHOICES[need.who][0]} goes on"
            if need.gate == "loop":
                goes_on = "--assume person=no stops its task"
            raise NothingRecorded(
                f"the {need.who} is asked here by `{need.gate}`, which nobody answered then ({goes_on})"
            )
        more: dict[str, Any] = {"usage": Usage()} if need.who != "person" else {"grants": build_override(need, said)}
        value, error = build_value(need, said, in_hand.facts), UNAVAILABLE if said == "unavailable" else ""
        await self.record_answer(need, in_hand.turn, value, error, **more)


def _find_choice(need: Need, said: str) -> str:
    """Return what is said to a question; the loop's own about a repeated call has words of its own for yes and no."""
    if need.gate != "loop" or not said:
        return said
    return "stop" if said == "no" else "anyway" if need.request.get("can_override") else ""
