"""Rules that were never in force, tried on recorded calls: whether they match any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from msgspec import Struct, field

from foregate.evidence.state.recorded_turns import InForce
from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.rule_matching import is_match, is_tool_named
from foregate.schemas.errors import LogError, PolicyError
from foregate.schemas.protocols import Readable
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Catalogue, ToolSpec, build_catalogue
from foregate.schemas.turn import Turn
from foregate.tuning.pieces import UNREADABLE, read_turns, split_session

MOST = 2000
"""Turns that are read, the newest sessions first: enough for a second or two."""

_FEW = 20
"""Sessions whose tools are read in any case."""


class RuleTrial(Struct):
    """What trying rules under a policy came to: those `left` matched none of `calls` in so many turns."""

    policy: Policy
    left: list[Rule]
    calls: int = 0
    turns: int = 0
    tools: dict[str, ToolSpec] = field(default_factory=dict)
    """The tools of the sessions that were read, by name."""

    def describe(self) -> dict[str, str]:
        """Return the end of a sentence for each rule that matched none, by its id; nothing where there are no calls."""
        where = f"the {self.turns} turns of the newest sessions" if self.turns >= MOST else "the log"
        what = f"matches none of the {self.calls} calls" if self.calls > 1 else "does not match the only call"
        return {rule.id: f"was never in force, and {what} in {where}" for rule in self.left} if self.calls else {}

    def try_turn(self, turn: Turn, catalogue: Catalogue) -> None:
        """Try the rules that are left on the calls of a turn."""
        self.turns, self.calls = self.turns + 1, self.calls + len(turn.calls)
        if any(_may_name(rule, turn, catalogue) for rule in self.left):
            facts = list(compute_turn_facts(turn, self.policy, catalogue).values())
            self.left = [rule for rule in self.left if not any(_may_match(rule, one, self.policy) for one in facts)]


def try_rules(log: Readable, sessions: Sequence[str], rules: Sequence[Rule], policy: Policy) -> RuleTrial:
    """Try rules on recorded calls, in the order of the sessions, up to MOST turns; what cannot be read is passed over.

    The calls are looked at as they were then, and judged as under `policy`.
    """
    found = RuleTrial(policy, list(rules))
    for number, session in enumerate(sessions):
        if found.turns >= MOST or (not found.left and number >= _FEW):
            break
        with suppress(*UNREADABLE, LogError, PolicyError):
            for turn, catalogue in _read_calls(log, session):
                found.tools |= catalogue
                if not found.left or found.turns >= MOST:
                    break
                found.try_turn(turn, catalogue)
    return found


def _read_calls(log: Readable, session: str) -> Iterator[tuple[Turn, Catalogue]]:
    """Yield each judged turn of a session, and the tools there were."""
    holds: InForce | None = None
    catalogue: Mapping[str, ToolSpec] = {}
    for recorded in chain.from_iterable(read_turns(log, piece) for piece in split_session(log, session)):
        if recorded.in_force is not holds:
            holds, catalogue = recorded.in_force, build_catalogue(recorded.in_force.require()[1])
        yield recorded.turn, catalogue


def _may_name(rule: Rule, turn: Turn, catalogue: Catalogue) -> bool:
    return rule.tool is None or any(_is_named(rule.tool, turn, catalogue))


def _is_named(tool: str, turn: Turn, catalogue: Catalogue) -> Iterable[bool]:
    for call in turn.calls:
        spec = catalogue.get(call.name)
        own = spec is not None and spec.provenance == "builtin"
        yield is_tool_named(tool, call.name, call.sent.name if call.sent is not None else call.name, is_own=own)


def _may_match(rule: Rule, facts: CallFacts, policy: Policy) -> bool:
    """Whether a rule matches a call, or cannot be applied to it."""
    try:
        return is_match(rule, facts, policy)
    except (PolicyError, ValueError):
        return True
