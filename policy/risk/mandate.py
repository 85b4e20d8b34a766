"""Who stands behind a call: the person's own words, nobody yet, or for a value of it only text from outside. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.policy.policy import Policy
from foregate.policy.risk.declared import has_own_destination
from foregate.policy.risk.proposal import list_asking, read_agreed
from foregate.policy.risk.said import asks_for, find_doubt
from foregate.schemas import strict_json
from foregate.schemas.tool_call import Authority, CallFacts
from foregate.schemas.turn import PLANNED_ALONE, SECOND_MANDATE, Said, Turn
from foregate.schemas.value import ArgumentValue, read_forms

_PLACE = 2
"""What of the record of a found value says where it stands: tool and field; the person's words follow."""
_SPOKEN = ("said", "found", "configured")
"""Sources that are as good as the person's own words."""


def find_authority(facts: CallFacts, turn: Turn, policy: Policy, spent: Mapping[str, int]) -> Authority:
    """Return who stands behind one call; `spent` counts the mentions that earlier calls of the response use.

    A child task has no mandate of its own, so that what a task cannot do its child cannot do for it.
    """
    values = facts.survey.values
    if values is None or policy.mandate.mode == "off" or not is_consequential(facts, turn, policy):
        return ""
    if list_outside_values(facts, turn.depth):
        return "outside"
    spoken = all(is_spoken(value, spent) for value in values) and turn.depth == 0 and bool(values)
    if not spoken or not (facts.survey.leaves or is_asked_for(facts, turn, policy)):
        return "open"
    return "open" if facts.changes and find_more(facts, turn, policy) else "said"


def is_consequential(facts: CallFacts, turn: Turn, policy: Policy) -> bool:
    """Whether somebody has to stand behind a call: it leaves the machine, cannot be undone, has high impact, or is a
    change by somebody else's tool that the request does not ask for."""
    if not facts.changes:
        return bool(facts.survey.leaves)
    if facts.contained:
        return False
    if facts.external or facts.irreversible or facts.high_impact:
        return True
    own = facts.spec is not None and facts.spec.provenance == "builtin"
    if own or (has_own_destination(facts.spec, policy) and not facts.survey.values):
        return False
    return not is_asked_for(facts, turn, policy)


def wants_plan(facts: CallFacts, turn: Turn, policy: Policy) -> bool:
    """Whether a call needs leave that the person's words alone do not give: a plan's, or then a person's.

    No plan is made where it could not help: for a value that was read in a record which no words of the person's tell
    from others, and none of high impact for one that a person has to name, where a plan that has it wrong would cost
    too much.
    """
    if not facts.changes or facts.has_leave or not is_consequential(facts, turn, policy):
        return False
    if facts.authority == "said":
        return has_to_agree(facts, turn) and not is_proposed(facts, turn, policy)
    to_name = list_outside_values(facts, turn.depth)
    # What asks anyway is shown with them.
    is_shown = facts.high_impact or facts.external or facts.irreversible
    read = [value for value in facts.survey.values or () if value.source == "own"] if is_shown else []
    return all(map(may_be_planned, [*to_name, *read])) and not (to_name and facts.high_impact)


def has_to_agree(facts: CallFacts, turn: Turn) -> bool:
    """Whether a plan has to say what the person's words say already: nobody is there, and it reaches others for good.

    So neither a misread message nor a wrong plan does that alone. Who agrees to a proposal in words is there.
    """
    lasting = facts.external and facts.irreversible
    return turn.edition >= PLANNED_ALONE and not turn.attended and turn.depth == 0 and lasting


def may_be_planned(value: ArgumentValue) -> bool:
    """Whether a plan may stand for a value that a person has to name else: its role is unclear, it was read and would
    leave, or it stands in a record that the person's words tell from others."""
    if value.role == "carried":
        return bool(value.seq)
    return value.source == "unclear" or is_told_apart(value)


def is_told_apart(value: ArgumentValue) -> bool:
    """Whether a value was read in a record that words of the person's tell from all others."""
    return len(value.record) > _PLACE


def is_asked_for(facts: CallFacts, turn: Turn, policy: Policy) -> bool:
    """Whether the request asks for what a call does, or agrees to a proposal that does."""
    return asks_for(facts.effect, facts.call.name, _list_asking(turn, policy), policy)


def find_more(facts: CallFacts, turn: Turn, policy: Policy) -> str:
    """Return what else messages do that ask for what a call does, so that it may be another who asks, "" for nothing:
    "reported: `Ann says send it`"."""
    said = _list_asking(turn, policy)
    asks = asks_for(facts.effect, facts.call.name, said, policy)
    return find_doubt(facts.effect, facts.call.name, said, policy) if asks else ""


def is_proposed(facts: CallFacts, turn: Turn, policy: Policy) -> bool:
    """Whether the person agreed to a proposal of this very call: it asks for the effect, and names every target and
    amount. What was agreed to is not shown again."""
    if turn.proposal is None or turn.edition < SECOND_MANDATE:
        return False
    proposed = list_asking(turn.proposal, (), policy)
    if not asks_for(facts.effect, facts.call.name, proposed, policy):
        return False
    agreed = read_agreed(turn.proposal, policy)
    named = [value.text for value in facts.survey.values or () if value.role in ("target", "amount")]
    return all(any(agreed.names(form, text) for form in read_forms(text)) for text in named)


def is_beyond_plans(facts: CallFacts, turn: Turn, policy: Policy) -> bool:
    """Whether no plan lets a call go: nobody is there, it reaches others for good, and who asks for it is not sure.

    A planner reads all of such a message, and may take what stands in it for the request.
    """
    lasting = facts.external and facts.irreversible
    return not turn.attended and lasting and bool(find_more(facts, turn, policy))


def _list_asking(turn: Turn, policy: Policy) -> tuple[Said, ...]:
    return turn.user_messages if turn.proposal is None else list_asking(turn.proposal, turn.user_messages, policy)


def is_spoken(value: ArgumentValue, spent: Mapping[str, int]) -> bool:
    """Whether a value has the person's own words or as much behind it, once `spent` mentions are used."""
    if value.source == "said":
        return value.left > spent.get(value.key, 0)
    return value.source in _SPOKEN


def is_meant(value: ArgumentValue) -> bool:
    """Whether somebody with authority means a value that no words name: it is configured, or was found in a record
    beside words of the person's."""
    return value.source == "configured" or (value.source == "found" and is_told_apart(value))


def is_configured(facts: CallFacts, policy: Policy) -> bool:
    """Whether the person asked for what a built-in tool does where that was configured before the session.

    What the tool declares of itself wants no yes then; what the operator's policy says of it does.
    """
    own = facts.spec is not None and facts.spec.provenance == "builtin" and facts.call.name not in policy.tools
    known = any(value.source == "configured" for value in facts.survey.values or ())
    return own and known and facts.authority == "said"


def list_outside_values(facts: CallFacts, depth: int = 0) -> list[ArgumentValue]:
    """Return the values of a call that a person must name; in a child task all that nothing but a person can raise."""
    outside = ("outside", "unclear", "unsaid") if depth else ("outside", "unclear")
    return [value for value in facts.survey.values or () if value.source in outside]


def list_values_to_name(facts: CallFacts, depth: int = 0) -> list[ArgumentValue]:
    """Return all that a person must name before a call that asks may run, or what it did may be kept."""
    return [*list_outside_values(facts, depth), *facts.unspoken]


def list_used_keys(facts: CallFacts) -> tuple[str, ...]:
    """Return the keys of the mentions a call uses up."""
    return tuple(dict.fromkeys(value.key for value in facts.survey.values or () if value.source == "said"))


def hash_values(facts: CallFacts) -> str:
    """Return a hash over the values of a call that bind, "" where nobody looked for them or there are none."""
    bound = sorted([value.path, value.key] for value in facts.survey.values or ())
    return strict_json.sha256(strict_json.canonical(bound)) if bound else ""
