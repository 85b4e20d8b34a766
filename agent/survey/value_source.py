"""Where a value of a call comes from: the person's own words, a record that was read, the operator, or outside."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cached_property

from msgspec.structs import replace

from foregate.evidence.reads import FoundValue, Reads, leave_out, may_have_written
from foregate.evidence.records import Record, list_record_words
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.candidates import WantedValue
from foregate.policy.risk.direct import is_framed
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.http import is_host_match, normalise_host, read_host
from foregate.policy.risk.places import split_moments
from foregate.policy.risk.proposal import Agreed, find_agreed_answer, list_asking, read_agreed
from foregate.policy.risk.said import Mention, SaidValues, asks_for, read_said
from foregate.policy.risk.sorts import has_form, is_identifier
from foregate.schemas.lookalike import is_disguised, is_lookalike
from foregate.schemas.tool_call import Origin
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said
from foregate.schemas.value import ArgumentValue, Source, Value, format_key

_NAMELESS = ("number", "moment")
"""Kinds of values that name nothing by themselves: a record may say the one the person has used up already."""
_PLAIN = {"id", "then", "message", "stands_for", "tool", "kind", "resource"}
"""What a rule may say that allows a target; any other condition is for the gates to look at."""
_WHERE = ("address", "url", "host")
_COMPOSED = "nobody in these words, after text from outside was read"
_BESIDE = 16
"""Words of the person's that are kept of a record in which a value was found."""
_NOT_OWN = "text you pasted, quoted or asked about"


class ValueSources:
    """Tells where the values of one call come from; `values` are all of them with their roles, and `grave` calls take
    more than others, as does one that was `made` before in this task with the same arguments.

    `tool` is the name of the tool it calls, `effect` what the call does.
    """

    def __init__(
        self,
        state: SessionState,
        policy: Policy,
        tool: str,
        values: Mapping[Value, str],
        *,
        grave: bool,
        effect: Effect,
        made: bool = False,
    ) -> None:
        assert state.task is not None
        self.state, self.task, self.policy = state, state.task, policy
        self.tool, self.values, self.grave, self.effect, self.changes = tool, values, grave, effect, effect.changes
        self.made = made
        self.said: SaidValues = read_said(tuple(state.task.messages), policy)
        earlier = self.task.earlier
        self.said_before: SaidValues = read_said((*earlier.messages, *state.task.messages), policy)
        self.outside = bool(state.outside_since) or self.said_before.pasted
        asks = earlier.answer if not state.task.depth else None
        proposal = find_agreed_answer(asks, state.task.messages, policy) if asks is not None else None
        self.agreed = read_agreed(proposal, policy) if proposal is not None else None
        if proposal is not None and self.agreed is not None:
            asking = list_asking(proposal, state.task.messages, policy)
            asked = asks_for(effect, tool, asking, policy)
            self.agreed = self.agreed if asked else Agreed(self.agreed.asked, self.agreed.asked)

    def describe(self, model: ArgumentValue, value: Value, text: str) -> ArgumentValue:
        """Return a value of the call with its source.

        Where a call was made before and something from outside was read, that may be what wants it once more.
        """
        told = self._find_source(model, value, text)
        again = self.made and self.outside and self.changes
        return replace(told, source="unclear", left=0) if again and told.source in ("mentioned", "found") else told

    def _find_source(self, model: ArgumentValue, value: Value, text: str) -> ArgumentValue:
        mention = self.said.find(value, text)
        left = mention.count - self.task.uses.count(model.key) if mention is not None else 0
        strays = mention is not None and self.is_stray(mention, model.role)
        if mention is not None and mention.alone and left > 0 and not strays:
            return _build(model, "said", mention.seq, mention.sentence, left)
        if self.agreed is not None and (again := self.find_agreed(model, value, text, self.agreed)) is not None:
            return again
        may_be_found = mention is None or value.kind in _NAMELESS
        if may_be_found and (read := self.find_in_reads(model, value, text)) is not None:
            return self._build_found(model, read)
        if where := self.find_configured(value) or (self.find_permission(value) if model.role == "target" else ""):
            return _build(model, "configured", 0, where)
        if mention is not None:
            doubtful = strays or (self.grave if left < 1 else not self.is_together)
            source: Source = "unclear" if doubtful and self.outside and self.changes else "mentioned"
            return _build(model, source, mention.seq, mention.sentence, max(left, 0))
        if quoted := self.said.quotes(value):
            return _build(model, "outside", quoted, _NOT_OWN)
        if not self.outside:
            return _build(model, "unsaid", 0, "")
        return self.describe_outside(model, text)

    def find_agreed(self, model: ArgumentValue, value: Value, text: str, agreed: Agreed) -> ArgumentValue | None:
        """Return a value as said or found before, where the person agreed to it in the words of the model.

        The only value of its kind that the person said stays in force where the proposal names it, also beside others.
        That of a thing does where the proposal names no other of the sort.
        """
        again, left = self.said_before.find(value, text), 1 - self.task.uses.count(model.key)
        others = self.values if model.role != "target" else [one for one in self.values if self.values[one] != "target"]
        used = split_moments(others)
        if not agreed.binds(value, text, used):
            others_said = self.said_before.list_others(value)
            alone = again is not None and all(any(has_form(used, form) for form in forms) for forms in others_said)
            named = agreed.names(value, text) or (is_identifier(value) and not agreed.names_rival(value, used))
            if not (alone and named):
                return None
        if again is not None:
            source: Source = "mentioned" if self.was_framed(value, text) else "said"
            return _build(model, source, again.seq, again.sentence, left) if left > 0 else None
        read = self.find_in_earlier_reads(model, value, text, agreed)
        return self._build_found(model, read) if read is not None else None

    def was_framed(self, value: Value, text: str) -> bool:
        """Whether an earlier message that is no plain request holds a value, so that others may have said it there."""
        told = [said.text for said in self.task.earlier.messages if said.actor == "user"]
        forms = {value.normal.casefold(), text.casefold()}
        return any(any(form in one.casefold() for form in forms) and is_framed(one, self.policy) for one in told)

    def is_stray(self, mention: Mention, role: str) -> bool:
        """Whether the person said a target in a sentence that asks for no such call, or an amount where another does.

        Once something from outside was read, that could have said what becomes of it. An answer to a question asks for
        nothing.
        """
        if not (self.outside and self.changes) or role not in ("target", "amount"):
            return False
        if mention.seq != self.task.messages[0].seq:
            return False
        whole, alone = tuple(self.task.messages), (Said(mention.seq, mention.sentence),)
        asks, asked_there = (asks_for(self.effect, self.tool, said, self.policy) for said in (whole, alone))
        return (asks or role == "target") and not asked_there

    @cached_property
    def is_together(self) -> bool:
        """Whether the person said the values of the call beside each other, so that none of them has changed places."""
        return self.said.are_together([value for value in self.values if self.said.find(value, value.normal)])

    def describe_outside(self, model: ArgumentValue, text: str) -> ArgumentValue:
        """Return a value that nobody who counts said, with who said it first."""
        atom = self.state.atoms.find_atom(text)
        heard = {Origin.EXTERNAL: self.state.heard.get(atom.seq, "text from outside"), Origin.USER: _NOT_OWN}
        return _build(model, "outside", atom.seq, heard.get(atom.origin, _COMPOSED))

    def find_in_reads(self, model: ArgumentValue, value: Value, text: str) -> FoundValue | None:
        """Return the read that found a value, None where none did, or where it could pass for another value.

        A word of the person's has to stand in the record for a grave call and for an address that something goes to. So
        it has where the person named another thing of its sort that nothing has used; a grave call then takes no other
        at all.
        """
        reads = self.task.reads
        if (words := self.needs_words(value, text, self.said)) is None:
            return None
        wanted = self.want(model, value, self.said)
        read = reads.find(
            value, text, lambda record: has_word(record, value, self.telling), wanted.is_given_by, need_words=words
        )
        if read is None and not self.changes and value.kind == "url":
            read = reads.find_link(value, lambda page: self.said.find(page, page.normal) is not None)
        return self.check_read(read, reads, value, text)

    def want(self, model: ArgumentValue, value: Value, said: SaidValues, *, is_agreed: bool = False) -> WantedValue:
        """Return a value as a record has to give it."""
        is_amount = model.role == "amount"
        return WantedValue(value, model.path, is_amount, is_agreed, said, self.is_unused, self.policy.mandate)

    @cached_property
    def telling(self) -> frozenset[str]:
        """The person's words that tell one record from another; those of the whole conversation, questions among them,
        where no word of the request stands in any record, as in `answer her`, and the call is not grave."""
        records = self.task.reads.list_records()
        if self.grave or self.task.depth or any(has_word(record, None, self.said.words) for record in records):
            return self.said.words
        return self.said_before.words | self.said_before.asked

    def find_in_earlier_reads(self, model: ArgumentValue, value: Value, text: str, agreed: Agreed) -> FoundValue | None:
        """Return the read before this request that found a value which the person agreed to, None where none did.

        Of several candidates beside words of their own, or of what they agreed to, they chose one by that; no address,
        and none for a grave call. What a read was asked with and returned counts as well where it is no target.
        """
        reads, said = self.task.earlier.reads, self.said_before
        if (words := self.needs_words(value, text, said)) is None:
            return None
        chosen = not self.grave and value.kind not in _WHERE
        told = said.words | agreed.whole.words if chosen else said.words

        def is_meant(record: Record) -> bool:
            holds = not chosen or any(one.value == value for one in record.fields)
            return holds and has_word(record, value, told)

        gives = self.want(model, value, said, is_agreed=True).is_given_by
        echoes = chosen and model.role != "target"
        read = reads.find(value, text, is_meant, gives, need_words=words or chosen, echoes=echoes)
        return self.check_read(read, reads, value, text)

    def needs_words(self, value: Value, text: str, said: SaidValues) -> bool | None:
        """Whether a word of the person's must stand in a record beside a value, None where no record gives it."""
        rivals = [rival for rival in said.list_rivals(value) if self.is_unused(rival)]
        if is_disguised(value, text) or any(is_lookalike(value, rival) for rival in rivals):
            return None
        if rivals and self.grave and self.changes:
            return None
        return bool(rivals) or self.grave or (self.changes and value.kind in _WHERE)

    def check_read(self, read: FoundValue | None, reads: Reads, value: Value, text: str) -> FoundValue | None:
        """Return a read unless what it found could pass for another value, or be the session's own."""
        if read is None or reads.has_lookalike(value) or may_have_written(self.state.written, value, text, read.seq):
            return None
        return read

    def is_unused(self, value: Value) -> bool:
        """Whether neither this call nor an earlier one has used a mention of a value."""
        return not has_form(split_moments(self.values), value) and not self.task.uses.count(format_key(value))

    def find_configured(self, value: Value) -> str:
        """Return who configured a value before the session began, "" for nobody; `*` configures nothing."""
        host = read_host(value.normal) if value.kind == "url" else ""
        if value.kind == "host":
            host = normalise_host(value.normal)
        if host and any(pattern != "*" and is_host_match(pattern, host) for pattern in self.policy.http.hosts):
            return "a host of the policy's http.hosts"
        return ""

    def find_permission(self, target: Value) -> str:
        """Return the operator's rule that allows a tool this very target, "" for none; one for anything is none."""
        for rule in self.policy.rules.list:
            tool, resource = rule.tool or "", (rule.resource or "").strip("*") and rule.resource
            if rule.then != "allow" or not resource or rule.model_dump(exclude_none=True, exclude=_PLAIN):
                continue
            if matches_text(tool, self.tool) and matches_text(resource, target.normal):
                return f"the rule `{rule.id}` of the policy"
        return ""

    def _build_found(self, model: ArgumentValue, read: FoundValue) -> ArgumentValue:
        where = f"field {read.field} of" if read.field else "in"
        record = (read.tool, read.field, *sorted(read.words & self.telling)[:_BESIDE])
        return replace(_build(model, "found", read.seq, f"{where} what {read.tool} returned"), record=record)


def has_word(record: Record, value: Value | None, words: Set[str]) -> bool:
    """Whether one of the person's words stands in a record beside a value; what the value itself says is none."""
    beside = leave_out(record, value) if value is not None else record
    return not words.isdisjoint(list_record_words(beside))


def _build(model: ArgumentValue, source: Source, seq: int, words: str, left: int = 0) -> ArgumentValue:
    return replace(model, source=source, seq=seq, words=words[:200], left=left)
