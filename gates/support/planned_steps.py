"""What a plan that was made without a look at any call covers: values are bound by its terms, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property

from msgspec import Struct

from foregate.evidence.passages import fold_text
from foregate.gates.support.plan_scope import find_covering_items
from foregate.policy.policy import Policy
from foregate.policy.risk.addressed import is_for_another, wants_only_words
from foregate.policy.risk.flows import speaks_of
from foregate.policy.risk.mandate import is_asked_for, is_beyond_plans, is_told_apart
from foregate.policy.risk.pieces import cut_pasted
from foregate.policy.risk.said import SaidValues, read_said
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.plan import PlanInForce, PlanTerm, ScopeItem, add_amounts, find_values, is_about, list_leaves
from foregate.schemas.strict_json import Json, get_object
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import SECOND_MANDATE, Turn
from foregate.schemas.value import ArgumentValue, Value, format_key, read_forms, read_value

_NAMED = ("said", "found")
_SPOKEN_BELOW = ("said", "mentioned", "unclear", "configured")
"""Sources of values that a plan may cover in a child task."""
# "read" and "file" in "read_file".
_WORD = compile_late(r"[^\W_]+")
# "." in "order.price", "[" in "items[0]": what stands before it is the parameter.
_HEAD = compile_late(r"[.\[]")
_TRUTHS = ("words:true", "words:false")


def find_items(
    facts: CallFacts, plan: PlanInForce, turn: Turn, policy: Policy, *, by_words: bool
) -> tuple[int, ...] | None:
    """Return the numbers of the items of a plan that cover a call; None where none do.

    With `by_words` a step whose values the person's words name comes first; no other item covers a value that only text
    from outside said.
    """
    at = find_planned_item(facts, plan, turn, policy) if by_words else None
    if at is not None or (by_words and facts.authority == "outside"):
        return (at,) if at is not None else None
    same_tool = policy.plan.binding == "steps"
    return find_covering_items(facts, plan, {}, same_tool=same_tool, during=turn.during)


def find_planned_item(facts: CallFacts, plan: PlanInForce, turn: Turn, policy: Policy) -> int | None:
    """Return the number of the first planned step that covers a call and has a use left, None where none does.

    In a child task, which shares its parent's plan, only the person's own words count: what the child found its parent
    may have put there, and a longer text may be one that its parent read.
    """
    if is_beyond_plans(facts, turn, policy):
        return None
    fit = _Fit(facts, turn, policy, tuple((flow.read, flow.to) for flow in plan.flows))
    if turn.depth > 0 and not fit.is_all_spoken():
        return None
    return next((at for at, item in enumerate(plan.items) if item.uses > item.used and fit.is_covered_by(item)), None)


class _Fit(Struct, frozen=True, dict=True):
    """One call, to be compared with planned steps."""

    facts: CallFacts
    turn: Turn
    policy: Policy
    flows: tuple[tuple[str, str], ...]

    @cached_property
    def said(self) -> SaidValues:
        return read_said(self.turn.user_messages, self.policy)

    @property
    def arguments(self) -> Mapping[str, Json]:
        return self.facts.call.arguments or {}

    def is_all_spoken(self) -> bool:
        """Whether every value of a call is the person's or the operator's, and all texts but short ones stand in the
        person's own words."""
        values, messages = self.facts.survey.values or (), self.turn.user_messages
        bound = {value.path for value in values}
        own = [fold_text(cut_pasted(said.text, self.policy.mandate)) for said in messages if said.actor == "user"]
        texts = [fold_text(str(given)) for path, given in list_leaves(self.arguments) if path not in bound]
        rest = sum(len(text) for text in texts if not any(text in words for words in own))
        return rest < self.policy.mandate.flows.verbatim and all(value.source in _SPOKEN_BELOW for value in values)

    def is_covered_by(self, item: ScopeItem) -> bool:
        """Whether a step is for such a call, and all its terms are kept."""
        if item.terms is None or not self.is_meant(item):
            return False
        if self.facts.high_impact and any(value.source == "unclear" for value in self.facts.survey.values or ()):
            return False
        if self.facts.survey.values is None:
            return self.is_named_whole(item.terms)
        bounds = [term for term in item.terms if term.rule not in _NAMED]
        return all(map(self.keeps_bound, bounds)) and self.are_values_covered(item.terms, self.facts.survey.values)

    def is_meant(self, item: ScopeItem) -> bool:
        """Whether a step means the tool of the call, or where it names none the effect."""
        if item.tool and item.tool != self.facts.call.name:
            return False
        if self.facts.effect is Effect.UNKNOWN:
            # Of a tool nobody declared its name says all there is to say.
            return bool(item.tool)
        named = self.turn.edition >= SECOND_MANDATE and self.facts.spec is not None and bool(item.tool)
        if named and self.facts.spec is not None and item.effect is self.facts.spec.effect:
            # The step says what the tool declares: an argument may make a call graver, and the terms bind arguments.
            return True
        return item.effect.covers(self.facts.effect)

    def is_named_whole(self, terms: Sequence[PlanTerm]) -> bool:
        """Whether all that a built-in tool's call names is a target of the step, in words of the person's.

        A repository of the workspace needs no name. What the tool itself would take where nothing is given is no name.
        """
        facts, known = self.facts, {key for term in terms if term.rule == "said" for key in self.list_said_keys(term)}
        schema = get_object(facts.spec.parameters, "properties") if facts.spec is not None else {}
        apart = (ResourceKind.PROCESS, ResourceKind.REPOSITORY)
        targets = facts.spec.targets if facts.spec is not None else ()
        besides = {*self.policy.mandate.texts, *(target.parameter for target in targets if target.kind in apart)}
        texts = [r.id for r in facts.changed_resources if r.kind is not ResourceKind.REPOSITORY]
        for path, given in list_leaves(self.arguments):
            parameter = _HEAD.split(path, maxsplit=1)[0]
            default = get_object(schema, parameter).get("default")
            if parameter not in besides and given not in (None, "", False, default):
                texts.append(str(given))
        named = all(any(format_key(form) in known for form in read_forms(text)) for text in texts)
        return named and is_asked_for(facts, self.turn, self.policy)

    def are_values_covered(self, terms: Sequence[PlanTerm], values: Sequence[ArgumentValue]) -> bool:
        """Whether each value that binds is covered, and the call has a target of the step where it names any."""
        named = [term for term in terms if term.rule in _NAMED]
        fits = {id(value): any(self.is_target(term, value) for term in named) for value in values}
        if named and not any(fits.values()):
            return False
        return all(self.is_value_covered(value, terms, fits[id(value)]) for value in values)

    def is_value_covered(self, value: ArgumentValue, terms: Sequence[PlanTerm], is_target: bool) -> bool:
        """Whether a value is covered: a target by a target of the step, any other also by bounds or the person's word.

        What only outside content said is covered where it stands in a record that the person's words tell from others,
        and the step refers to that; text that was read and would leave, by a flow.
        """
        if value.role == "carried":
            return is_planned_flow(value, self.facts, self.flows, self.said, self.policy)
        if value.source == "outside":
            return any(self.is_referred_to(term, value) for term in terms if term.rule == "found")
        if self.is_only_spoken_of(value):
            return False
        if is_target or value.source == "configured":
            return True
        about = [term for term in terms if term.argument and is_about(term, value.path)]
        if value.role == "target" or any(term.rule in _NAMED for term in about):
            return False
        if about:
            return all(self.is_in_bound(term, value) for term in about)
        return value.source in ("said", "found")

    def is_only_spoken_of(self, value: ArgumentValue) -> bool:
        """Whether a target whose role is unclear is, in the person's sentence, not who or what the deed is for, or the
        request asks a question or for a look and for nothing else that is known."""
        facts = self.facts
        if not facts.external or value.role != "target" or value.source != "unclear":
            return False
        if wants_only_words(self.turn.user_messages, self.policy) and not is_asked_for(facts, self.turn, self.policy):
            return True
        targets = [form for one in facts.survey.values or () if one.role == "target" for form in read_forms(one.text)]
        target = list(read_forms(value.text))
        return is_for_another(target, targets, facts.effect, facts.call.name, self.said, self.policy)

    def is_target(self, term: PlanTerm, value: ArgumentValue) -> bool:
        """Whether a value is the one a term names. Where the message holds two of a kind, the role must be clear."""
        if term.rule == "found":
            return self.is_referred_to(term, value)
        if value.source == "outside" or (term.argument and not is_about(term, value.path)):
            return False
        clear = bool(term.argument) or value.source == "said" or (value.role == "target" and self.has_one_target)
        return clear and value.key in self.list_said_keys(term)

    def is_referred_to(self, term: PlanTerm, value: ArgumentValue) -> bool:
        """Whether a value stands in the record that a term refers to, and the person's words tell it from others."""
        if term.argument and not is_about(term, value.path):
            return False
        known = value.source == "found" or (value.source in ("own", "outside") and is_told_apart(value))
        return known and self.is_in_record(term, value)

    @cached_property
    def has_one_target(self) -> bool:
        targets = {value.path.partition("[")[0] for value in self.facts.survey.values or () if value.role == "target"}
        return len(targets) == 1

    def is_in_record(self, term: PlanTerm, value: ArgumentValue) -> bool:
        """Whether a found value stands where a term looks for it; of a record only words of the person's count."""
        tool, name, *beside = value.record or ("", "")
        wanted = {word for word in _WORD.findall(term.record.casefold()) if word in self.said.words}
        if term.read and term.read != tool:
            return False
        if (
            term.field
            and name
            and not (term.field.casefold() in name.casefold() or name.casefold() in term.field.casefold())
        ):
            return False
        return wanted <= set(beside) and (bool(wanted) or not term.record)

    def list_said_keys(self, term: PlanTerm) -> list[str]:
        """Return the keys a text has, none where the person did not say it as a value."""
        return [format_key(form) for form in self.list_said_forms(term.value)]

    def list_said_forms(self, text: str) -> list[Value]:
        return [form for form in read_forms(text) if self.said.find(form, text) is not None]

    def keeps_bound(self, term: PlanTerm) -> bool:
        """Whether the arguments that a bound is about keep it; one that wants something wants an argument."""
        given = find_values(term, self.arguments)
        match term.rule:
            case "free":
                return True
            case "equals":
                forms = list(read_forms(term.value))
                return bool(given) and all(
                    str(one).lower() == term.value.casefold() if isinstance(one, bool) else read_value(one) in forms
                    for one in given
                )
            case "contains":
                wanted = term.value.casefold()
                said = bool(self.list_said_forms(term.value))
                return said and bool(given) and all(isinstance(one, str) and wanted in one.casefold() for one in given)
        amount = add_amounts(term, self.arguments)
        bounds = [Decimal(form.normal) for form in self.list_said_forms(term.value) if form.kind == "number"]
        return amount is not None and bool(bounds) and Decimal(term.spent) + amount <= min(bounds)

    def is_in_bound(self, term: PlanTerm, value: ArgumentValue) -> bool:
        """Whether a bound, which the arguments keep, covers a value of this source."""
        match term.rule:
            case "equals" | "at_most":
                return value.source != "unclear" or value.key in self.list_said_keys(term) or term.rule == "at_most"
            case _:
                if value.role == "choice" and value.source not in ("said", "found"):
                    # A plan names what is chosen.
                    return False
                return value.source != "unclear" and value.key not in _TRUTHS


def is_planned_flow(
    value: ArgumentValue, facts: CallFacts, flows: Iterable[tuple[str, str]], said: SaidValues, policy: Policy
) -> bool:
    """Whether text that a call takes along may go to all its targets, as `flows` say: what was read, and where to.

    A plan may be the work of whoever wrote what was read, so it opens only what stands in the person's own words as
    well: each telling word for the read, and the value it may go to. No plan opens text
    whose source is unknown.
    """
    if not value.seq:
        return False
    places = [to for read, to in flows if is_said_name(read, value.name, said, policy)]
    keys = {format_key(form) for to in places for form in read_forms(to) if said.find(form, to) is not None}
    targets = [one for one in facts.survey.values or () if one.role == "target"]
    return bool(targets) and all(one.source == "said" and one.key in keys for one in targets)


def is_said_name(text: str, name: str, said: SaidValues, policy: Policy) -> bool:
    """Whether a plan's words for a read are the person's own, and words of its target or tool.

    Words for looking, as in `read_mail`, tell nothing, nor do those for a text that is to be written, as in `a note`.
    """
    looks = policy.mandate.effects.get(Effect.OBSERVATION, ())
    words = [word for word in _WORD.findall(text.casefold()) if len(word) > 2 and word not in looks]
    known = set(_WORD.findall(name.casefold()))
    spoken = (word in known and said.find(Value("words", word), word) is not None for word in words)
    return bool(words) and all(spoken) and all(speaks_of(word, said, policy) for word in words)
