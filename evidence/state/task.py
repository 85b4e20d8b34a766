"""One task of a session, as its events so far tell it, and the criteria of its plan against what was observed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from foregate.evidence.ledger import Ledger
from foregate.evidence.passages import ReadTexts
from foregate.evidence.reads import Earlier, Reads
from foregate.evidence.state import plan_in_force
from foregate.evidence.state.plan_in_force import Uses
from foregate.evidence.state.truncate import format_line
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, SandboxEnded, TaskPaused, ToolFinished
from foregate.schemas.judgement import Answer, Grant, Judgement, Need, Standing
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.plan import Criterion, PlanInForce
from foregate.schemas.question import PlanAnswer
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.tool_call import EvidenceKind, Origin, ToolCall
from foregate.schemas.tool_spec import Effect, Resource
from foregate.schemas.turn import Check, CheckResult, Counters, HoldCount, Refusal, Said

WHY = 300
"""Characters that are kept of why something failed, was held or is unknown."""
REFUSALS = ("approval_denied", "approval_required", "critique_rejected", "outside_mandate")
"""Codes by which a call was refused, so that it stays refused, unasked, until it or its evidence changes.

A plan that was no plan is its planner's fault, and refuses no call.
"""
BLOCKED = "blocked"
"""How a child task ended that was not let do what was asked for: what it left undone, its parent left undone too."""
_UNPLANNED = "was not done (plan_required)"


@dataclass(slots=True)
class OpenNeed:
    """A question that was raised and not yet answered."""

    seq: int
    need: Need
    survey_hash: str
    policy_hash: str


@dataclass(slots=True)
class OpenSandbox:
    """A program that has ended in its sandbox, at event `seq`, and whose changes are not settled yet."""

    seq: int
    body: SandboxEnded
    answers: list[Answer] = field(default_factory=list)
    need: OpenNeed | None = None


class CallResult(Struct, frozen=True):
    """The outcome of a call: whether it did what it should, what it said, and whose words those are. `content` is None
    for one that did not run, which in a dry run is as good as done; `told` is what stands in a file."""

    ok: bool
    content: str | None = None
    origin: Origin = Origin.WORKSPACE
    told: bool = False
    seq: int = 0

    @classmethod
    def of(cls, seq: int, answer: ToolFinished | CallAnswered | OutcomeUnknown) -> CallResult:
        """Return the result that the event with the number `seq` says of a call it answers."""
        if isinstance(answer, ToolFinished):
            kinds = {record.kind for record in answer.evidence}
            return cls(answer.ok, answer.content, answer.origin, kinds == {EvidenceKind.FILE_READ}, seq)
        return cls(isinstance(answer, CallAnswered) and answer.code == "not_run_dry_run", seq=seq)


class FutileCall(Struct, frozen=True):
    """A call that was not run because it only repeats: its name and target, in how many turns, and in which last."""

    name: str
    turns: int = 0
    turn: int = 0


class LeftCall(Struct, frozen=True):
    """A change that was not made: the code that says why, and how many changes had been made by then."""

    code: str
    after: int


@dataclass(slots=True)
class OpenTurn:
    """A response that is not yet judged, or whose calls are not all answered."""

    seq: int
    response: ModelResponse
    unanswered: dict[str, ToolCall]
    answers: list[Answer] = field(default_factory=list)
    need: OpenNeed | None = None
    judged: int = 0
    judgement: Judgement | None = None
    survey_hash: str = ""
    started: dict[str, int] = field(default_factory=dict)
    own_changes: dict[Resource, str] = field(default_factory=dict)
    change_not_made: bool = False
    dry_run: bool = False
    continues: int = 0
    """The event of the response this is a further stage of, 0 for a response of its own."""
    in_blocks: frozenset[str] = frozenset()
    """The calls the model put into blocks: each is stopped by its own sequence, not by a change that was not made."""
    sandbox: OpenSandbox | None = None
    """What is asked and answered belongs to it while it is there."""
    failed: set[str] = field(default_factory=set)
    """The calls of blocks that were answered and did not do what they should."""

    @classmethod
    def of(cls, seq: int, response: ModelResponse, continues: int = 0) -> OpenTurn:
        """Return the turn of a response none of whose calls is answered."""
        calls, order = response.calls, response.order
        found = cls(seq, response, {call.id: call for call in calls}, continues=continues)
        if order is not None:
            found.in_blocks = frozenset(calls[place].id for place in order.fit_to(len(calls)).find_places())
        return found

    def note_failed_change(self, call: str) -> None:
        """Note that a change did not happen: outside blocks it stops the later changes of the response."""
        self.change_not_made = self.change_not_made or call not in self.in_blocks

    def close_call(self, call: str, result: CallResult) -> None:
        """Take in the outcome of a call."""
        del self.unanswered[call]
        if self.sandbox is not None and self.sandbox.body.call == call:
            self.sandbox = None
        if call in self.in_blocks and not result.ok:
            self.failed.add(call)


@dataclass(slots=True)
class TaskState:
    """What a task has said, used, been refused and been allowed. Mutated only by the fold."""

    number: int
    depth: int
    since: str
    messages: list[Said] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Counters.__struct_fields__, 0))
    active: int = 0
    paused: str = ""
    question: str = ""
    narrated: int = 0
    plan: PlanInForce | None = None
    steps: list[plan_in_force.StepProgress] = field(default_factory=list)
    """The steps of all revisions of that plan."""
    running_plan: str = ""
    """The digest of the confirmed plan this task carries out, "" where a model leads."""
    during: str = ""
    """The task of that plan that runs, as its leave names it."""
    proposed_plan: str = ""
    """The digest of the plan that waits for a yes in this task, "" where none does."""
    plan_answer: PlanAnswer | None = None
    wants_plan: bool = False
    """Whether the person asked for a plan, or what was to be changed was held for want of one."""
    touched: int = 0
    """Changes that took effect, or may have."""
    grants: list[Grant] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    holds: dict[tuple[str, str, str], int] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)
    shadow_fired: Counter[str] = field(default_factory=Counter)
    slots_asked: list[str] = field(default_factory=list)
    slots_answered: list[str] = field(default_factory=list)
    changed: set[Resource] = field(default_factory=set)
    made: set[Resource] = field(default_factory=set)
    """What of that was not there before, and does not come from elsewhere in the workspace."""
    applied: set[Resource] = field(default_factory=set)
    """What of that came out of sandboxes: their changes were judged all at once, and count as none."""
    uses: Uses = field(default_factory=Uses)
    reads: Reads = field(default_factory=Reads)
    """What reads returned to the model, apart from what the session itself may have put there."""
    earlier: Earlier = field(default_factory=Earlier)
    texts: ReadTexts = field(default_factory=ReadTexts)
    """What calls that only look and programs returned, of whatever worth it is."""
    runs: dict[str, int] = field(default_factory=dict)
    futile: dict[str, FutileCall] = field(default_factory=dict)
    """The calls that were not run because they only repeat, by digest; none once anything new was seen."""
    just_failed: tuple[str, ...] = ()
    trouble: dict[tuple[str, str], str] = field(default_factory=dict)
    why: dict[tuple[str, str], str] = field(default_factory=dict)
    unrun: dict[tuple[str, str], str] = field(default_factory=dict)
    """Other calls that were asked for and did not run, and why: what an answer claims may have been theirs to do."""
    unsettled: set[tuple[str, str]] = field(default_factory=set)
    """Those that would have changed something, and nothing did in their place since."""
    reached: set[Effect] = field(default_factory=set)
    """The effects of the calls that did what they should."""
    left: dict[tuple[str, str], LeftCall] = field(default_factory=dict)
    """Each change that was not made, by tool and target; `refused_before` is no reason of its own."""
    done: list[str] = field(default_factory=list)
    words_only: bool = False
    words_only_task: bool = False
    empty_responses: int = 0
    stuck: str = ""
    verdict: tuple[str, str] = ("", "")
    last_change: int = 0
    criteria: dict[tuple[str | None, ...], tuple[int, CheckResult]] = field(default_factory=dict)
    """What was last seen of a criterion with such a check, target and expectation, and by which event."""
    after_turn: tuple[str, str] = ("", "")

    def is_own(self, resource: Resource, access: Effect) -> bool:
        """Whether this task has changed a resource already, or made it where it would be deleted."""
        return resource in (self.made if access is Effect.DELETE else self.changed)

    def add_counts(self, **more: int) -> None:
        """Add to the counters; raise KeyError for an unknown one."""
        for name, by in more.items():
            self.used[name] += by

    def add_message(self, said: Said, time: str) -> None:
        """Take in what a person said, which answers what the task waited for."""
        self.messages.append(said)
        self.after_turn = ("", "")
        if self.paused:
            self.slots_answered.extend(slot for slot in self.slots_asked if slot not in self.slots_answered)
            self.narrated = max(self.narrated, len(self.question))
            self.paused, self.since, self.question = "", time, ""

    def pause_clock(self, time: str, body: TaskPaused) -> None:
        """Stop the clock until a person has answered."""
        self.active, self.paused = self.count_active_seconds(time), body.reason
        self.question = self.question if body.question is None else body.question
        if self.plan_answer is not None and self.plan_answer.answer.choice == "no":
            self.plan_answer = None  # the task pauses because of it

    def apply_judgement(self, seq: int, body: TurnJudged) -> None:
        """Take in what was judged of a turn of the model, or of what a sandbox changed for it."""
        judgement = body.judgement
        if body.turn.actor == "model":
            self.add_counts(turns=0 if body.turn.cause else 1)
            self.stuck = body.stuck
        for decision in judgement.decisions:
            if decision.consequence or (decision.rulings and [one for one in decision.rulings if one.standing.rank]):
                (self.shadow_fired if decision.mode == "shadow" else self.fired)[decision.gate] += 1
            if decision.gate == "plan" and decision.rulings:
                self.uses.planned.update(one.call for one in decision.rulings if one.code != "plan_not_required")
        for verdict in judgement.verdicts:
            code, fingerprint = verdict.ruling.code, body.fingerprints.get(verdict.call, "")
            if verdict.standing is not Standing.ALLOW:
                held = verdict.digest, code, fingerprint
                self.holds[held] = self.holds.get(held, 0) + 1
                self.wants_plan = self.wants_plan or code == "plan_required"
            if code in REFUSALS:
                why = verdict.ruling.message
                self.refusals.append(Refusal(verdict.digest, fingerprint, verdict.gate, code, why, seq))
        if judgement.plan is not None:
            self.plan = replace(judgement.plan, seq=seq)
            self.steps += plan_in_force.read_steps(judgement)
        if (consequence := judgement.consequence) is None:
            return
        if consequence.kind == "ask_user":
            self.question = consequence.question
            self.slots_asked.extend(consequence.slots)
        else:
            self.words_only = True
            self.words_only_task = self.words_only_task or consequence.lasts == "task"

    def apply_verification(self, judgement: Judgement) -> bool:
        """Take in what was judged of an answer; return whether the answer goes back to the model."""
        self.add_counts(verification_rounds=1)
        for decision in judgement.decisions:
            self.verdict = decision.code, decision.summary
        if pending := sum(decision.code == "verification_pending" for decision in judgement.decisions):
            self.fired["postlude"] += pending
        return pending > 0

    def follow_plan(self, event: Event, body: PlanProposed | PlanConfirmed | PlanStepChanged) -> None:
        """Take in that a plan was proposed or confirmed, or how one of its tasks stands."""
        self.plan_answer = None
        match body:
            case PlanProposed(digest=digest):
                self.proposed_plan, self.running_plan, self.wants_plan = digest, "", False
            case PlanConfirmed(digest=digest, plan=plan):
                self.running_plan, self.proposed_plan, self.during = digest, "", ""
                self.trouble = {key: what for key, what in self.trouble.items() if what != _UNPLANNED}
                if plan is not None:
                    self.plan = replace(plan, seq=event.seq)
            case PlanStepChanged(status="running", step=step):
                self.during = name_step(step)
                if self.paused:
                    self.paused, self.since = "", event.time
            case PlanStepChanged(step=step):
                self.during = "" if self.during == name_step(step) else self.during
            case _:
                assert_never(body)

    def note_trouble(self, tool: str, target: str, what: str, why: str) -> None:
        """Note what became of a change, and why, until it is settled."""
        key = tool, target
        self.trouble[key], self.why[key] = what, format_line(why, WHY)

    def note_unrun(self, tool: str, target: str, what: str, *, change: bool) -> None:
        """Note a call that did not run and is no trouble by itself."""
        self.unrun[tool, target] = what
        if change:
            self.unsettled.add((tool, target))

    def note_futile_call(self, digest: str, name: str, turn: int) -> None:
        """Note that a call was not run in a turn because it only repeats what brought nothing new."""
        known = self.futile.get(digest) or FutileCall(name)
        if known.turn != turn:
            self.futile[digest] = FutileCall(name, known.turns + 1, turn)

    def note_finished_call(self, seq: int, body: ToolFinished, side_effect: bool) -> None:
        """Take in how a call that ran ended, and what event `seq` tells by that of the plan's criteria and steps."""
        if self.steps:
            used = self.uses.get_items(body.call)
            plan_in_force.advance_steps(
                self.steps, seq, body, {self.plan.items[at].step for at in used} if self.plan else ()
            )
        for criterion in self.plan.criteria if self.plan else ():
            if (result := plan_in_force.check_criterion(criterion, body, changed=side_effect)) is not None:
                self.criteria[criterion.check, criterion.target, criterion.expected] = (seq, result)
        self.just_failed = () if body.ok else (body.tool,)
        if side_effect and not body.ok:
            self.note_trouble(body.tool, body.target, "failed", body.content)
        elif side_effect:
            self.note_change(body.tool, body.target)
        elif body.used and body.error == BLOCKED:
            self.note_trouble(body.tool, body.target, "was not done", body.content)
            self.left[body.tool, body.target] = LeftCall(BLOCKED, len(self.done))

    @property
    def done_steps(self) -> dict[str, int]:
        """The event that completed each step of the plan that is done."""
        return {step.id: step.completed_by for step in self.steps if step.completed_by} if self.steps else {}

    def find_result(self, criterion: Criterion) -> CheckResult | None:
        """Return what was seen of a criterion after the last change or by it, None where nothing was."""
        seen = self.criteria.get((criterion.check, criterion.target, criterion.expected))
        return seen[1] if seen is not None and seen[0] >= self.last_change else None

    def note_change(self, tool: str, target: str) -> None:
        """Note that a change took effect, so that no trouble with its target is open any more."""
        self.trouble = {key: what for key, what in self.trouble.items() if key[1] != target}
        self.unsettled = {key for key in self.unsettled if key[0] != tool and key[1] not in ("", target)}
        self.done.append(f"{tool} {target}".strip())

    @property
    def counters(self) -> Counters:
        """What the task has used so far."""
        return Counters(**self.used)

    def counters_at(self, now: str) -> Counters:
        """Return what the task has used, with the seconds it has been active until `now`."""
        return Counters(**{**self.used, "elapsed": self.count_active_seconds(now)})

    def count_active_seconds(self, now: str) -> int:
        """Return the seconds the task has been active; waiting for a person does not count."""
        if self.paused or not self.since:
            return self.active
        return self.active + max(0, int((parse_time(now) - parse_time(self.since)).total_seconds()))

    def find_hold_counts(self, digests: set[str]) -> tuple[HoldCount, ...]:
        """Return the hold counts of these digests."""
        return tuple(HoldCount(*key, count) for key, count in self.holds.items() if key[0] in digests)


def name_step(task: int) -> str:
    """Return what a task of a confirmed plan is called where leave is bound to it."""
    return f"task-{task}"


parse_time = datetime.fromisoformat
"""Returns the moment a UTC text names."""


def build_checks(task: TaskState, ledger: Ledger) -> tuple[Check, ...]:
    """Return how each criterion of the plan in force stands after the task's last change.

    A criterion in words alone is `unseen`: nothing that was observed tells whether it is met.
    """
    found = []
    for criterion in task.plan.criteria if task.plan else ():
        result = task.find_result(criterion) or ("uncheckable" if criterion.check == "command_succeeds" else "unseen")
        found.append(Check(criterion.text[:200], result, (criterion.target or "")[:200]))
    unseen = (resource for resource in sorted(task.changed) if not ledger.is_observed_since_change(resource))
    return (*found, *(Check(f"`{resource.id}` was read back", "unseen", resource.id) for resource in unseen))


def build_observations(task: TaskState) -> list[ToolCall]:
    """Return the calls that would settle what is open, as far as they turn out to be mere observations."""
    open_ = (
        criterion for criterion in (task.plan.criteria if task.plan else ()) if task.find_result(criterion) is None
    )
    calls = [call for call in map(plan_in_force.build_observation, open_) if call is not None]
    return list({call.digest: call for call in calls}.values())
