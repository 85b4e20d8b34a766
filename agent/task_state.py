"""One task of a session, as its events so far tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from foregate.agent.context.cut import line
from foregate.agent.program import Result
from foregate.schemas.event import Event
from foregate.schemas.grant import Grant
from foregate.schemas.judgement import Judgement
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.need import Answer, Need, Voided
from foregate.schemas.plan import PlanInForce
from foregate.schemas.resource import Resource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import CheckResult, Counters, HoldCount, Refusal, Said

WHY = 300
"""Characters that are kept of why something failed, was held or is unknown."""


@dataclass(slots=True)
class OpenNeed:
    """A question that was raised and not yet answered."""

    seq: int
    need: Need
    survey_hash: str
    policy_hash: str


@dataclass(slots=True)
class OpenTurn:
    """A response that is not yet judged, or whose calls are not all answered."""

    seq: int
    response: ModelResponse
    unanswered: dict[str, ToolCall]
    answers: list[Answer] = field(default_factory=list)
    voided: list[Voided] = field(default_factory=list)
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
    failed: set[str] = field(default_factory=set)
    """The calls of blocks that were answered and did not do what they should."""

    @classmethod
    def of(cls, seq: int, response: ModelResponse, continues: int = 0) -> OpenTurn:
        """Return the turn of a response none of whose calls is answered."""
        calls, order = response.calls, response.order
        found = cls(seq, response, {call.id: call for call in calls}, continues=continues)
        if order is not None:
            found.in_blocks = frozenset(calls[place].id for place in order.over(len(calls)).places())
        return found

    def not_made(self, call: str) -> None:
        """Note that a change did not happen: outside blocks it stops the later changes of the response."""
        self.change_not_made = self.change_not_made or call not in self.in_blocks

    def close(self, call: str, event: Event) -> None:
        """Take in the answer to a call."""
        del self.unanswered[call]
        if call in self.in_blocks and not Result.of(event).ok:
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
    running_plan: str = ""
    """The digest of the confirmed plan this task carries out, "" where a model leads."""
    during: str = ""
    """The task of that plan that runs, as its leave names it."""
    proposed_plan: str = ""
    """The digest of the plan that waits for a yes in this task, "" where none does."""
    wants_plan: bool = False
    """Whether the person asked for a plan, or what was to be changed was held for want of one."""
    touched: int = 0
    """Changes that took effect, or may have."""
    grants: list[Grant] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    holds: dict[tuple[str, str, str], int] = field(default_factory=dict)
    fired: dict[str, int] = field(default_factory=dict)
    shadow_fired: dict[str, int] = field(default_factory=dict)
    slots_asked: list[str] = field(default_factory=list)
    slots_answered: list[str] = field(default_factory=list)
    changed: set[Resource] = field(default_factory=set)
    runs: dict[str, int] = field(default_factory=dict)
    just_failed: tuple[str, ...] = ()
    trouble: dict[tuple[str, str], str] = field(default_factory=dict)
    why: dict[tuple[str, str], str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    words_only: bool = False
    words_only_task: bool = False
    empty_responses: int = 0
    stuck: str = ""
    verdict: tuple[str, str] = ("", "")
    last_change: int = 0
    criteria: dict[str, tuple[int, CheckResult]] = field(default_factory=dict)
    after_turn: tuple[str, str] = ("", "")

    def count(self, **more: int) -> None:
        """Add to the counters; raise KeyError for one there is none of."""
        for name, by in more.items():
            self.used[name] += by

    def went_wrong(self, body: Mapping[str, Json], what: str, why: str) -> None:
        """Note what became of a change, and why, until it is settled."""
        key = body["tool"], body.get("target", "")
        self.trouble[key], self.why[key] = what, line(why, WHY)

    def finished(self, body: Mapping[str, Json], side_effect: bool) -> None:
        """Take in how a call that ran ended."""
        self.just_failed = () if body["ok"] else (body["tool"],)
        if side_effect and not body["ok"]:
            self.went_wrong(body, "failed", body["content"])
        elif side_effect:
            self.settled(body["tool"], body.get("target", ""))

    def settled(self, tool: str, target: str) -> None:
        """Note that a change took effect, so that no trouble with its target is open any more."""
        if self.trouble:
            self.trouble = {key: what for key, what in self.trouble.items() if key[1] != target}
        self.done.append(f"{tool} {target}".strip())

    @property
    def counters(self) -> Counters:
        """What the task has used so far."""
        return Counters(**self.used)

    def counters_at(self, now: str) -> Counters:
        """Return what the task has used, with the seconds it has been active until `now`."""
        return Counters(**{**self.used, "elapsed": self.elapsed(now)})

    def elapsed(self, now: str) -> int:
        """Return the seconds the task has been active; waiting for a person does not count."""
        if self.paused or not self.since:
            return self.active
        return self.active + max(0, int((when(now) - when(self.since)).total_seconds()))

    def held(self, digests: set[str]) -> tuple[HoldCount, ...]:
        """Return the hold counts of these digests."""
        return tuple(
            HoldCount(digest, code, fingerprint, count)
            for (digest, code, fingerprint), count in self.holds.items()
            if digest in digests
        )


def step_name(task: int) -> str:
    """Return what a task of a confirmed plan is called where leave is bound to it."""
    return f"task-{task}"


def when(time: str) -> datetime:
    """Return the moment a UTC text names."""
    return datetime.fromisoformat(time)
