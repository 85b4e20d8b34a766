"""What a recorded judgement rests on, so that one can tell which changes of the policy cannot reach its turn."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.prelude import Prelude, build_gate, build_prelude
from foregate.gates.replay.redecide import redecide_surveyed
from foregate.policy.followed import Condition, Path, PolicyReading, is_kept, list_paths
from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.commands import get_program_name, list_words, split_shell_words
from foregate.policy.risk.handed_text import read_handed_texts
from foregate.policy.risk.request import remember
from foregate.policy.risk.resurvey import resurvey
from foregate.policy.risk.rule_matching import is_tool_named
from foregate.policy.risk.running import RUNNING, has_handed_words, is_computed
from foregate.policy.source.strict_yaml import Path as KeyPath
from foregate.policy.source.strict_yaml import format_path
from foregate.schemas.codes import GateName
from foregate.schemas.errors import PolicyError
from foregate.schemas.judgement import Judgement, Mode, Need, Opinion, Standing
from foregate.schemas.protocols import Gate, SoFar
from foregate.schemas.tool_call import CallFacts, Command, Survey, ToolCall
from foregate.schemas.tool_spec import Catalogue, ResourceKind
from foregate.schemas.turn import Turn

_WILD = "*?["
_PLACED = (ResourceKind.URL.value, ResourceKind.HOST.value)


class CallTraits(Struct, frozen=True, array_like=True):
    """What a call is like. `words` are checksums of the words a command rule may begin with, None where not known."""

    name: str
    sent: str
    is_own: bool
    problem: bool
    secrets: bool
    effects: tuple[str, ...]
    kinds: tuple[str, ...]
    protected: tuple[str, ...]
    origins: tuple[str, ...]
    words: tuple[int, ...] | None


def describe_traits(facts: CallFacts, policy: Policy) -> CallTraits:
    """Return what a call is like under a policy, which says what programs run."""
    survey, call = facts.survey, facts.call
    return CallTraits(
        call.name,
        call.sent.name if call.sent is not None else call.name,
        facts.spec is not None and facts.spec.provenance == "builtin",
        bool(survey.problem),
        bool(survey.secrets),
        tuple(sorted({facts.effect.value, *(one.effect.value for one in facts.resources)})),
        tuple(sorted({one.kind.value for one in facts.resources})),
        tuple(sorted({one.protected for one in facts.resources})),
        tuple(sorted({atom.origin.value for atom in survey.atoms})),
        _sum_words(survey.command, policy) if survey.command is not None else (),
    )


@remember
def _sum_words(command: Command, policy: Policy) -> tuple[int, ...] | None:
    if command.problem or read_handed_texts(command, policy):
        return None
    try:
        words = list_words(split_shell_words(command.shell) if command.shell else list(command.argv))
    except PolicyError:
        return None
    if has_handed_words(words, policy.commands.completes) or any(map(is_computed, words)):
        # What is read or computed may be any of them.
        return None
    return tuple(sorted({checksum(form) for word in words for form in (word, get_program_name(word))}))


def checksum(word: str) -> int:
    return zlib.crc32(word.casefold().encode("utf-8", "surrogatepass"))


def may_match(rule: Rule, call: CallTraits) -> bool:
    """Whether a rule could match a call with these traits; never False for one it does match."""
    if rule.tool is not None and not is_tool_named(rule.tool, call.name, call.sent, is_own=call.is_own):
        return False
    if rule.effect is not None and not set(rule.effect).intersection(call.effects):
        return False
    if call.problem or (rule.command is not None and call.words is None):
        # Whether it matches cannot be told, whatever else the rule is about.
        return True
    if rule.secrets is not None and rule.secrets != call.secrets:
        return False
    if rule.origin is not None and rule.origin.value not in call.origins:
        return False
    if rule.command is not None and not _may_begin(rule.command[0], call.words):
        return False
    if rule.protected is not None and not set(rule.protected).intersection(call.protected):
        return False
    if rule.host is not None and not set(_PLACED).intersection(call.kinds):
        return False
    looks = rule.kind is not None or rule.resource is not None
    return not looks or _may_name(rule, call)


def _may_begin(word: str, words: tuple[int, ...] | None) -> bool:
    if words is None:
        return True
    return bool(words) if any(char in word for char in _WILD) else checksum(word) in words


def _may_name(rule: Rule, call: CallTraits) -> bool:
    """Whether a call names anything of a rule's kind, or a directory in which there may be such a thing."""
    inside = rule.resource is not None and ResourceKind.DIRECTORY.value in call.kinds
    return bool(call.kinds) and (rule.kind is None or rule.kind.value in call.kinds or inside)


MODES = ("rules", "narration", "drift", "uncertainty", "evidence", "plan", "critique")
"""The gates that have a mode."""
_OF_GATES = (
    *("validity", "narration", "drift", "uncertainty", "evidence", "plan", "critique", "approval", "safety", "limits"),
    *("holds", "rules.unmatched", "rules.refused_before"),
)
"""Keys and sections whose values no fact carries on: a gate reads them itself. Of others, a score takes them along."""
Judge = Callable[[Turn, Policy, Prelude, Mapping[str, CallFacts]], "T"]
T = TypeVar("T")


class Followed(Struct, frozen=True):
    """What judging a turn again rests on under its own policy: numbers of the reader's conditions, and what rules may
    match of each call."""

    conditions: Set[int]
    calls: frozenset[CallTraits]


class _FollowedGate(Struct, frozen=True):
    """A gate that notes when it did anything but let everything pass: only then it matters that it is asked at all."""

    gate: Gate
    name: GateName
    mode: Mode
    reading: PolicyReading

    @property
    def shadow_asks(self) -> bool:
        return bool(getattr(self.gate, "shadow_asks", False))

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        opinion = None
        try:
            opinion = self.gate(turn, live, so_far)
            return opinion
        finally:
            if opinion is None or not is_plain_pass(opinion):
                self.reading.note(("gate", self.name))


@lru_cache(maxsize=65536)
def list_condition_paths(condition: Condition) -> Sequence[Path]:
    """Return the keys a condition is about."""
    match condition:
        case ("number", _, left, right, _):
            return [*list_paths(left), *list_paths(right)]
        case ("gate", name):
            return [(name, "mode")]
    return [condition[1]]


def is_of_gates(key: KeyPath) -> bool:
    """Whether a key's value is carried on by no fact."""
    return key[0] in _OF_GATES or format_path(key) in _OF_GATES


def is_plain_pass(opinion: Opinion | Need) -> bool:
    """Whether a gate let everything pass and left nothing behind: had it not been asked, all else were the same."""
    if isinstance(opinion, Need) or opinion.consequence or opinion.plan or opinion.uses or opinion.grants:
        return False
    return all(ruling.standing is Standing.ALLOW for ruling in opinion.rulings.values())


class ReachReader:
    """Finds what turns recorded under one policy rest on: `conditions`; those of every turn are `built`."""

    def __init__(self, policy: Policy, catalogue: Catalogue) -> None:
        self._catalogue, self._recorded = catalogue, policy
        self._reading = PolicyReading(policy)
        self._policy = cast(Policy, self._reading.policy)
        self.conditions = self._reading.conditions

        def build(name: GateName, policy: Policy, catalogue: Catalogue) -> Gate:
            gate = build_gate(name, policy, catalogue)
            mode = cast(Mode, "".join(gate.mode))
            if "mode" in (kept := getattr(gate, "__dict__", {})):
                kept["mode"] = mode
            return cast(Gate, _FollowedGate(gate, name, mode, self._reading))

        self._prelude = build_prelude(self._policy, catalogue, keeps_rows=False, build=build)
        self.built = tuple(self._reading.begin())

    def read(self, turn: Turn, recorded: Judgement) -> tuple[Followed, bool]:
        """Return what judging a turn again rests on, and whether it comes out as recorded."""
        followed, result = self.follow(turn, lambda turn, *rest: redecide_surveyed(turn, recorded, *rest))
        return followed, result.is_unchanged and not result.spared

    def follow(self, turn: Turn, judge: Judge[T]) -> tuple[Followed, T]:
        """Return what judging a turn rests on, and what it came to; `judge` is given what stands for the policy."""
        self._reading.begin()
        calls = {call.id: call for call in turn.calls}
        for survey in turn.surveys:
            if (call := calls.get(survey.call)) is not None:
                self._note_looking(call, survey)
        facts = self._prelude.facts(turn)
        result = judge(turn, self._policy, self._prelude, facts)
        traits = frozenset(describe_traits(one, self._recorded) for one in facts.values())
        return Followed(self._reading.begin(), traits), result

    def _note_looking(self, call: ToolCall, survey: Survey) -> None:
        """Note what looking at a call again rests on: the same for each call to which the same things are known."""
        bare, spec = strip_survey(survey), self._catalogue.get(call.name)
        key = (call.name, call.arguments is None, bare)
        self._reading.repeat(key, lambda: resurvey(call, bare, spec, self._policy, self._policy))


def strip_survey(survey: Survey) -> Survey:
    """Return a survey without what says nothing of where one would look: what was seen, and who named it."""
    resources = tuple([replace(one, hash="", evidence=(), changed_before=False) for one in survey.resources])
    return replace(survey, call="", resources=resources, atoms=(), values=() if survey.values else survey.values)


class PolicyChange:
    """What lies between the policy that turns were judged under and another: which turns it can reach."""

    def __init__(self, before: Policy, after: Policy) -> None:
        self._before, self._after = before, after
        self.differs = before.hash != after.hash
        self._modes = [name for name in MODES if _get_mode(before, name) != _get_mode(after, name)]
        self._rules = list_changed_rules(before.rules.list, after.rules.list) if self.differs else []
        self.reaches_all = self._rules is None or any(map(self._applies_more, self._modes))
        """Whether every turn must be judged: a gate is applied that was not, and no turn tells what it says."""
        keys = [(getattr(before.commands, key), getattr(after.commands, key)) for key in RUNNING if self._rules]
        self._runs_otherwise = any(one != other for one, other in keys)

    def can_reach(self, condition: Condition) -> bool:
        """Whether a turn that rests on a condition may be judged, or surveyed, otherwise."""
        if condition[0] == "gate":
            return condition[1] in self._modes
        return self.differs and not is_kept(condition, self._before, self._after)

    def can_match(self, call: CallTraits) -> bool:
        """Whether a rule that is there under one of the policies alone may match a call."""
        # the traits of a call rest on what programs run
        return self._runs_otherwise or any(may_match(rule, call) for rule in self._rules or ())

    def _applies_more(self, name: str) -> bool:
        """Whether a gate's other mode can matter where it lets everything pass, or is not applied at all."""
        asks = any(getattr(getattr(policy, name), "shadow_asks", False) for policy in (self._before, self._after))
        return asks or _get_mode(self._after, name) == "enforce"


def _get_mode(policy: Policy, gate: str) -> str:
    return str(getattr(policy, gate).mode)


def list_changed_rules(before: Sequence[Rule], after: Sequence[Rule]) -> list[Rule] | None:
    """Return the rules of either list that the other has not, None where those of both stand in another order."""
    if before is after:
        return []
    both = [rule for rule in before if rule in after]
    if both != [rule for rule in after if rule in before]:
        return None
    return [rule for rule in (*before, *after) if rule not in both]
