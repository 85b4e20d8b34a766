"""Asking nobody: what planner, critic and person answered then, and what they are assumed to where they were not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foregate.agent.session.call_runner import PrefetchedResults
from foregate.agent.session.interaction import AbsentPerson, Interaction, build_override, restore_reply, strip_request
from foregate.agent.session.session_log import SessionLog
from foregate.agent.session.turn_builder import TurnInHand
from foregate.gates.replay.assumption import CHOICES, UNAVAILABLE, build_value
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.event import Draft, NeedAnswered
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.model_response import Usage
from foregate.schemas.protocols import Blobs, Model, Reply
from foregate.schemas.strict_json import Json, get_list
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_steps import NothingRecorded, RecordedAnswer, RecordedEnd, RecordingEnds


class RecordedInteraction(Interaction):
    """Answers a question as recorded, else as assumed; raises NothingRecorded for any other."""

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

    async def ask_about_plan(self, need: Need) -> Reply | None:
        """Record a question about a plan, and what was answered; None where it was left open then."""
        progress = self._progress
        known = progress.plans.find_question(need)
        if known is not None:
            progress.begin_part(known.seq, known.time)
        elif not self._can_assume(need):
            raise NothingRecorded(f"the person is asked here about a plan ({need.key}), which nobody was then")
        asked = strip_request(need, self._blobs.put(strict_json.canonical(need.request)))
        await self._log.record(Draft(asked, "foregate"))
        if known is None:
            said = progress.assume("person", progress.assumed.person)
            value: Mapping[str, Json] | None = {"choice": said, "text": "", "by": "assumed"}
            by = None
        elif known.body is None:
            self._leave_open()
            return None
        else:
            value, by = known.body.answer.value, known.body.by
        bound = need.gate, need.who, need.key, need.digests, "", self.policy.hash
        answer = Answer(*bound, value, "", progress.now, need.expires_at)
        await self._log.record(Draft(NeedAnswered(answer=answer, by=by), "person"))
        return restore_reply(answer)

    def _can_assume(self, need: Need) -> bool:
        return self._progress.assumed.person in get_list(need.request, "answers")

    def _leave_open(self) -> None:
        """Leave a question open as it was then: it was cancelled, the log ends with it, or somebody went on later."""
        step = self._progress.step
        if step is None:
            raise RecordingEnds
        if isinstance(step, RecordedEnd):
            self._progress.cancel()

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
