"""Judging a recorded turn again, under its own policy or another, and saying how the rulings differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.postlude import judge_answer
from foregate.gates.prelude import Prelude, build_prelude, judge
from foregate.gates.replay.assumption import Assumption
from foregate.gates.support.blind_planner import KEY
from foregate.policy.policy import Policy
from foregate.policy.risk.resurvey import compare_looking, resurvey
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import compare_policies, mark_moved, replace_values
from foregate.schemas.judgement import Answer, Judgement, Need, Number, Standing, Verdict, Who
from foregate.schemas.tool_call import CallFacts, Survey
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

Change = Literal[
    "unchanged", "newly_held", "newly_let_go", "newly_asked", "no_longer_asked", "other_reason", "not_decidable"
]
"""How one call comes out. `newly_held` covers held and denied, `newly_asked` is a question to a person the log holds no
answer to, `no_longer_asked` ran after a yes and would run without one, `other_reason` stays held for another reason."""

DIVERGING: frozenset[Change] = frozenset({"newly_held", "newly_let_go", "newly_asked", "other_reason", "not_decidable"})
"""Changes after which a session would have gone another way: the model is told something else, or something unknown."""


_BESIDE = "the calls beside it"
"""What a call needs that is held together with one that is not decidable."""


class Side(Struct, frozen=True):
    """How a call stands: its standing, the gate and the code that decide it, and whether a person was asked."""

    standing: str
    gate: str
    code: str
    asked: bool = False


class CallChange(Struct, frozen=True):
    """One call judged again. `needs` says what the log does not hold where it is not decidable.

    That is `planner`, `critic`, the policy key that steers a look, or the calls that are held together with this one.
    `numbers` are those of the ruling that decides now, or of the one that decided then where it is let go. A turn
    without calls has one, about the answer in words.
    """

    call: str
    tool: str
    target: str
    change: Change
    before: Side
    after: Side | None = None
    needs: str = ""
    numbers: tuple[Number, ...] = ()

    @property
    def is_unseen(self) -> bool:
        """Whether it is not decidable because looking at the call again might find something else."""
        return self.change == "not_decidable" and self.needs not in (*get_args(Who), _BESIDE)


class Redecision(Struct, frozen=True):
    """A turn judged again: what becomes of each call, and which questions it takes fewer of (`spared`).

    `asked` are all questions it takes, and `assumed` those of them whose answer the log does not hold.
    """

    calls: tuple[CallChange, ...]
    spared: tuple[Who, ...] = ()
    asked: tuple[Who, ...] = ()
    assumed: tuple[Who, ...] = ()

    @property
    def is_unchanged(self) -> bool:
        return all(call.change == "unchanged" for call in self.calls)


class Replayed(Struct, frozen=True):
    """A turn judged as the loop would have: answers are handed in as they are asked for.

    `missing` names, by call, the questions no answer of the turn fits; for the judgement they count as met, a person's
    with a yes and advice with none to be had. `used` are the answers that fitted, `assumed` those that were assumed,
    and `asked` who was asked in all.
    """

    judgement: Judgement
    missing: Mapping[str, Need]
    used: tuple[Answer, ...]
    assumed: tuple[Answer, ...] = ()
    asked: tuple[Who, ...] = ()


def judge_any_turn(
    turn: Turn, policy: Policy, bench: Prelude, facts: Mapping[str, CallFacts] | None = None
) -> Judgement | Need:
    """Judge a turn of any actor: an answer after changes goes to the postlude, everything else to the gates."""
    if turn.actor == "postlude" and not turn.calls:
        return judge_answer(turn, policy)
    return judge(turn, bench, facts)


def redecide(
    turn: Turn, recorded: Judgement, policy: Policy, bench: Prelude, before: Policy, catalogue: Catalogue
) -> Redecision:
    """Judge a turn that was recorded under the policy `before` again under `policy`, whose gates are `bench`.

    Recorded answers are used, whatever policy they were given under, where they answer what is asked now.
    """
    turn, unknown, looked = survey_again(turn, policy, before, catalogue)
    return redecide_surveyed(turn, recorded, policy, bench, bench.facts(turn), unknown, looked)


def redecide_surveyed(
    turn: Turn,
    recorded: Judgement,
    policy: Policy,
    bench: Prelude,
    facts: Mapping[str, CallFacts],
    unknown: Mapping[str, str] | None = None,
    looked: Collection[str] = (),
    assume: Assumption | None = None,
) -> Redecision:
    """Judge a turn again that was surveyed as it would be under `policy`; see `survey_again`."""
    other = {call.digest for call in turn.calls if call.id in looked}
    now = replay_turn(turn, policy, bench, facts, other, assume=assume)
    return compare_replayed(turn, recorded, now, bench.holds, facts, unknown or {})


def compare_replayed(
    turn: Turn,
    recorded: Judgement,
    now: Replayed,
    holds: str,
    facts: Mapping[str, CallFacts],
    unknown: Mapping[str, str],
) -> Redecision:
    """Return how a turn that was judged again differs from what was recorded; `holds` is the policy's."""
    if not turn.calls:
        return Redecision((compare_answers(recorded, now.judgement),), (), now.asked)
    beside = bool(unknown or now.missing) and holds == "whole_response"
    changes = []
    for call in turn.calls:
        old, target = recorded.find_verdict(call.id), facts[call.id].target
        need = now.missing.get(call.id)
        row = CallChange(call.id, call.name[:128], target, "not_decidable", build_side(old, turn.answers))
        if call.id not in unknown and need is not None and need.who == "person":
            row = replace(row, change="newly_asked", after=Side("ask", need.gate, need.code, asked=True))
        elif call.id in unknown or need is not None or beside:
            needs = unknown.get(call.id) or (need.who if need is not None else _BESIDE)
            row = replace(row, needs=needs)
        else:
            row = compare_verdicts(row, old, now.judgement.find_verdict(call.id), (*now.used, *now.assumed))
        changes.append(row)
    spared = [answer.who for answer in turn.answers if answer not in now.used and answer.gate != "loop"]
    return Redecision(tuple(changes), tuple(spared), now.asked, tuple(answer.who for answer in now.assumed))


def survey_again(
    turn: Turn, policy: Policy, before: Policy, catalogue: Catalogue
) -> tuple[Turn, dict[str, str], set[str]]:
    """Return the turn as it would have been surveyed, by call the key where nobody can say, and the calls changed."""
    if policy.hash == before.hash or compare_looking(before, policy).keys == frozenset():
        return turn, {}, set()
    calls = {call.id: call for call in turn.calls}
    surveys: list[Survey] = []
    unknown: dict[str, str] = {}
    for survey in turn.surveys:
        call = calls.get(survey.call)
        found = resurvey(call, survey, catalogue.get(call.name), before, policy) if call is not None else survey
        if isinstance(found, str):
            unknown[survey.call] = found
        surveys.append(survey if isinstance(found, str) else found)
    changed = {new.call for old, new in zip(turn.surveys, surveys, strict=True) if new != old}
    return (replace(turn, surveys=tuple(surveys)) if changed else turn), unknown, changed


def replay_turn(
    turn: Turn,
    policy: Policy,
    bench: Prelude,
    facts: Mapping[str, CallFacts],
    looked: Collection[str] = (),
    otherwise: Callable[[Need, Turn], Answer] | None = None,
    assume: Assumption | None = None,
    judge_round: Callable[..., Judgement | Need] = judge_any_turn,
) -> Replayed:
    """Judge a turn as the loop would have, which puts its own question last.

    Answers about the digests in `looked`, whose calls were surveyed otherwise, do not fit.
    `otherwise` answers what no recorded answer fits, unless `assume` does. `judge_round` judges the turn with the
    answers that were given so far.
    """
    afterwards = [answer for answer in turn.answers if answer.gate == "loop"] if turn.answers else []
    left = (
        [a for a in turn.answers if a.gate != "loop" and not set(looked).intersection(a.digests)]
        if turn.answers
        else []
    )
    given: list[Answer] = []
    used: list[Answer] = []
    missing: dict[str, Need] = {}
    assumed: list[Answer] = []
    asked: list[Who] = []
    while True:
        result = judge_round(replace_answers(turn, given, afterwards), policy, bench, facts)
        if isinstance(result, Judgement):
            if not afterwards:
                return Replayed(result, missing, tuple(used), tuple(assumed), tuple(asked))
            given.append(afterwards.pop(0))
            continue
        asked.append(result.who)
        if (found := next((answer for answer in left if is_fitting(answer, result)), None)) is not None:
            left.remove(found)
            used.append(found)
            answer = found
        elif assume is not None and (supposed := assume.answer(result, turn, facts)) is not None:
            assumed.append(supposed)
            answer = supposed
        else:
            missing = {**dict.fromkeys(result.calls, result), **missing}
            answer = (otherwise or build_stand_in)(result, turn)
        given.append(answer)


def replace_answers(turn: Turn, given: Sequence[Answer], afterwards: Sequence[Answer]) -> Turn:
    """Return the turn with these answers alone: with the safety budget as it stood when no others had been given.

    The leave that answers to the loop's own question brought is not there before them.
    """
    if not (given or turn.answers):
        return turn
    (calls, rounds), (more_calls, more_rounds) = count_advice(turn.answers), count_advice(given)
    counters = replace(
        turn.counters,
        safety_calls=max(0, turn.counters.safety_calls - calls + more_calls),
        safety_rounds=max(0, turn.counters.safety_rounds - rounds + more_rounds),
    )
    later = {answer.seq for answer in afterwards}
    grants = tuple(grant for grant in turn.grants if grant.seq not in later)
    return replace(turn, answers=tuple(given), counters=counters, grants=grants)


def count_advice(answers: Sequence[Answer]) -> tuple[int, int]:
    """Return how many requests the answers of planner and critic took, and how many answers are the critic's."""
    advice = [answer for answer in answers if answer.who != "person"]
    return sum(answer.requests for answer in advice), sum(answer.who == "critic" for answer in advice)


def is_fitting(answer: Answer, need: Need) -> bool:
    """Whether a recorded answer answers a need: asked about the same calls, a person also about more.

    A plan for calls that were shown is none made without a look at them.
    """
    if (answer.gate, answer.who) != (need.gate, need.who) or answer.key.startswith(KEY) != need.key.startswith(KEY):
        return False
    asked, about = set(need.digests), set(answer.digests)
    return asked <= about if need.who == "person" else asked == about


def build_stand_in(need: Need, turn: Turn) -> Answer:
    """Return an answer that lets judging go on past a question nobody answered: a yes, or no advice to be had."""
    value = {"choice": "yes", "text": "", "by": "nobody"} if need.who == "person" else None
    bound_to = (need.digests, turn.survey_hash, turn.policy_hash)
    return Answer(need.gate, need.who, need.key, *bound_to, value, "not asked", turn.now)


def build_side(verdict: Verdict, answers: Sequence[Answer]) -> Side:
    """Return how a call stands after a verdict, and whether a person was asked for approval of the call."""
    asked = bool(answers) and any(one.gate == "approval" and verdict.digest in one.digests for one in answers)
    return Side(verdict.standing.value, verdict.gate, verdict.ruling.code, asked)


def compare_verdicts(row: CallChange, old: Verdict, new: Verdict, used: Sequence[Answer]) -> CallChange:
    now = build_side(new, used)
    ran, runs = old.standing is Standing.ALLOW, new.standing is Standing.ALLOW
    change: Change = "unchanged"
    if ran != runs:
        change = "newly_let_go" if runs else "newly_held"
    elif runs:
        change = "no_longer_asked" if row.before.asked and not now.asked else "unchanged"
    elif (old.gate, old.ruling.code) != (new.gate, new.ruling.code):
        change = "other_reason"
    numbers = (old if runs else new).ruling.numbers if change != "unchanged" else ()
    return replace(row, change=change, after=now, numbers=numbers)


def compare_answers(recorded: Judgement, now: Judgement) -> CallChange:
    """Return how the verdict on an answer in words differs; one that is pending is held, the others pass it on."""
    codes = (recorded.decisions[0].code, now.decisions[0].code)
    old, new = (Side("hold" if code == "verification_pending" else "allow", "postlude", code) for code in codes)
    change: Change = "unchanged" if old == new else "other_reason"
    if old.standing != new.standing:
        change = "newly_held" if new.standing == "hold" else "newly_let_go"
    return CallChange("", "", "", change, old, new)


_MOST = 64
"""Changed values that are taken back one by one; where there are more, none is named."""


class PolicyComparison:
    """A recorded policy and another one, over the tools of a session, with everything that differs."""

    def __init__(self, before: Policy, after: Policy, catalogue: Catalogue, assume: Assumption | None = None) -> None:
        self.before, self.after, self.catalogue, self._assume = before, after, catalogue, assume
        self._back: dict[Path, tuple[Policy, Prelude] | None] = {}

    @cached_property
    def prelude(self) -> Prelude:
        return build_prelude(self.after, self.catalogue, keeps_rows=False)

    @cached_property
    def differences(self) -> dict[Path, tuple[Data, Data]]:
        """What differs, by path: the value before and after."""
        return compare_policies(self.before, self.after)

    def redecide(self, turn: Turn, recorded: Judgement, facts: Mapping[str, CallFacts] | None = None) -> Redecision:
        """Return a turn judged again under the other policy; `facts` are those of its calls under both, if known."""
        turn, unknown, looked = survey_again(turn, self.after, self.before, self.catalogue)
        if facts is None or looked:
            facts = self.prelude.facts(turn)
        return redecide_surveyed(turn, recorded, self.after, self.prelude, facts, unknown, looked, self._assume)

    def find_deciding_keys(self, turn: Turn, recorded: Judgement, calls: Sequence[str]) -> dict[str, tuple[Path, ...]]:
        """Return by call the changed values that give the recorded outcome when taken back alone."""
        if len(self.differences) == 1:
            return dict.fromkeys(calls, tuple(self.differences))
        found: dict[str, tuple[Path, ...]] = dict.fromkeys(calls, ())
        for path in self.differences if len(self.differences) <= _MOST else ():
            if back := self._take_back(path):
                for call in redecide(turn, recorded, *back, self.before, self.catalogue).calls:
                    if call.call in found and call.change == "unchanged":
                        found[call.call] += (path,)
        return found

    def _take_back(self, path: Path) -> tuple[Policy, Prelude] | None:
        """Return the other policy with one value as before, None where that is no policy."""
        if path not in self._back:
            policy = None
            with suppress(ValueError):
                before = self.differences[path][0]
                policy = mark_moved(replace_values(self.after, {path: before}), self.after, path, before)
            self._back[path] = (
                (policy, build_prelude(policy, self.catalogue, keeps_rows=False)) if policy is not None else None
            )
        return self._back[path]
