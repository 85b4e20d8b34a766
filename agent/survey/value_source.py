"""Where a value of a call comes from: the person's own words, a record that was read, the operator, or outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType

from msgspec.structs import replace

from foregate.evidence.reads import FoundValue, Reads, WantedField, may_have_written
from foregate.evidence.records import Record
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.addressed import is_for_another
from foregate.policy.risk.candidates import WantedValue
from foregate.policy.risk.declared import list_properties
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.http import is_host_match, read_host
from foregate.policy.risk.own_words import is_framed
from foregate.policy.risk.places import split_moment, split_moments
from foregate.policy.risk.proposal import Agreed, find_agreed_answer, list_asking, read_agreed
from foregate.policy.risk.reckoned import find_reckoning
from foregate.policy.risk.said import NAME_PARTS, Mention, SaidValues, asks_for, read_said
from foregate.policy.risk.sorts import are_alike, has_form, is_identifier, is_same_kind
from foregate.schemas.host import normalise_host
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin
from foregate.schemas.tool_spec import Effect, OwnFields
from foregate.schemas.turn import Said
from foregate.schemas.value import ArgumentValue, Source, Value, format_key, is_disguised, is_lookalike, trim_text

_NAMELESS = ("number", "moment")
"""Kinds of values that name nothing by themselves: a record may say the one the person has used up already."""
_UNSAID = ("outside", "unsaid", "own")
"""Sources of values that may follow from others."""
_DAY = len("2026-03-01")
_PLAIN = {"id", "then", "message", "stands_for", "tool", "kind", "resource"}
"""What a rule may say that allows a target; any other condition is for the gates to look at."""
_WHERE = ("address", "url", "host")
# "[0]" in "items[0].price".
_PLACES = compile_late(r"\[\d+\]")
_COMPOSED = "nobody in these words, after text from outside was read"
_EVERY = 64
"""Calls that a choice is good for, once it was said."""
_BESIDE = 16
"""Words of the person's that are kept of a record in which a value was found."""
_ANOTHER = "nobody in these words, and the person said another"
_NOT_OWN = "text you pasted, quoted or asked about"


class ValueSources:
    """Tells where the values of one call come from; `listed` are all of them with path and role, and `grave` calls take
    more than others, as does one that was `made` before in this task with the same arguments.

    `tool` is the name of the tool it calls, `schema` that of its arguments, `effect` what the call does. `owns` says
    which fields of a tool's results a person has declared.
    """

    def __init__(
        self,
        state: SessionState,
        policy: Policy,
        tool: str,
        listed: Iterable[tuple[str, Value, str]],
        *,
        grave: bool,
        effect: Effect,
        made: bool = False,
        schema: Mapping[str, Json] = MappingProxyType({}),
    ) -> None:
        assert state.task is not None
        self.state, self.task, self.policy = state, state.task, policy
        self.listed = tuple(listed)
        self.values = {value: role for _, value, role in self.listed}
        self.tool, self.grave, self.effect, self.changes = tool, grave, effect, effect.changes
        self.made, self.schema = made, schema
        self.owns: Callable[[str], OwnFields] = lambda tool: ()
        self.said: SaidValues = read_said(tuple(state.task.messages), policy)
        earlier = self.task.earlier
        self.said_before: SaidValues = read_said((*earlier.messages, *state.task.messages), policy)
        self.outside = bool(state.outside_since) or self.said_before.pasted
        self.asking = tuple(state.task.messages)
        asks = earlier.answer if not state.task.depth else None
        proposal = find_agreed_answer(asks, state.task.messages, policy) if asks is not None else None
        self.agreed = read_agreed(proposal, policy) if proposal is not None else None
        if proposal is not None and self.agreed is not None:
            self.asking = list_asking(proposal, state.task.messages, policy)
            self.agreed = self.agreed if self.is_asked else Agreed(self.agreed.asked, self.agreed.asked)

    def describe(self, model: ArgumentValue, value: Value, text: str) -> ArgumentValue:
        """Return a value of the call with its source.

        Where a call was made before and something from outside was read, that may be what wants it once more.
        """
        told = self._find_source(model, value, text)
        if told.source in ("outside", "unsaid") and self.is_unread(model, value, text):
            return replace(told, is_unread=True)
        again = self.made and self.outside and self.changes
        return replace(told, source="unclear", left=0) if again and told.source in ("mentioned", "found") else told

    def is_unread(self, model: ArgumentValue, value: Value, text: str) -> bool:
        """Whether a change names a thing by what nobody said and nothing read holds: its model has yet to look it up.
        What is new may be called anything, and a number that is no target may be reckoned."""
        if not (self.changes and is_identifier(value)) or self.effect is Effect.CREATE:
            return False
        names = value.kind == "words" or model.role == "target"
        return (
            names and self.state.atoms.find_atom(text).origin is Origin.NOBODY and not self.every_read.has_value(value)
        )

    def _find_source(self, model: ArgumentValue, value: Value, text: str) -> ArgumentValue:
        mention = self.said.find(value, text)
        carries_over = mention is None and self.carries_over(value) and not self.was_framed(value, text)
        before = self.said_before.find(value, text) if carries_over else None
        # Where nobody outside could write anything that was read, what was said once stays said.
        mention = mention or (before if not self.outside else None)
        left = mention.count - self.task.uses.count(model.key) if mention is not None else 0
        strays = mention is not None and self.is_stray(mention, model.role)
        if mention is not None and left > 0 and not strays and (mention.alone or self.is_only_role(model, value)):
            return _build(model, "said", mention.seq, mention.sentence, left)
        if self.agreed is not None and (again := self.find_agreed(model, value, text, self.agreed)) is not None:
            return again
        read = self.find_in_reads(model, value, text)
        # Nobody says which of several records is meant: one is shown, and taken at once where nobody outside could
        # write anything that was read. To whom something goes has to be named where several answer to the same words.
        is_open = read is not None and read.is_own and (read.is_open or model.role != "target")
        is_open = is_open and self.carries_over(value)
        found = not self.changes or (read is not None and read.is_own and read.is_meant)
        found = found or (is_open and not self.outside)
        if read is not None and found and (mention is None or value.kind in _NAMELESS):
            return _build_read(model, "found", read)
        if where := self.find_configured(value) or (self.find_permission(value) if model.role == "target" else ""):
            return _build(model, "configured", 0, where)
        if mention is not None:
            doubtful = strays or (self.grave if left < 1 else not self.is_together)
            source: Source = "unclear" if doubtful and self.outside and self.changes else "mentioned"
            return _build(model, source, mention.seq, mention.sentence, max(left, 0))
        if before is not None and self.changes:
            return _build(model, "mentioned", before.seq, before.sentence)
        if value.kind == "moment" and self.is_asked_about(value):
            return _build(model, "mentioned", self.task.messages[0].seq, "a question of yours")
        if quoted := self.said.quotes(value):
            return _build(model, "outside", quoted, _NOT_OWN)
        if self.changes and self.is_against_words(model, value):
            return _build(model, "outside", 0, _ANOTHER)
        if read is not None and is_open:
            return _build_read(model, "own", read)
        if not self.outside:
            return _build(model, "unsaid", 0, "")
        return _build_read(model, "outside", read) if read is not None else self.describe_outside(model, text)

    def is_against_words(self, model: ArgumentValue, value: Value) -> bool:
        """Whether the person said, or agreed to, another value that could stand where this one stands."""
        return (
            bool(self.list_rivals(value))
            or self.is_against_proposal(value)
            or self.want(model, value).has_other_said(())
        )

    def list_rivals(self, value: Value) -> list[Value]:
        """Return what the person said, and no call has used, that could stand where a value stands: not what the tools'
        own systems only know under other names, as a booking's number is no flight's."""
        rivals = [rival for rival in self.said.list_rivals(value) if self.is_unused(rival)]
        if not rivals or not (names := self.every_read.list_own_names(value)):
            return rivals
        known = {rival: self.every_read.list_own_names(rival) for rival in rivals}
        return [rival for rival in rivals if not known[rival] or known[rival] & names]

    def is_asked_about(self, value: Value) -> bool:
        """Whether the person says a day and a time, or one of them, in a question at least, and no other such."""
        for part in split_moment(value):
            others = (forms for message in self.said.messages for forms in message.list_asked(part))
            if not self.said.names(part) or any(not has_form(forms, part) for forms in others):
                return False
        return True

    def reckon(self, described: Sequence[ArgumentValue], values: Sequence[Value]) -> list[ArgumentValue]:
        """Return the values of the call, those that nobody said as said where they follow from the person's words and
        other values of the call. `values` are the same ones as they are compared.
        """
        section, today = self.policy.mandate, self.task.since[:_DAY]
        found = []
        for told, value in zip(described, values, strict=True):
            kind = value.kind == "moment" or told.role == "amount"
            may_follow = kind and told.source in _UNSAID and not self.task.uses.count(told.key)
            bases = [one for one in values if one != value]
            how = find_reckoning(value, bases, self.said, today, section) if may_follow else ""
            found.append(_build(told, "said", self.said.messages[-1].seq, how, 1) if how else told)
        return found

    def describe_choice(self, model: ArgumentValue, value: Value, given: Json) -> ArgumentValue:
        """Return one of a few values that the tool lists: said where the person says it, or what it is called, and
        found where the record that they mean has it in an own field of that name, so that it stays as it is.

        `recurring: true` is said by `recurring`, and `one_way` by `one way`. Else nobody said it: it carries
        nothing that was read, and takes a plan that names it, or a plain yes.
        """
        model = replace(model, role="choice") if model.role == "value" else model
        name = _get_name(model.path) if given is True else "" if isinstance(given, bool) else str(given)
        words = [part.group().casefold() for part in NAME_PARTS.finditer(name)]
        for message in self.said.messages if words else ():
            spoken = {trim_text(message.words.pieces[at].text).casefold() for at in message.words.own}
            if spoken.issuperset(words):
                return _build(model, "said", message.seq, " ".join(words), _EVERY)
        read = None if isinstance(given, bool) else self.find_in_reads(model, value, str(given))
        if read is None or not (read.is_own and read.is_meant and self.want(model, value).measure_fit(read.field)):
            return model
        return _build_read(model, "found", read)

    @cached_property
    def is_asked(self) -> bool:
        """Whether the request asks for what the call does, or agrees to a proposal that does."""
        return asks_for(self.effect, self.tool, self.asking, self.policy)

    def is_only_role(self, model: ArgumentValue, value: Value) -> bool:
        """Whether what was said of a value's kind can only be meant as the call has it.

        Of several things that were said the call may take any, and all, where they go into one argument alone, and the
        person says of this one that the call is for it. Days and times are in the order in which the tool lists its
        arguments: the earlier one begins.
        """
        name = _get_name(model.path)
        if value.kind == "moment":
            others = self.said.list_others(value)
            return all(any(has_form(self.values, form) for form in forms) for forms in others) and self.are_in_order(
                value
            )
        if model.role == "amount" or value.kind == "number":
            return False
        alike = [one for path, one, _ in self.listed if _get_name(path) != name and are_alike(one, value)]
        targets = [one for path, one, _ in self.listed if _get_name(path) == name]
        return not alike and not is_for_another([value], targets, self.effect, self.tool, self.said, self.policy)

    def are_in_order(self, value: Value) -> bool:
        """Whether two days or times of the call and more are in order, whatever order the call gives them in."""
        names = list(list_properties(self.schema))
        places = [(_get_name(path), one.normal) for path, one, _ in self.listed if is_same_kind(one, value)]
        if len(places) < 2 or not all(name in names for name, _ in places):
            return False
        moments = [moment for _, moment in sorted(places, key=lambda place: names.index(place[0]))]
        return moments == sorted(moments)

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
        read = self.find_in_reads(model, value, text, is_agreed=True)
        return _build_read(model, "found", read) if read is not None and read.is_own else None

    def carries_over(self, value: Value) -> bool:
        """Whether what the conversation holds may give a value: the request asks for such a call, or agrees to a
        proposal of one that names nothing else in its place."""
        return self.is_asked and not self.is_against_proposal(value)

    def is_against_proposal(self, value: Value) -> bool:
        """Whether the person agreed to a proposal that names another thing of a value's sort, and not this one."""
        return self.agreed is not None and self.agreed.names_rival(value, split_moments(self.values))

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

    def find_in_reads(
        self, model: ArgumentValue, value: Value, text: str, *, is_agreed: bool = False
    ) -> FoundValue | None:
        """Return where a value stands in what was read, None where no read has it, or where it could pass for another.

        A look takes it from any record of this request: it leads where its author wants, and tells them no more than
        that somebody went there. So it does by a link of a page the person named, within its host.
        """
        rivals = self.list_rivals(value)
        if is_disguised(value, text) or any(is_lookalike(value, rival) for rival in rivals):
            return None
        reads, told = self.task.reads, self.said.words
        wanted = self.want(model, value, is_agreed=is_agreed)
        echoes = is_agreed and not self.grave and model.role != "target"
        gives = wanted.is_given_by if self.changes else _is_anywhere
        is_written = partial(may_have_written, self.state.written, value, text)
        beside = frozenset(self.values)
        owns, said, place = self.owns, self.said.wholes, _PLACES.sub("", model.path)
        together = frozenset(one for path, one, _ in self.listed if _PLACES.sub("", path) == place)
        # Where the person said another such, the call's own codes do not outweigh it.
        codes = frozenset(one.normal for one in self.said_codes if one != value and not rivals)
        field = WantedField(told, said, beside, gives, echoes, is_written, not self.changes, owns, together, codes)
        read = reads.find(value, text, field)
        if self.changes and (read is None or not read.is_meant) and (is_agreed or self.carries_over(value)):
            before = self.said_before
            more = field._replace(told=told | before.words | before.asked, wholes=before.wholes)
            known, open_ = (self.every_read.find(value, text, one) for one in (more, field))
            if known is not None and open_ is not None and known.is_own:
                read = known._replace(is_open=open_.is_open)
        if read is None and not self.changes and value.kind == "url":
            read = reads.find_link(value, lambda page: self.said.find(page, page.normal) is not None)
        if read is None or self.every_read.has_lookalike(value):
            return None
        needs_words = bool(rivals) or self.grave or (self.changes and value.kind in _WHERE)
        if (needs_words and not read.words and not is_agreed) or (rivals and self.grave and self.changes):
            return read._replace(is_meant=False)
        return read

    @cached_property
    def said_codes(self) -> list[Value]:
        """The codes of things among the values of the call that the person has said in this conversation."""
        return [one for one in self.values if is_identifier(one) and self.said_before.find(one, one.normal)]

    def want(self, model: ArgumentValue, value: Value, *, is_agreed: bool = False) -> WantedValue:
        """Return a value as a record has to give it."""
        is_amount = model.role == "amount"
        return WantedValue(value, model.path, is_amount, is_agreed, self.said, self.is_unused, self.policy.mandate)

    @cached_property
    def every_read(self) -> Reads:
        """What this request read, and those before it."""
        return self.task.earlier.reads.join(self.task.reads)

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


def _is_anywhere(record: Record, name: str, is_own: bool) -> bool:
    return True


def _get_name(path: str) -> str:
    """Return the name of what a path leads to: `flight_number` in `flights[0].flight_number`."""
    return _PLACES.sub("", path).rpartition(".")[2]


def _build(model: ArgumentValue, source: Source, seq: int, words: str, left: int = 0) -> ArgumentValue:
    return replace(model, source=source, seq=seq, words=words[:200], left=left)


def _build_read(model: ArgumentValue, source: Source, read: FoundValue) -> ArgumentValue:
    where = f"field {read.field} of" if read.field else "in"
    words = sorted(read.words)[:_BESIDE] if read.is_meant else ()
    built = _build(model, source, read.seq, f"{where} what {read.tool} returned")
    return replace(built, record=(read.tool, read.field, *words), name=read.called if source == "outside" else "")
