"""From a response to what the judge reads of it, and what can be computed of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from foregate.agent.session.session_log import Clock
from foregate.agent.survey.surveyor import Surveyor
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import OpenTurn
from foregate.gates.prelude import Prelude
from foregate.policy.policy import Policy
from foregate.schemas.event import Draft, TurnJudged
from foregate.schemas.judgement import Answer, Judgement, Voided
from foregate.schemas.tool_call import CallFacts, Survey, ToolCall, hash_surveys
from foregate.schemas.turn import Turn, TurnActor, TurnRecord

_CHANGED = "what was judged has changed since the answer"

Facts = Mapping[str, CallFacts]
"""What was computed of calls, by call id."""


class TurnInHand(Struct, frozen=True):
    """A turn on its way: what the judge reads, what was computed of its calls, and the judgement once there is one.

    `judged` is the event number of the judgement, 0 before it is recorded.
    """

    turn: Turn
    facts: Facts
    judgement: Judgement | None = None
    judged: int = 0


class TurnBuilder:
    """Surveys calls and puts together the turns of one session."""

    def __init__(
        self,
        state: SessionState,
        surveyor: Surveyor,
        prelude: Prelude,
        policy: Policy,
        clock: Clock,
        *,
        depth: int,
        attended: bool,
    ) -> None:
        self._state, self._surveyor, self._prelude = state, surveyor, prelude
        self._policy, self._clock, self._depth, self._attended = policy, clock, depth, attended

    def build_turn(self, open_turn: OpenTurn) -> TurnInHand:
        """Survey the calls of a response and return its turn; answers that no longer fit are void."""
        limit = self._policy.limits.calls_per_response
        calls = open_turn.response.calls[: limit or None]
        surveys = self._surveyor.survey(calls, self._state)
        answers, voided = self._split_answers(open_turn.answers, surveys)
        return self.build_own_turn(
            open_turn.seq,
            calls,
            "model",
            open_turn.continues,
            surveys=surveys,
            text=open_turn.response.text,
            answers=answers,
            voided=voided,
        )

    def build_own_turn(
        self,
        response: int,
        calls: tuple[ToolCall, ...],
        actor: TurnActor,
        cause: int,
        *,
        surveys: tuple[Survey, ...] | None = None,
        **more: Any,
    ) -> TurnInHand:
        """Return a turn of the open task over `calls`, surveyed now unless `surveys` are given."""
        state, task = self._state, self._state.task
        assert task is not None
        digests = {call.digest for call in calls}
        now = self._clock()
        turn = Turn(
            response=response,
            task=task.number,
            turn=task.used["turns"] + (0 if actor == "model" and cause else 1),
            now=now,
            policy_hash=self._policy.hash,
            catalogue_hash=state.catalogue_hash,
            prompts_hash=state.prompts_hash,
            calls=calls,
            surveys=self._surveyor.survey(calls, state) if surveys is None else surveys,
            user_messages=tuple(task.messages),
            depth=self._depth,
            actor=actor,
            cause=cause,
            attended=self._attended,
            auto=state.auto,
            dry_run=state.dry_run,
            counters=task.counters_at(now),
            plan=task.plan,
            narrated=task.narrated,
            slots_asked=tuple(task.slots_asked),
            slots_answered=tuple(task.slots_answered),
            grants=(*state.grants, *task.grants),
            refusals=tuple(refusal for refusal in task.refusals if refusal.digest in digests),
            holds=task.find_hold_counts(digests),
            fired=dict(task.fired),
            shadow_fired=dict(task.shadow_fired),
            just_failed=task.just_failed,
            during=task.during,
            unplanned=None
            if state.mode == "direct" or task.running_plan
            else count_unplanned_left(state.mode, task.touched),
            **more,
        )
        return self.with_facts(turn)

    def with_facts(self, turn: Turn) -> TurnInHand:
        """Return a turn with what can be computed of its calls."""
        return TurnInHand(turn, self._prelude.facts(turn))

    def facts_in_hand(self) -> Facts:
        """Return the facts of the response that is not answered yet, as its calls are now; none where there is none."""
        open_turn = self._state.open
        return self.build_turn(open_turn).facts if open_turn is not None and self._state.task is not None else {}

    def draft_judged(
        self, turn: Turn, judgement: Judgement, *, stuck: str = "", notice: str = "", early: bool = False
    ) -> Draft:
        """Return the one event a judged turn leaves; `notice` is what the model is told with it.

        `early` is set for a read of a response that still arrives.
        """
        open_turn = self._state.open
        cut = open_turn is not None and turn.actor == "model" and len(turn.calls) < len(open_turn.response.calls)
        body = TurnJudged(
            turn=TurnRecord.of(turn, judged_calls=len(turn.calls) if cut else None),
            judgement=judgement,
            survey_hash=turn.survey_hash,
            fingerprints=turn.fingerprints,
            plan=judgement.plan,
            stuck=stuck,
            notice=notice,
            early=early,
        )
        return Draft(body, "foregate")

    def _split_answers(
        self, given: list[Answer], surveys: tuple[Survey, ...]
    ) -> tuple[tuple[Answer, ...], tuple[Voided, ...]]:
        """Return the answers that were given to what is now judged, and those that are void.

        An answer counts while nothing has changed since it was given: the newest ones do, back to the first that was
        given under another survey or policy. So it follows from the log alone, in every process.
        """
        if not given:
            return (), ()
        now = hash_surveys(surveys), self._policy.hash
        fitting = 0
        while fitting < len(given) and (given[-1 - fitting].survey_hash, given[-1 - fitting].policy_hash) == now:
            fitting += 1
        first = len(given) - fitting
        return tuple(given[first:]), tuple(Voided(answer.seq, answer.gate, _CHANGED) for answer in given[:first])


def count_unplanned_left(mode: str, touched: int) -> int:
    """Return how many changes may still be made without a plan; a mode nobody knows lets none be made."""
    return max(0, 1 - touched) if mode == "auto" else 0
