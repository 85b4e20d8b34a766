"""What judging says: how a call stands, what a gate asks, is answered and rules, and the judgement on a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Literal, cast, final

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas.codes import Decider, GateCode, GateName
from foregate.schemas.noun import Noun
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, ToolCall


class Standing(Enum):
    """How a call stands, from loosest to strictest; rulings are joined by `max`.

    HOLD may be cured and sent again; DENY is final for that digest in its task.
    """

    ALLOW = "allow"
    ASK = "ask"
    HOLD = "hold"
    DENY = "deny"

    def __init__(self, _word: str) -> None:
        self.rank = len(type(self).__members__)
        """0 for ALLOW to 3 for DENY."""
        self.stops = _word in ("hold", "deny")
        """Whether no further gate is asked about the call."""

    def __lt__(self, other: Standing) -> bool:
        return self.rank < other.rank


_DENYING = ("unknown_tool", "denied_by_rule", "approval_required", "approval_denied", "approval_expired")
_ASKING = ("asked_by_rule", "plan_not_asked", "critique_not_asked", "critique_skipped_budget", "changed_while_waiting")


def find_standing(code: str) -> Standing:
    """Return the standing a firing `code` has unless the policy says otherwise, as of advice that is not to be had."""
    if code in _DENYING:
        return Standing.DENY
    return Standing.ASK if code in _ASKING else Standing.HOLD


class Grant(Noun, frozen=True):
    """Permission that a person gave, exactly as shown: for a gate's code or a rule, an effect and a resource pattern.

    `digest` binds it to one call instead of a pattern; `until` is `session`, `task` or `once`. `scripts` binds it to
    the files a command runs by name, `values` to the values shown.
    """

    gate: str
    code: str
    effect: str
    kind: str = ""
    pattern: str = ""
    digest: str = ""
    until: str = "session"
    seq: int = 0
    scripts: str = ""
    values: str = ""


Who = Literal["planner", "critic", "person"]


@final
class Need(Noun, frozen=True):
    """A question of `gate` to `who`, for all calls of the response that want it.

    `key` tells needs of one gate apart; `request` is what is asked, as JSON without floats; `calls` are call ids.
    `code` is the code of the ASK behind it; `expires_at` is a UTC time, only for a person.
    """

    gate: str
    who: Who
    key: str
    calls: tuple[str, ...]
    digests: tuple[str, ...]
    request: Mapping[str, Json] = field(default_factory=dict)
    code: str = ""
    expires_at: str = ""


LASTING = ("grant", "project", "wider")
"""The choices that say yes to later calls as well: for the session, or in the project, as shown narrow or wide."""
YES = ("yes", *LASTING)
"""The choices by which a call may run."""


class Answer(Noun, frozen=True):
    """The recorded answer to a need, bound to what it was asked about.

    `value` is None without a usable answer; `error` then says why. A person's is `choice`, `text`, `by` and perhaps
    `calls`, `named` and `declared`, as in a Reply. `seq` is the event number, `requests` the number of requests to a
    model.
    """

    gate: str
    who: Who
    key: str
    digests: tuple[str, ...]
    survey_hash: str
    policy_hash: str
    value: Mapping[str, Json] | None = None
    error: str = ""
    at: str = ""
    expires_at: str = ""
    seq: int = 0
    requests: int = 1

    @property
    def choice(self) -> str:
        """What a person chose, "" where no one did."""
        return self._text("choice")

    @property
    def words(self) -> str:
        """What a person said with the choice, "" for nothing."""
        return self._text("text")

    @property
    def has_yes(self) -> bool:
        """Whether a person said yes to anything."""
        calls = (self.value or {}).get("calls", {})
        return self.choice in YES or (isinstance(calls, Mapping) and any(one in YES for one in calls.values()))

    def is_yes_to(self, call: str) -> bool:
        """Whether a person said yes to the call of this id."""
        return self.find_choice(call) in YES

    def find_choice(self, call: str) -> str:
        """Return what a person chose for the call of this id, "" for nothing; `choice` is for those `calls` leaves out.

        A plain yes to a call beside a choice that lasts is that choice.
        """
        calls = (self.value or {}).get("calls", {})
        if not isinstance(calls, Mapping):
            return ""
        said = calls.get(call, self.choice)
        if said == "yes" and self.choice in LASTING:
            return self.choice
        return said if isinstance(said, str) else ""

    def _text(self, key: str) -> str:
        value = (self.value or {}).get(key)
        return value if isinstance(value, str) else ""


class Voided(Noun, frozen=True):
    """An answer that no longer fits what it was given for, and why."""

    seq: int
    gate: str
    reason: str


class Number(Noun, frozen=True):
    """A measured value against its bound, and the policy path the bound came from."""

    name: str
    value: int
    bound: int
    path: str


class Remedy(Noun, frozen=True):
    """The call that would cure a hold."""

    tool: str
    arguments: Mapping[str, Json]


class Ruling(Noun, frozen=True):
    """One gate's answer for one call. `code` is a public name; `message` is what the model is told."""

    standing: Standing
    code: GateCode
    message: str = ""
    remedy: Remedy | None = None
    numbers: tuple[Number, ...] = ()
    rules: tuple[str, ...] = ()
    reason: str = ""


class Consequence(Noun, frozen=True):
    """What follows for the task: the next request goes without tools, or a person is asked `question`.

    `slots` names what the question asks for; an answered slot is not asked again. `lasts` tells whether tools stay
    away for the next request or for the rest of the task.
    """

    kind: Literal["words_only_next", "ask_user"]
    question: str = ""
    slots: tuple[str, ...] = ()
    lasts: Literal["request", "task"] = "request"


class Opinion(Struct, frozen=True):
    """A ruling for each call the gate was asked about, by call id; a call left out is held as `gate_error`.

    `plan` is a plan the gate accepts and `first` the call it was written for. It is in force once that call is allowed,
    or at once where it was written for none. `uses` names the scope items a call uses up; `grants` is leave a person
    gave with this turn.
    """

    rulings: Mapping[str, Ruling]
    consequence: Consequence | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)
    summary: str = ""
    plan: PlanInForce | None = None
    first: str = ""
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()


_ID = attrgetter("id")


def build_rulings(gate: GateName, calls: Iterable[ToolCall], held: Mapping[str, Ruling]) -> dict[str, Ruling]:
    """Return the rulings that let pass, under `<gate>_passed`, all `calls` but those in `held`."""
    passed = build_pass(gate)
    if not held:
        return dict.fromkeys(map(_ID, calls), passed)
    return {call.id: held.get(call.id, passed) for call in calls}


def rule_alike(calls: Iterable[CallFacts], ruling: Ruling) -> dict[str, Ruling]:
    """Return the same ruling for each of the calls."""
    return {facts.call.id: ruling for facts in calls}


@cache
def build_pass(gate: GateName) -> Ruling:
    """Return the ruling by which a gate lets a call pass, the same one for every call."""
    return Ruling(Standing.ALLOW, cast(GateCode, f"{gate}_passed"))


Mode = Literal["enforce", "shadow", "off"]
Severity = Literal["info", "warning", "error"]

_CALM = (
    *("prelude_ready_for_execution", "plan_not_required", "critique_not_required"),
    *("verification_passed", "overridden"),
)


class CallRuling(Noun, frozen=True):
    """The standing a gate gave one call, under which code and for which reason; the remedy names a tool."""

    call: str
    standing: Standing
    code: GateCode
    message: str = ""
    reason: str = ""


class Decision(Noun, frozen=True):
    """A row of `turn_judged`. `code` is that of the strictest ruling, the first call's on a tie."""

    gate: Decider
    code: GateCode
    mode: Mode = "enforce"
    summary: str = ""
    tool: str = ""
    target: str = ""
    rulings: tuple[CallRuling, ...] = ()
    numbers: tuple[Number, ...] = ()
    rules: tuple[str, ...] = ()
    repetition: str = ""
    consequence: Consequence | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        """`info` for accepted, passed, not required and the snapshot; `error` for gate_error; else `warning`."""
        if self.code == "gate_error":
            return "error"
        calm = self.code in _CALM or self.code.endswith(("_passed", "_accepted", "_granted"))
        return "info" if calm else "warning"


class Verdict(Noun, frozen=True):
    """ALLOW, HOLD or DENY for one call, the strictest ruling it got and the gate that gave it."""

    call: str
    digest: str
    standing: Standing
    gate: str
    ruling: Ruling


def complete_rows(
    decisions: tuple[Decision, ...], verdicts: Iterable[Verdict], names: Mapping[str, tuple[str, str]] | None = None
) -> tuple[Decision, ...]:
    """Return decisions in which each stopped call has the ruling that stopped it.

    A gate's question holds calls beside those it is about, and `holds: whole_response` holds calls no gate is against.
    These rulings stand in verdicts alone until they are added here. `names` are tool and target by call.
    """
    stopped = [verdict for verdict in verdicts if verdict.standing is not Standing.ALLOW]
    if not stopped:
        return decisions
    applied = [ruling for one in decisions if one.mode != "shadow" for ruling in one.rulings]
    known = {ruling.call for ruling in applied if ruling.standing.stops}
    missing: dict[Decider, list[CallRuling]] = {}
    for verdict in stopped:
        if verdict.call not in known:
            why = verdict.ruling
            told = CallRuling(verdict.call, verdict.standing, why.code, why.message, why.reason)
            missing.setdefault(cast(Decider, verdict.gate), []).append(told)
    found = [replace(row, rulings=(*row.rulings, *missing.pop(row.gate, ()))) for row in decisions]
    for gate, rulings in missing.items():
        tool, target = (names or {}).get(rulings[0].call, ("", ""))
        summary, kept = rulings[0].message, (replace(rulings[0], message=""), *rulings[1:])
        found.append(Decision(gate, rulings[0].code, summary=summary, tool=tool, target=target, rulings=kept))
    return tuple(found)


class Backing(Noun, frozen=True):
    """Who asked for a call: its `source`, the words or records it `rests` on, and by path who said each value that is
    not the person's (`outside`). A permission counts as a `sheet`, `rule` is one that stands for a yes."""

    source: Literal["words", "proposal", "plan", "sheet", "rule", "none"]
    rests: tuple[str, ...] = ()
    outside: Mapping[str, str] = field(default_factory=dict)


class Judgement(Noun, frozen=True):
    """The end of judging. `plan` is the plan in force afterwards when this turn changed it; `grants` are new; `uses`
    names, per allowed call, the scope items of the plan that it uses up when it starts. `said` names the keys of said
    values that it uses up, `mandate` tells who asked for each call that wants somebody behind it."""

    verdicts: tuple[Verdict, ...]
    decisions: tuple[Decision, ...]
    consequence: Consequence | None = None
    consequence_gate: str = ""
    plan: PlanInForce | None = None
    grants: tuple[Grant, ...] = ()
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mandate: Mapping[str, Backing] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Decision, ...]:
        """The decisions, with what those of earlier versions leave out: see `complete_rows`."""
        return complete_rows(self.decisions, self.verdicts)

    def find_verdict(self, call_id: str) -> Verdict:
        """Return the verdict on a call of the turn; raise LookupError for another call."""
        for verdict in self.verdicts:
            if verdict.call == call_id:
                return verdict
        raise LookupError(f"the judgement has no verdict on `{call_id}`")

    def is_approved(self, call_id: str) -> bool:
        """Whether a person's yes let the call through."""
        for decision in self.decisions:
            for row in decision.rulings:
                if row.call == call_id and row.code == "approval_granted":
                    return True
        return False
