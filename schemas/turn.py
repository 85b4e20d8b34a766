"""A response to be judged: all the judge reads, small and closed; also as its event holds it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.judgement import Answer, Grant, Mode, Voided
from foregate.schemas.model_response import RecordedCall, record_calls
from foregate.schemas.noun import Noun
from foregate.schemas.permission import Permission
from foregate.schemas.plan import PlanInForce, list_spent
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Contradiction, Survey, ToolCall, fingerprint, hash_surveys


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """A message of the user (or of a parent task), or the model's own words, and its event number."""

    seq: int
    text: str
    actor: str = "user"


class Counters(Noun, frozen=True):
    """What the task has used so far, this response included; `cost` in micro-units, `elapsed` in seconds.

    `contained_changes` are those of `changes` that worked in a sandbox and were due no plan.
    """

    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: int = 0
    elapsed: int = 0
    safety_calls: int = 0
    safety_rounds: int = 0
    changes: int = 0
    changed_resources: int = 0
    verification_rounds: int = 0
    contained_changes: int = 0


class Refusal(Noun, frozen=True):
    """A call that was refused in this task: its digest, on which evidence, by whom, under which code, in what words."""

    digest: str
    fingerprint: str
    by: str
    code: str
    message: str
    seq: int = 0


class HoldCount(Noun, frozen=True):
    """How often a digest was held under a code on the same evidence in this task."""

    digest: str
    code: str
    fingerprint: str
    count: int


CheckResult = Literal["met", "failed", "unseen", "uncheckable"]


class Check(Noun, frozen=True):
    """A criterion of the plan and how it stands after the last change: what was observed, never what was claimed.

    `unseen` was not shown by anything, as words alone never are; `uncheckable` needs more than a read, a test run for
    instance.
    """

    text: str
    result: CheckResult
    target: str = ""


EDITION = 5
"""By which edition turns are judged now; see `TurnBasis.edition`."""

TurnActor = Literal["model", "runner", "postlude", "sandbox"]
"""Who made the calls of a turn: the model, a read of Foregate's own, a check after an answer, or the sandbox whose
changes are judged."""


class TurnBasis(Noun, frozen=True, kw_only=True):
    """What of a turn stands in its own event.

    `response` is the event number of the response, `cause` the one that led to the turn. `narrated` counts characters
    of the task's longest narration. `fired` counts per gate what fired in this task, `shadow_fired` the same for shadow
    gates. `unplanned` is how many changes may still be made outside a confirmed plan, None for any number.
    """

    response: int
    task: int
    turn: int
    now: str
    policy_hash: str
    catalogue_hash: str
    prompts_hash: str
    surveys: tuple[Survey, ...]
    depth: int = 0
    actor: TurnActor = "model"
    cause: int = 0
    attended: bool = False
    auto: bool = False
    dry_run: bool = False
    counters: Counters = field(default_factory=Counters)
    voided: tuple[Voided, ...] = ()
    narrated: int = 0
    slots_asked: tuple[str, ...] = ()
    slots_answered: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    holds: tuple[HoldCount, ...] = ()
    fired: Mapping[str, int] = field(default_factory=dict)
    shadow_fired: Mapping[str, int] = field(default_factory=dict)
    just_failed: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    during: str = ""
    """The task of a confirmed plan that runs, "" where none does."""
    unplanned: int | None = None
    done_steps: Mapping[str, int] | None = None
    """By the id of a step of the plan in force, the event that completed it; None in turns of earlier versions, whose
    rows say less."""
    masked_words: str = ""
    """What the model said in this task, without what anybody else may have said first; "" where nobody needs it."""
    permissions: tuple[Permission, ...] = ()
    """Those in force for the tools of these calls."""
    said_used: Mapping[str, int] = field(default_factory=dict)
    """How many calls have used up a value that the person said, by its key, where a plan is to be made."""
    contradictions: tuple[Contradiction, ...] = ()
    """The newest looks of the session that contradict earlier ones."""
    edition: int = 0
    """By which edition it is judged. In turns of edition 0, a gate's question held a call again that a person wanted
    done anyway. Some calls that were held along with others stand in no row, and refusals say other words. Up to
    edition 1, a deletion that a person wanted done anyway did not take the name of what goes. Up to edition 2, the
    execution state said what was none, too. Up to edition 3, the mandate was that of its first draft: a planned step
    that named its tool alone covered no call of it with a graver effect, the critic was asked about values that a
    person had to name, and what a person agreed to in words was shown again. Up to edition 4, what the person asked for
    in so many words took no plan where nobody was there."""


SECOND_MANDATE = 4
"""The edition from which on the mandate is that of its second draft."""
PLANNED_ALONE = 5
"""The edition from which on what reaches others for good takes words and a plan where nobody is there."""


class Turn(TurnBasis, frozen=True, kw_only=True, dict=True, gc=True):
    """One response as the judge sees it.

    `calls`, `text`, `user_messages`, `proposal`, `plan` and `answers` lie in other events of the log. A TurnRecord
    holds their event numbers, and rebuilding a turn brings them back. `proposal` is what the model proposed in words
    and the person's message plainly agrees to, None for nothing.
    """

    calls: tuple[ToolCall, ...]
    text: str = ""
    user_messages: tuple[Said, ...] = ()
    proposal: Said | None = None
    plan: PlanInForce | None = None
    answers: tuple[Answer, ...] = ()

    @cached_property
    def survey_hash(self) -> str:
        """The hash answers are bound to."""
        return hash_surveys(self.surveys)

    @cached_property
    def fingerprints(self) -> Mapping[str, str]:
        """What is known of each call's own resources, as one hash per call id."""
        return {survey.call: fingerprint(survey) for survey in self.surveys}

    def find_answers(self, gate: str) -> tuple[Answer, ...]:
        """Return the answers given to `gate` in this turn, oldest first."""
        return tuple(answer for answer in self.answers if answer.gate == gate)

    @property
    def has_scope(self) -> bool:
        """Whether an accepted plan says what is to be changed: one made without a look at the calls bounds no files."""
        return self.plan is not None and not self.plan.blind

    def has_asked_enough(self, gate: str, bound: int) -> bool:
        """Whether `gate` has had `bound` answers in this turn, those that no longer count included; 0 is never."""
        answers = len(self.find_answers(gate)) + sum(void.gate == gate for void in self.voided)
        return 0 < bound <= answers

    def count_fired(self, gate: str, mode: Mode) -> int:
        """Return how often `gate` fired in the task before; shadow gates keep counters of their own."""
        return (self.shadow_fired if mode == "shadow" else self.fired).get(gate, 0)


class PlanUse(Noun, frozen=True, kw_only=True):
    """The event that accepted the plan in force, how much of each item is used, and of each bound that is a sum."""

    seq: int
    used: tuple[int, ...]
    spent: tuple[str, ...] = ()


class TurnRecord(TurnBasis, frozen=True, kw_only=True):
    """A turn as `turn_judged` holds it: what lies in other events is named by its number.

    `proposed` are calls that stand in no response, for Foregate made them. `judged_calls` says how many calls of the
    response were judged, None for all of them. `proposal` is the response the person agreed to, 0 for none.
    """

    user_messages: tuple[int, ...]
    proposal: int = 0
    answers: tuple[int, ...] = ()
    plan: PlanUse | None = None
    proposed: tuple[RecordedCall, ...] | None = None
    judged_calls: int | None = None

    @classmethod
    def of(cls, turn: Turn, judged_calls: int | None = None) -> TurnRecord:
        """Return the recorded form of a turn."""
        own_calls, used = None, None
        if turn.calls and turn.actor != "model":
            own_calls = tuple(
                RecordedCall(id=call.id, name=call.name, arguments=call.raw, sent=call.sent) for call in turn.calls
            )
        if plan := turn.plan:
            used = PlanUse(seq=plan.seq, used=tuple([item.used for item in plan.items]), spent=list_spent(plan))
        return cls(
            **read_basis(turn),
            user_messages=tuple([said.seq for said in turn.user_messages]),
            proposal=turn.proposal.seq if turn.proposal is not None else 0,
            answers=tuple([answer.seq for answer in turn.answers]) if turn.answers else (),
            plan=used,
            proposed=own_calls,
            judged_calls=judged_calls,
        )


def read_basis(turn: TurnBasis) -> dict[str, Any]:
    """Return what turns and their records have in common, by field."""
    return dict(zip(_BASIS, astuple(turn), strict=False))


_BASIS = TurnBasis.__struct_fields__
"""The fields of every turn and of every record of one begin with these."""


def export_turn(turn: Turn) -> Json:
    """Return the self-contained form of a turn, for judging in another process; calls with their arguments as sent."""
    calls = [strict_json.dump(recorded) for recorded in record_calls(turn.calls)]
    return {**strict_json.dump(turn, exclude=frozenset({"calls"})), "calls": calls}


def import_turn(data: Json) -> Turn:
    """Return the turn that an exported form describes; raise InvalidJson where it describes none."""
    if not isinstance(data, dict) or not isinstance(data.get("calls"), list):
        raise InvalidJson("not an exported turn: an object with `calls` is wanted")
    calls = tuple(strict_json.load(RecordedCall, call).call for call in data["calls"])
    return replace(strict_json.load(Turn, {**data, "calls": ()}), calls=calls)
