"""A decision to test a policy by: what the judge reads, and what becomes of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.redecide import Replayed, replay_turn, survey_again
from foregate.policy.policy import Policy
from foregate.schemas.judgement import Standing, Verdict, Who
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

Outcome = Literal["allow", "ask", "hold", "deny"]
"""How a call stands; `ask` where a question is raised that the case holds no answer to."""
SEVERITY: dict[str, int] = {"allow": 0, "ask": 1, "hold": 2, "deny": 3}


class Fate(Struct, frozen=True):
    """What becomes of a call: how it stands, by which gate, code and rules, and who is asked about it.

    A fate `unknown` names the key by which the call would have been looked at otherwise, so that nobody can say.
    """

    verdict: Outcome
    gate: str
    code: str
    rules: tuple[str, ...] = ()
    asked: tuple[Who, ...] = ()
    unknown: str = ""

    def describe(self) -> str:
        """Return the fate in words.

        >>> Fate("deny", "rules", "denied_by_rule", ("no-mail",)).describe()
        'deny by rules (denied_by_rule, rule no-mail)'
        """
        if self.unknown:
            return f"nobody can say, for `{self.unknown}` steers what was looked at"
        rules = f", rule {', '.join(self.rules)}" if self.rules else ""
        asked = f", asking the {' and the '.join(self.asked)}" if self.asked else ""
        return f"{self.verdict} by {self.gate} ({self.code}{rules}){asked}"


class Case(Struct, frozen=True):
    """A turn over the tools of `catalogue`, and what is to become of its call `call`, "" for an answer in words."""

    name: str
    turn: Turn
    catalogue: Catalogue
    call: str
    expected: Fate


_OUTCOMES: Mapping[Standing, Outcome] = {
    Standing.ALLOW: "allow",
    Standing.ASK: "ask",
    Standing.HOLD: "hold",
    Standing.DENY: "deny",
}
_ORDER: tuple[Who, ...] = ("planner", "critic", "person")


def judge_case(case: Case, policy: Policy, surveyed: Policy | None = None) -> Fate:
    """Return what becomes of the call of a case under a policy.

    `surveyed` is the policy it was looked at under, where that is another one. Raises what judging a turn raises that
    does not fit together.
    """
    turn, unknown = case.turn, ""
    if surveyed is not None:
        turn, keys, _ = survey_again(turn, policy, surveyed, case.catalogue)
        unknown = keys.get(case.call, "")
    if unknown:
        return Fate("hold", "", "", unknown=unknown)
    bench = build_prelude(policy, case.catalogue)
    return find_fates(turn, policy, bench)[case.call]


def find_fates(
    turn: Turn, policy: Policy, bench: Prelude, facts: Mapping[str, CallFacts] | None = None
) -> dict[str, Fate]:
    """Return what becomes of each call of a turn, judged by these gates; of an answer in words under "".

    `facts` spares computing them when the caller has them already.
    """
    replayed = replay_turn(turn, policy, bench, bench.facts(turn) if facts is None else facts)
    judgement = replayed.judgement
    if not turn.calls:
        code = judgement.decisions[0].code
        return {"": Fate("hold" if code == "verification_pending" else "allow", "postlude", code)}
    return {verdict.call: _find_fate(verdict, replayed) for verdict in judgement.verdicts}


def _find_fate(verdict: Verdict, replayed: Replayed) -> Fate:
    need = replayed.missing.get(verdict.call)
    who = {answer.who for answer in replayed.used if verdict.digest in answer.digests}
    asked = tuple(one for one in _ORDER if one in who or (need is not None and one == need.who))
    if need is not None and not verdict.standing.stops:
        return Fate("ask", need.gate, need.code or f"{need.gate}_asked", asked=asked)
    standing: Outcome = _OUTCOMES[verdict.standing]
    return Fate(standing, verdict.gate, verdict.ruling.code, verdict.ruling.rules, asked)
