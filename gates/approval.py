"""Gate `approval`, the last: a person says yes or no to what asks. Only this gate replaces an ASK."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.support.mandate import (
    cite_leave,
    explain_outside,
    explain_reference,
    has_reference,
    list_unnamed_values,
    name_outside,
    quote_request,
    read_named,
)
from foregate.gates.support.permitting import is_permitted, offer_permissions
from foregate.gates.support.plan_scope import approve_item, find_covering_items, find_scripts, has_own_folder
from foregate.gates.support.questions import Ask, build_approval_request, build_offered_grants
from foregate.policy.policy import Policy
from foregate.policy.risk.losses import is_wanted_anyway
from foregate.policy.risk.mandate import (
    find_more,
    hash_values,
    is_beyond_plans,
    is_configured,
    is_proposed,
    list_outside_values,
)
from foregate.schemas.codes import ApprovalCode, GateCode, GateName
from foregate.schemas.judgement import Answer, Grant, Mode, Need, Opinion, Ruling, Standing, build_pass, rule_alike
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Turn

_ASK = Standing.ASK
_PASSED = build_pass("approval")
_MORE_THAN_ASKED = "your message does more than ask for it"
_UNDOABLE = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE)


class ApprovalGate(Struct, frozen=True):
    """Collects what asks, lets through what a grant or an approved plan covers, and asks once for all the rest."""

    policy: Policy
    name: GateName = "approval"
    mode: Mode = "enforce"

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        uses, left = dict(so_far.uses), []
        rulings: dict[str, Ruling] = {}
        for call in live:
            facts = so_far.facts[call.id]
            rulings[call.id], ask = pass_call(facts), self.find_ask(facts, turn, so_far)
            if ask is None:
                continue
            used = self.find_permission(ask, turn, uses)
            if used is None:
                left.append(ask)
            else:
                why = cite_leave(facts) if is_permitted(ask, self.policy) else "covered by leave already given"
                uses[call.id], rulings[call.id] = used, Ruling(Standing.ALLOW, "approval_granted", why)
        if not left:
            return Opinion(rulings, uses=uses)
        opinion = self.settle_asks(left, turn, so_far)
        if isinstance(opinion, Need):
            return opinion
        return replace(opinion, rulings={**rulings, **opinion.rulings}, uses=uses)

    def settle_asks(self, asks: Sequence[Ask], turn: Turn, so_far: SoFar) -> Opinion | Need:
        """Return what comes of the calls that no leave covers: a no, a question, or what its answer says."""
        if self.is_unattended(turn):
            return Opinion(deny_unattended(asks))
        answers = turn.find_answers(self.name)
        unasked = [ask for ask in asks if not any(ask.facts.call.digest in answer.digests for answer in answers)]
        if unasked and turn.has_asked_enough(self.name, self.policy.limits.needs_per_gate):
            return Opinion(deny_asks(asks, "approval_required", "things changed too often while waiting"))
        if unasked:
            return self.build_need(turn, unasked, so_far)
        opinion = Opinion({})
        for answer in answers:
            if about := [ask for ask in asks if ask.facts.call.digest in answer.digests]:
                after = hold_unnamed(self.apply_answer(turn, about, answer, so_far), about, turn, answer)
                plan, first = (after.plan, after.first) if after.plan is not None else (opinion.plan, opinion.first)
                rulings, grants = {**opinion.rulings, **after.rulings}, (*opinion.grants, *after.grants)
                opinion = replace(after, rulings=rulings, plan=plan, first=first, grants=grants)
        return opinion

    def is_unattended(self, turn: Turn) -> bool:
        return self.policy.approval.mode == "never" or not turn.attended

    def find_hopeless_ask(self, facts: CallFacts, turn: Turn, so_far: SoFar, *, covered: bool = False) -> Ask | None:
        """Return why a call is certain to be denied because nobody can say yes, None while any answer may free it.

        What asks goes on asking, and leave only shrinks while judging. Leave for this effect on these resources is a
        chance whatever it was given for: a plan or critique that cannot be had asks for a reason of its own. With
        `covered` a plan may still stand behind the call.
        """
        covered = covered and not is_beyond_plans(facts, turn, self.policy)
        ask = self.find_ask(facts, turn, so_far, covered=covered) if self.is_unattended(turn) else None
        if ask is None or ask.is_outside:
            # No leave stands for a value that a person has to name.
            return ask
        if self.find_permission(ask, turn, {}) is not None:
            return None
        return None if any(is_grant_for(grant, facts) for grant in turn.grants) else ask

    def find_ask(self, facts: CallFacts, turn: Turn, so_far: SoFar, *, covered: bool = False) -> Ask | None:
        """Return why a call asks, None when it does not: some ruling asks, or the mode wants a yes for its effect.

        What a plan made from the person's words covers, or with `covered` may still, is as good as asked for in words.
        """
        plan = so_far.plan or turn.plan
        step = plan.find_step(so_far.uses.get(facts.call.id, ())) if plan is not None else None
        covered = covered or step is not None
        # Nothing of it runs, so nobody is asked.
        if turn.dry_run and facts.changes:
            return None
        gate, ruling = so_far.rulings[facts.call.id]
        if step is not None and (facts.external or facts.irreversible) and has_reference(facts):
            return Ask(facts, self.name, "approval_required", ("approval_required",), explain_reference(facts))
        if facts.authority == "outside" and not covered:
            told = name_outside(list_outside_values(facts, turn.depth))
            why = f"{told}; {ruling.message}" if ruling.standing is Standing.ASK else told
            return Ask(facts, self.name, "outside_mandate", ("outside_mandate",), why)
        if ruling.standing is _ASK:
            if facts.unspoken:
                told = name_outside(facts.unspoken)
                # Which says the same.
                why = told if gate == "uncertainty" else f"{ruling.message}; {told}"
                return Ask(facts, self.name, "outside_mandate", ("outside_mandate",), why)
            codes = ruling.rules or (ruling.code,)
            why = self.add_reason(ruling.message, facts, turn) if gate == "plan" else ruling.message
            return Ask(facts, gate, ruling.code, codes, why)
        if facts.unspoken and is_wanted_anyway(facts, turn):
            return Ask(facts, self.name, "outside_mandate", ("outside_mandate",), name_outside(facts.unspoken))
        why = self.explain_mode(facts, turn, covered, f"the planned step: {step.pattern}" if step is not None else "")
        return Ask(facts, self.name, "approval_required", ("approval_required",), why) if why else None

    def explain_mode(self, facts: CallFacts, turn: Turn, covered: bool, step: str) -> str:
        """Return why the mode wants a yes for this effect, "" when it does not; `step` names what was planned."""
        if not facts.changes:
            return "" if self.policy.approval.reads == "free" or turn.auto else "the policy lets reads wait for a yes"
        if facts.contained and not facts.survey.changes:
            # What it has changed is asked about, if anything is.
            return ""
        covered = covered or facts.authority == "said"
        agreed = facts.authority == "said" and is_proposed(facts, turn, self.policy)
        if covered and facts.irreversible and facts.high_impact and not (agreed or is_configured(facts, self.policy)):
            rests_on = step or f'"{quote_request(facts)}"'
            return f"it cannot be undone and has high impact; it rests on {rests_on}"
        if covered:
            return self.explain_wish(facts, turn)
        if facts.external or facts.irreversible:
            why = "it reaches beyond the workspace" if facts.external else "it cannot be undone"
            return self.add_reason(why, facts, turn)
        return self.explain_wish(facts, turn)

    def add_reason(self, why: str, facts: CallFacts, turn: Turn) -> str:
        """Return why a call asks, and that the person's words alone do not do where they may not be theirs."""
        more = find_more(facts, turn, self.policy) if facts.changes and facts.authority == "open" else ""
        return f"{why}, and {_MORE_THAN_ASKED} ({more})" if more else why

    def explain_wish(self, facts: CallFacts, turn: Turn) -> str:
        """Return why somebody wants a yes for a change whatever it is, "" when nobody does."""
        if facts.capabilities.needs_approval and not is_configured(facts, self.policy):
            return "its tool is declared to need a yes"
        spared = self.policy.approval.mode != "each" or (turn.auto and facts.effect in _UNDOABLE)
        return "" if spared else "the policy asks for each change"

    def find_permission(self, ask: Ask, turn: Turn, uses: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
        """Return the scope items that leave given earlier uses up for a call, None when no leave covers it.

        `uses` holds what the response's calls use already. A grant is not used up.
        """
        counted = uses.get(ask.facts.call.id, ())
        if ask.is_outside:
            return None
        if is_permitted(ask, self.policy):
            return counted
        given = {(grant.gate, grant.code) for grant in turn.grants if is_grant_for(grant, ask.facts)}
        if all((ask.gate, code) in given for code in ask.codes):
            return counted
        if ask.gate != self.name or turn.plan is None:
            return None
        items = turn.plan.items
        if counted and all(index < len(items) and items[index].approved for index in counted):
            return counted
        spent = Counter(index for call, used in uses.items() if call != ask.facts.call.id for index in used)
        same_tool = self.policy.plan.binding == "steps"
        return find_covering_items(ask.facts, turn.plan, spent, same_tool=same_tool, approved=True, during=turn.during)

    def build_need(self, turn: Turn, asks: Sequence[Ask], so_far: SoFar) -> Need:
        """Return the one Need that puts everything that asks before a person."""
        again = [voided for voided in turn.voided if voided.gate == self.name]
        changes = [voided.reason for voided in again]
        expires = add_seconds(turn.now, self.policy.approval.expires) if self.policy.approval.expires else ""
        return Need(
            self.name,
            "person",
            f"approval:{len(again) + len(turn.find_answers(self.name)) + 1}",
            tuple(ask.facts.call.id for ask in asks),
            tuple(ask.facts.call.digest for ask in asks),
            offer_permissions(build_approval_request(asks, turn, so_far, changes, self.policy), asks, self.policy),
            "changed_while_waiting" if again else asks[0].code,
            expires,
        )

    def apply_answer(self, turn: Turn, asks: Sequence[Ask], answer: Answer, so_far: SoFar) -> Opinion:
        """Return the opinion a person's answer leads to; one that came too late is none."""
        reason = "changed_while_waiting" if any(v.gate == self.name for v in turn.voided) else ""
        # It counts when the answer was given: a session that is resumed later still takes it.
        late = bool(answer.expires_at) and (answer.at or turn.now) > answer.expires_at
        if answer.value is None or late:
            message = "nobody answered in time; ask again when somebody is there"
            return Opinion(deny_asks(asks, "approval_expired", message, reason))
        choice, words, by = answer.choice, answer.words, str(answer.value.get("by", "person"))
        detail = {"by": by, "choice": choice}
        granted = [ask for ask in asks if answer.is_yes_to(ask.facts.call.id)]
        refused = [ask for ask in asks if not answer.is_yes_to(ask.facts.call.id)]
        message = f"the person said no{f': {words[:500]}' if words else ''}; do not try it another way"
        denied = deny_asks(refused, "approval_denied", message, reason)
        if not granted:
            return Opinion(denied, detail=detail)
        yes = Ruling(Standing.ALLOW, "approval_granted", f"{by} said yes", reason=reason)
        shown, unwanted = ([ask.facts for ask in asks] for asks in (granted, refused))
        plan = so_far.plan
        if plan is not None:
            plan = replace(plan, items=tuple(approve_item(item, shown, unwanted) for item in plan.items))
        return Opinion(
            {**rule_alike(shown, yes), **denied},
            detail=detail,
            plan=plan,
            first=so_far.plan_first,
            grants=tuple(
                grant
                for ask in granted
                if answer.find_choice(ask.facts.call.id) == "grant"
                for grant in build_offered_grants(ask)
            ),
        )


def pass_call(facts: CallFacts) -> Ruling:
    """Return the ruling on a call that does not ask; it names the permission or the rule that stands behind it."""
    return Ruling(Standing.ALLOW, "approval_granted", cite_leave(facts)) if facts.has_leave else _PASSED


def spare_advice(
    gate: GateName, calls: Sequence[CallFacts], turn: Turn, so_far: SoFar, policy: Policy, *, covered: bool = False
) -> dict[str, Ruling]:
    """Return the rulings of a gate that needs no advice on these calls, for nobody can say yes to any; {} otherwise.

    They ask, so that a call is let go by nothing but the leave that is not there. With `covered` a plan may stand
    behind them.
    """
    spared = spare_hopeless(gate, calls, turn, so_far, policy, covered=covered)
    return spared if len(spared) == len(calls) else {}


def spare_hopeless(
    gate: GateName, calls: Sequence[CallFacts], turn: Turn, so_far: SoFar, policy: Policy, *, covered: bool = False
) -> dict[str, Ruling]:
    """Return the rulings of a gate on those of the calls that need no advice, for nobody can say yes to them."""
    approval = ApprovalGate(policy)
    asks = [ask for facts in calls if (ask := approval.find_hopeless_ask(facts, turn, so_far, covered=covered))]
    code: GateCode = "plan_not_asked" if gate == "plan" else "critique_not_asked"
    return {ask.facts.call.id: Ruling(Standing.ASK, code, ask.why) for ask in asks}


def deny_asks(asks: Sequence[Ask], code: ApprovalCode, message: str, reason: str = "") -> dict[str, Ruling]:
    return {ask.facts.call.id: Ruling(Standing.DENY, code, f"{message} ({ask.why})", reason=reason) for ask in asks}


def deny_unattended(asks: Sequence[Ask]) -> dict[str, Ruling]:
    """Return the rulings on calls that ask where nobody can answer."""
    outside, rest = [ask for ask in asks if ask.is_outside], [ask for ask in asks if not ask.is_outside]
    return {
        **deny_asks(rest, "approval_required", "this needs a person's yes, and nobody can be asked"),
        **deny_asks(outside, "outside_mandate", "a person would have to name this, and nobody can be asked"),
    }


def hold_unnamed(opinion: Opinion, asks: Sequence[Ask], turn: Turn, answer: Answer) -> Opinion:
    """Return an opinion in which a yes lets no call through whose values from outside were not named with it."""
    held = {}
    for ask in asks:
        call = ask.facts.call.id
        left = list_unnamed_values(ask.facts, turn.depth, read_named(answer, call))
        if ask.is_outside and left and opinion.rulings[call].standing is Standing.ALLOW:
            typed = ", ".join(f"`{text[:80]}`" for text in read_named(answer, call))
            instead = f"; the person typed {typed[:200]} instead" if typed and len(left) == 1 else ""
            message = f"{explain_outside(left)}{instead}; go on without it, or ask the person to name it in a message"
            held[call] = Ruling(Standing.HOLD, "outside_mandate", message)
    return replace(opinion, rulings={**opinion.rulings, **held})


def is_grant_for(grant: Grant, facts: CallFacts) -> bool:
    """Whether the effect and the resources of a grant, exactly as they were shown, are those of a call."""
    if grant.effect != facts.effect.value or grant.scripts != find_scripts(facts):
        return False
    if grant.values not in ("", hash_values(facts)):
        return False
    if grant.digest:
        return grant.digest == facts.call.digest
    if has_own_folder(facts):
        return False
    return bool(facts.targets) and all((r.kind.value, r.id) == (grant.kind, grant.pattern) for r in facts.targets)


def add_seconds(now: str, seconds: int) -> str:
    """Return the UTC text `seconds` after `now`."""
    moment = datetime.fromisoformat(now.replace("Z", "+00:00")) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
