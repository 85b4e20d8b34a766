"""Gate `critique`: a critic reviews calls that are in doubt; it can tighten, never loosen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from foregate.gates.approval import spare_advice, spare_hopeless
from foregate.gates.support.critique_request import build_critique_need
from foregate.gates.support.mandate import cite_leave, describe_words
from foregate.gates.support.questions import find_standing_without_advice
from foregate.policy.policy import Policy
from foregate.policy.risk.mandate import is_asked_for, is_consequential, list_outside_values
from foregate.schemas.codes import CritiqueCode, GateName
from foregate.schemas.judgement import Answer, Mode, Need, Number, Opinion, Ruling, Standing, rule_alike
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.strict_schema import Critique
from foregate.schemas.tool_call import CallFacts, Origin, ToolCall
from foregate.schemas.turn import SECOND_MANDATE, Turn

_ASKED_ENOUGH = "a second look was asked for as often as the policy allows, and things changed each time; send it again"
_SPARED = "nobody can say yes to this, so the critic was not asked"
# Characters of a value or name.
_SHOWN = 80
_REMEDIES = (
    "change the call or say why it is right",
    "change the call, or look at what the issues name; sent again as it is, it stays held",
)
"""What to do about a rejected call, by the edition of the turn: the model's own words are no evidence to a critic."""
_ALLOW, _EXTERNAL = Standing.ALLOW, Origin.EXTERNAL
_NOT_REQUIRED = Ruling(Standing.ALLOW, "critique_not_required")


class CritiqueGate(Struct, frozen=True, dict=True):
    """Asks the critic about each call in doubt, once per plan and per widening that adds a class of risk, or about each
    qualifying call."""

    policy: Policy
    name: GateName = "critique"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.critique.mode

    @property
    def shadow_asks(self) -> bool:
        return self.policy.critique.shadow_asks

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        facts = [so_far.facts[call.id] for call in live]
        rulings = {f.call.id: self.rule_without_review(f) for f in facts}
        wanted = self.select_calls(turn, facts, so_far)
        if wanted and self.policy.critique.level == "doubt":
            rulings |= (hopeless := spare_hopeless(self.name, wanted, turn, so_far, self.policy))
            wanted = [f for f in wanted if f.call.id not in hopeless]
        if not wanted:
            return Opinion(rulings)
        opinion = self.review(turn, wanted, so_far)
        return opinion if isinstance(opinion, Need) else replace(opinion, rulings=rulings | dict(opinion.rulings))

    def rule_without_review(self, facts: CallFacts) -> Ruling:
        """Return the ruling on a call the critic is not asked about, with a change's scores against their bounds."""
        if not facts.changes:
            return _NOT_REQUIRED
        if facts.authority == "said":
            message = cite_leave(facts) or f"the person asked for this: {describe_words(facts)}"
            return Ruling(Standing.ALLOW, "critique_not_required", message)
        section = self.policy.critique
        key = "risk_in_doubt" if section.level == "doubt" else "risk"
        risk = Number("risk", facts.risk.value, getattr(section, key), f"critique.{key}")
        doubt = Number("uncertainty", facts.uncertainty.value, section.uncertainty, "critique.uncertainty")
        numbers = (risk, doubt) if section.level != "doubt" or section.risk_in_doubt else (doubt,)
        return Ruling(_ALLOW, "critique_not_required", numbers=numbers)

    def review(self, turn: Turn, wanted: Sequence[CallFacts], so_far: SoFar) -> Opinion | Need:
        """Return the rulings on the calls the critic is to look at, or the critic's Need for them."""
        answers, section = turn.find_answers(self.name), self.policy.critique
        doubts = {f.call.id: why for f in wanted if (why := find_doubt(f, turn, self.policy))}
        about = self.describe_budget(turn)
        if answers or section.level == "doubt":
            about |= describe_scores(wanted)
        if section.level == "doubt":
            about |= {"doubts": list(dict.fromkeys(doubts.values()))}
        if not answers:
            if held := self.check_budget(turn):
                return Opinion(rule_alike(wanted, held), detail=about | {"result": "skipped"})
            if turn.has_asked_enough(self.name, self.policy.limits.needs_per_gate):
                held = Ruling(Standing.HOLD, "critique_unavailable", _ASKED_ENOUGH, reason="needs_per_gate")
                return Opinion(rule_alike(wanted, held), detail={"result": "unavailable"})
            asks = spare_advice(self.name, wanted, turn, so_far, self.policy)
            if asks:
                return Opinion(asks, summary=_SPARED)
            return build_critique_need(turn, wanted, so_far.plan, self.policy, doubts)
        ruling, detail = read_critique(answers[-1], turn.edition)
        detail |= about
        if isinstance(ruling, Ruling):
            return Opinion(rule_alike(wanted, ruling), detail=detail)
        instead = section.on_invalid if ruling == "critique_invalid" else section.on_unavailable
        error = str(detail.get("error", ""))
        message = f"no usable second look could be had ({error[:120]})"
        standings = {f.call.id: find_standing_without_advice(f, instead) for f in wanted}
        return Opinion({c: Ruling(s, ruling, message, reason=error[:200]) for c, s in standings.items()}, detail=detail)

    def select_calls(self, turn: Turn, facts: Sequence[CallFacts], so_far: SoFar) -> list[CallFacts]:
        """Return the calls the critic is to look at, none when nothing qualifies."""
        level, plan = self.policy.critique.level, so_far.plan or turn.plan
        if level == "off":
            return []
        doubtful = [f for f in facts if find_doubt(f, turn, self.policy) and not has_waited_for_a_name(f, turn)]
        # A plan binds a call by the person's words.
        if doubtful and plan is not None:
            doubtful = [f for f in doubtful if not plan.find_step(so_far.uses.get(f.call.id, ()))]
        if level == "doubt":
            return doubtful
        open_ = [f for f in facts if f.authority not in ("said", "outside") and not f.has_leave]
        qualifying = [f for f in open_ if f.changes and not f.contained and self.should_review(f)]
        if not (doubtful or qualifying):
            return []
        match level:
            case "call":
                return [f for f in facts if f in qualifying or f in doubtful]
            case "plan":
                # What goes beside the planned call was not planned.
                if self.policy.plan.binding == "first_action":
                    qualifying = [f for f in qualifying if f.call.id in so_far.uses]
                if so_far.plan is None or not qualifying:
                    return []
                # What it covers was bound by the person's words.
                if so_far.plan.blind:
                    return [f for f in qualifying if f.call.id not in so_far.uses]
                known = set(turn.plan.classes) if turn.plan else set[str]()
                new = set(so_far.plan.classes) - known
                planned = [f for f in facts if f.call.id in so_far.uses]
                return planned if new or turn.plan is None else []

    def should_review(self, facts: CallFacts) -> bool:
        """Whether much could be lost: high impact, external, high scores, or a target only outsiders named."""
        section = self.policy.critique
        return (
            facts.high_impact
            or facts.external
            or facts.risk.value >= section.risk
            or facts.uncertainty.value >= section.uncertainty
            or any(
                a.origin is Origin.EXTERNAL and a.text in (r.id for r in facts.resources) for a in facts.survey.atoms
            )
        )

    def describe_budget(self, turn: Turn) -> dict[str, Json]:
        safety, used = self.policy.safety, turn.counters
        return {
            "calls_used": used.safety_calls,
            "rounds_used": used.safety_rounds,
            "budget": {"model_calls": safety.model_calls, "rounds": safety.rounds},
        }

    def check_budget(self, turn: Turn) -> Ruling | None:
        """Return the ruling where the safety budget is used up: a person is asked, or the policy lets it go."""
        safety, used = self.policy.safety, turn.counters
        if 0 < safety.rounds <= used.safety_rounds:
            number = Number("safety_rounds", used.safety_rounds, safety.rounds, "safety.rounds")
        elif 0 < safety.model_calls <= used.safety_calls:
            number = Number("safety_calls", used.safety_calls, safety.model_calls, "safety.model_calls")
        else:
            return None
        standing = Standing.ASK if self.policy.critique.on_budget_exhausted == "ask" else Standing.ALLOW
        message = "the safety budget is used up, so no critic looked at this"
        return Ruling(standing, "critique_skipped_budget", message, numbers=(number,))


def find_doubt(facts: CallFacts, turn: Turn, policy: Policy) -> str:
    """Return why a call is in doubt, "" where it is not: as what the person said in so many words never is.

    What works in a sandbox is none either, for what it did is shown before it counts, and nor is what a dry run shows.
    """
    if facts.contained or facts.authority == "said" or (turn.dry_run and facts.changes):
        return ""
    if facts.authority == "outside" and turn.edition >= SECOND_MANDATE and is_asked_for(facts, turn, policy):
        # The person wants such a call, and will name the value: a model's look at it opens nothing.
        return ""
    if facts.authority == "outside":
        value = list_outside_values(facts, turn.depth)[0]
        return f"the person's own words do not say that `{value.text[:_SHOWN]}` goes into `{value.path[:_SHOWN]}`"
    if not facts.changes:
        return ""
    if facts.uncertainty.value >= policy.critique.uncertainty:
        return "; ".join(reason.why for reason in facts.uncertainty.reasons) or "the policy doubts each change"
    if 0 < policy.critique.risk_in_doubt <= facts.risk.value:
        return "much could be lost: " + "; ".join(reason.why for reason in facts.risk.reasons)
    if facts.survey.untried:
        return f"`{facts.call.name[:_SHOWN]}` declares nothing and has not run in this session"
    foreign = find_foreign_target(facts)
    if not foreign or not is_consequential(facts, turn, policy):
        return ""
    return f"only text from outside names `{foreign[:_SHOWN]}`"


def find_foreign_target(facts: CallFacts) -> str:
    """Return a target, or a word of a command, that nothing but text from outside said, "" for none."""
    command, outside = facts.survey.command, [a.text for a in facts.survey.atoms if a.origin is _EXTERNAL]
    if not outside:
        return ""
    names = {*[resource.id for resource in facts.resources], *(command.argv if command is not None else ())}
    return next((text for text in outside if text in names), "")


def has_waited_for_a_name(facts: CallFacts, turn: Turn) -> bool:
    """Whether a person was asked to name a value of this call before, on the same evidence: the critic had its turn."""
    known = turn.fingerprints.get(facts.call.id)
    return any(
        held.code == "outside_mandate" and held.digest == facts.call.digest and held.fingerprint == known
        for held in turn.holds
    )


def describe_scores(calls: Sequence[CallFacts]) -> dict[str, Json]:
    return {
        "risk": max(facts.risk.value for facts in calls),
        "uncertainty": max(facts.uncertainty.value for facts in calls),
    }


def read_critique(answer: Answer, edition: int) -> tuple[Ruling | CritiqueCode, dict[str, Json]]:
    """Return the ruling a critique leads to, or the code for one that cannot be used, with its detail."""
    if answer.value is None:
        return "critique_unavailable", {"result": "unavailable", "error": answer.error}
    try:
        critique = Critique.model_validate(answer.value)
    except ValidationError:
        return "critique_unavailable", {"result": "unavailable", "error": "critique_generation_failed"}
    summary = critique.summary.strip()
    issues = [text for issue in critique.issues if (text := issue.strip())]
    if not summary or (critique.verdict == "replan" and not issues):
        error = "missing_issues_for_replan" if summary else "missing_summary"
        return "critique_invalid", {"result": "invalid", "error": error, "critique": critique.model_dump()}
    detail: dict[str, Json] = {"result": critique.verdict, "summary": summary, "issues": issues}
    if critique.verdict == "accept":
        return Ruling(Standing.ALLOW, "critique_accepted", summary[:300]), detail
    message = f"a second look rejected this: {'; '.join(issues)[:600]}; {_REMEDIES[edition > 0]}"
    return Ruling(Standing.HOLD, "critique_rejected", message), detail
