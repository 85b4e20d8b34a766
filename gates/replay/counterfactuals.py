"""What would have changed a ruling: found by judging the turn again with one thing moved, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.assumption import build_blind_plan, build_plan, find_domain, list_other_words
from foregate.gates.replay.redecide import Replayed, build_stand_in, replay_turn
from foregate.gates.support.blind_planner import KEY
from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import list_values, mark_moved, replace_values
from foregate.schemas.codes import GATES
from foregate.schemas.judgement import Answer, Decision, Grant, Need, Standing
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, EvidenceSeen, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Catalogue, ResourceKind
from foregate.schemas.turn import Turn

_BESIDE: Mapping[str, tuple[str, ...]] = {
    "rules": ("http.unlisted",),
    "narration": ("scope",),
    "plan": ("scope", "safety", "limits.needs_per_gate"),
    "critique": ("safety", "limits.needs_per_gate"),
    "approval": ("limits.needs_per_gate",),
    "postlude": ("limits.verification_rounds",),
}
"""Where in the policy, beside the gate's own section, values lie that its ruling may rest on."""
_VISIBLE = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)
_NOT_TRIED = ("shadow_asks", "max_bytes")
_ADVICE: Mapping[str, str] = {
    "plan": "a plan that fits this call",
    "critique": "a critique that accepts it",
    "approval": "a person's yes in time",
}


NO_CALL = ToolCall("", "", "", "{}", {}, "", "")
"""Stands for the call where a turn has none: an answer in words."""


class Counterfactual(Struct, frozen=True):
    """One thing that, moved alone, makes the ruling another: what it is in words, and what would come of the call.

    `key` is the policy path where it is a value, with `relation` (`>=`, `<=`, `=`, or `without` for a rule taken out)
    and `value`. `then` is `runs`, `asks` (a later gate) or `asks_here` (this one), `held`, `denied`, or `answered` for
    an answer in words; `by` names who is asked, the gate and code that hold, or the code of the answer.
    """

    says: str
    then: str
    by: str = ""
    key: str = ""
    relation: str = ""
    value: Json = None


class CounterfactualSearch(Struct, frozen=True, dict=True):
    """A gate's `decision` on one call of a recorded turn, among all `rows`, with what is needed to judge it again."""

    turn: Turn
    rows: Sequence[Decision]
    decision: Decision
    call: ToolCall
    policy: Policy
    catalogue: Catalogue

    @cached_property
    def prelude(self) -> Prelude:
        return build_prelude(self.policy, self.catalogue)

    @cached_property
    def facts(self) -> Mapping[str, CallFacts]:
        return self.prelude.facts(self.turn)

    @cached_property
    def has_passed(self) -> bool:
        """Whether the gate let the call pass, or the answer in words."""
        if not self.turn.calls:
            return self.decision.code == "verification_passed"
        return has_let_pass(self.decision, self.call.id)

    def find_counterfactuals(self) -> list[Counterfactual]:
        """Return what would have changed the ruling, values of the policy first; empty when nothing tried does."""
        if self.decision.gate not in (*GATES, "postlude"):
            return []
        found = list(self._try_values())
        return found if self.has_passed else found + list(self._try_events())

    def _try_values(self) -> Iterator[Counterfactual]:
        """Yield the levers of the policy: of one that passed only the bounds of its numbers."""
        bounds = {number.path for number in self.decision.numbers}
        for path, now in list_values(self.policy).items():
            key = format_path(path)
            if self.has_passed and key not in bounds:
                continue
            if path[: len(RULES)] == RULES:
                if path[-1] in self.decision.rules and not self.has_passed:
                    yield from self._try_policy(path, None, f"without the rule `{path[-1]}`", "without")
            elif key in bounds or (self._may_matter_here(path) and not is_outside_judging(path)):
                yield from self._try_value(path, now)

    def _may_matter_here(self, path: Path) -> bool:
        key, gate = format_path(path), self.decision.gate
        within = (gate, *_BESIDE.get(gate, ()))
        return path[-1] not in _NOT_TRIED and any(key == name or key.startswith(f"{name}.") for name in within)

    def _try_value(self, path: Path, now: Data) -> Iterator[Counterfactual]:
        """Yield how a value would have to be: another word, or the nearest number on either side."""
        key = format_path(path)
        for other in list_other_words(path, now):
            yield from self._try_policy(path, other, f"with `{key}: {str(other).lower()}`", "=")
        if isinstance(now, int) and not isinstance(now, bool):
            least, most = find_domain(path)
            above = find_nearest(lambda value: bool(self._judge_with(path, value)), now, most)
            below = find_nearest(lambda value: bool(self._judge_with(path, value)), now, max(least, min(1, now)))
            if above is not None:
                yield from self._try_policy(path, above, f"with `{key}` at {above} or more", ">=")
            if below is not None:
                some = f"from 1 to {below}" if below > 1 else "at 1"
                till = f"at {below} or less" if self._judge_with(path, least) else some
                yield from self._try_policy(path, below, f"with `{key}` {till}", "<=")
            elif above is None and now > 0 == least:
                yield from self._try_policy(path, 0, f"with `{key}` at 0", "=")

    def _try_policy(self, path: Path, value: Json, says: str, relation: str) -> Iterator[Counterfactual]:
        if judged := self._judge_with(path, value):
            yield self._build_counterfactual(judged, says, format_path(path), relation, value)

    def _judge_with(self, path: Path, value: Data) -> Replayed | None:
        """Return the turn judged with another value, None where it makes no policy or no other ruling."""
        try:
            policy = mark_moved(replace_values(self.policy, {path: value}), self.policy, path, value)
        except ValueError:
            return None
        bench = build_prelude(policy, self.catalogue)
        judged = replay_turn(self.turn, policy, bench, bench.facts(self.turn))
        return judged if self._is_other_ruling(judged) else None

    def _try_events(self) -> Iterator[Counterfactual]:
        """Yield the levers that are no values of the policy: what was said, seen, granted or answered."""
        turn, gate = self.turn, self.decision.gate
        for says, moved in self._vary_past():
            judged = replay_turn(moved, self.policy, self.prelude, self.prelude.facts(moved))
            if self._is_other_ruling(judged):
                yield self._build_counterfactual(judged, says)
        if gate in _ADVICE:
            other = tuple(answer for answer in turn.answers if answer.gate != gate)
            moved = replace(turn, answers=other, attended=turn.attended or gate == "approval")
            judged = replay_turn(moved, self.policy, self.prelude, self.facts, otherwise=self._answer_best)
            judged = replace(judged, missing={c: need for c, need in judged.missing.items() if need.gate != gate})
            if self._is_other_ruling(judged):
                yield self._build_counterfactual(judged, f"with {_ADVICE[gate]}")

    def _vary_past(self) -> Iterator[tuple[str, Turn]]:
        """Yield turns before which something else had happened, and what in words."""
        turn, policy, call = self.turn, self.policy, self.call
        if not turn.calls:
            met = tuple(replace(check, result="met") for check in turn.checks)
            yield "had everything promised been seen after the last change", replace(turn, checks=met)
            return
        if not turn.attended:
            yield "had there been a person to ask", replace(turn, attended=True)
        if turn.narrated < policy.narration.min_chars:
            least = policy.narration.min_chars
            yield f"had the task first said at least {least} characters", replace(turn, narrated=least)
        if self.decision.consequence is not None and self.decision.consequence.slots:
            slots = self.decision.consequence.slots
            answered = replace(turn, slots_answered=(*turn.slots_answered, *slots))
            yield f"had the person said {', '.join(slots)} before", answered
        if turn.refusals:
            yield "had it not been refused before", replace(turn, refusals=())
        there = (r for r in self.facts[call.id].changed_resources if r.exists)
        if seen := [resource for resource in there if resource.kind in _VISIBLE]:
            names = ", ".join(f"`{resource.id[:120]}`" for resource in seen)
            yield f"had {names} been looked at first, as it stood", self._add_observations(seen)
        if self.decision.gate == "approval":
            leave = "with leave given before for exactly this call"
            yield leave, replace(turn, grants=(*turn.grants, *self._build_grants()))
        elif turn.attended and any(r.call == call.id and r.standing is Standing.HOLD for r in self.decision.rulings):
            anyway = Grant(self.decision.gate, self.decision.code, "", digest=call.digest)
            yield "with a person's `anyway`", replace(turn, grants=(*turn.grants, anyway))

    def _add_observations(self, seen: list[SurveyedResource]) -> Turn:
        """Return the turn with the whole of these resources observed as they were."""
        kinds = dict.fromkeys(kind for needed in self.policy.evidence.requirements for kind in needed.accepts)
        now = self.turn.response
        looked = {r: replace(r, evidence=tuple(EvidenceSeen(kind, now, r.hash) for kind in kinds)) for r in seen}
        surveys = [
            replace(survey, resources=tuple(looked.get(r, r) for r in survey.resources))
            if survey.call == self.call.id
            else survey
            for survey in self.turn.surveys
        ]
        return replace(self.turn, surveys=tuple(surveys))

    def _build_grants(self) -> tuple[Grant, ...]:
        reasons = [("approval", "approval_required")]
        for row in self.rows:
            if any(r.call == self.call.id and r.standing is Standing.ASK for r in row.rulings):
                reasons += [(row.gate, code) for code in row.rules or (row.code,)]
        effect = self.facts[self.call.id].effect.value
        return tuple(Grant(gate, code, effect, digest=self.call.digest) for gate, code in reasons)

    def _answer_best(self, need: Need, turn: Turn) -> Answer:
        """Return the best answer to this gate's question, and to others that nobody answered what stands in."""
        if need.gate != self.decision.gate:
            return build_stand_in(need, turn)
        value: Json = {"choice": "yes", "text": "", "by": "person"}
        if need.who == "planner":
            facts = self.facts[need.calls[0]]
            value = build_blind_plan([facts]) if need.key.startswith(KEY) else build_plan([facts])
        elif need.who == "critic":
            value = {"verdict": "accept", "issues": [], "summary": "fine"}
        return replace(build_stand_in(need, turn), value=value, error="")

    def _is_other_ruling(self, judged: Replayed) -> bool:
        """Whether the gate's ruling on the call is another in kind: it passes where it did not, or the reverse."""
        gate = self.decision.gate
        row = next((row for row in judged.judgement.rows if row.gate == gate), None)
        if not self.turn.calls:
            return row is not None and row.code != self.decision.code
        need = judged.missing.get(self.call.id)
        if need is not None and need.gate == gate:
            return not self.has_passed
        verdict = judged.judgement.find_verdict(self.call.id)
        if verdict.gate == gate and verdict.standing is not Standing.ALLOW and not self.has_passed:
            return False
        before = GATES[: GATES.index(gate)] if gate in GATES else ()
        earlier = verdict.standing is not Standing.ALLOW and verdict.gate in before
        shadow = self.decision.mode == "shadow"
        if row is not None and (shadow or row.mode == "enforce"):
            return has_let_pass(row, self.call.id) != self.has_passed
        return not shadow and not self.has_passed and not earlier

    def _build_counterfactual(
        self, judged: Replayed, says: str, key: str = "", relation: str = "", value: Json = None
    ) -> Counterfactual:
        then, by = "runs", ""
        need = judged.missing.get(self.call.id)
        if need is None and self.policy.holds == "whole_response":
            need = next(iter(judged.missing.values()), None)
        if not self.turn.calls:
            then, by = "answered", judged.judgement.decisions[0].code
        elif need is not None:
            then, by = "asks" if need.gate != self.decision.gate else "asks_here", need.who
        else:
            verdict = judged.judgement.find_verdict(self.call.id)
            if verdict.standing is not Standing.ALLOW:
                then = "denied" if verdict.standing is Standing.DENY else "held"
                by = f"{verdict.gate} ({verdict.ruling.code})"
        return Counterfactual(says, then, by, key, relation, value)


def has_let_pass(decision: Decision, call_id: str) -> bool:
    """Whether a row lets a call pass; one it says nothing notable of has passed."""
    return all(ruling.standing is Standing.ALLOW for ruling in decision.rulings if ruling.call == call_id)


def find_nearest(turns: Callable[[int], bool], now: int, limit: int) -> int | None:
    """Return the value closest to `now`, towards `limit`, at which something turns; None where nothing does."""
    if limit == now or not turns(limit):
        return None
    still, turned = now, limit
    while abs(turned - still) > 1:
        middle = (still + turned) // 2
        if turns(middle):
            turned = middle
        else:
            still = middle
    return turned
