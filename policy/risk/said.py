"""Which values the person's own words hold, and which effect they ask for; pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from foregate.policy.mandate_section import Mandate
from foregate.policy.policy import Policy
from foregate.policy.risk.moments import read_moments
from foregate.policy.risk.own_words import AskingForm, OwnWords, list_deeds, read_own_words, widen_contract
from foregate.policy.risk.places import ValuePosition, find_places, list_forms
from foregate.policy.risk.request import GONE, find_phrases, find_wishes, mask_phrases, read_message, remember
from foregate.policy.risk.sorts import (
    are_alike,
    has_form,
    is_identifier,
    is_same_kind,
    is_same_shape,
    read_bare_host,
)
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, has_mixed_scripts, read_forms, trim_text

LONGEST_SENTENCE = 160
"""Characters of a sentence that a mention shows."""
# "read" and "file" in "read_file".
_WORD = compile_late(r"[^\W_]+")
# "'s" in "Ann's".
_POSSESSIVE = compile_late(r"'s$", re.IGNORECASE)
# "read" and "File" in "readFile"; "HTTP" in "HTTP_get".
NAME_PARTS = compile_late(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_]?[a-z]+")
"""The words of a tool's name."""


class Mention(Struct, frozen=True):
    """`count` is how often the own words of all messages hold a value; the rest is about the newest that does.

    `alone` says that the message holds no other value of the kind; any words count as alone. `seq` is its event
    number, `sentence` where the value stands in it, at most 160 characters.
    """

    count: int
    alone: bool
    seq: int
    sentence: str


class SaidMessage(Struct, frozen=True):
    """A message of the person's, and where values stand in it."""

    seq: int
    words: OwnWords
    places: tuple[ValuePosition, ...]

    def find(self, value: Value, of: frozenset[int]) -> list[int]:
        """Return where a value begins among these pieces, in order."""
        places = (place for place in self.places if has_form(place.forms, value))
        found = {place.start for place in places if of.issuperset(range(place.start, place.end))}
        if value.kind == "words":
            found.update(self.find_run(value.normal, of))
        return sorted(found)

    def find_run(self, wanted: str, of: frozenset[int]) -> Iterator[int]:
        """Yield where a run of whole words in one sentence and one line says a text."""
        pieces, size = self.words.pieces, len(wanted.split())
        end = 0
        for start in sorted(of):
            run = range(start, start + size)
            if start < end or not of.issuperset(run) or pieces[start].sentence != pieces[run[-1]].sentence:
                continue
            if any(pieces[at].kind != "word" for at in run):
                continue
            text = trim_text(" ".join(pieces[at].text for at in run)).casefold()
            if wanted in (text, _POSSESSIVE.sub("", text), text.lstrip("#@")):
                yield start
                end = start + size

    def list_named(self) -> Iterator[tuple[int, frozenset[Value]]]:
        """Yield the place and the readings of each own value that is no plain word, in order."""
        known = {place.start: place for place in self.places}
        inner = {at for place in self.places for at in range(place.start + (not place.is_one), place.end)}
        for at in sorted(self.words.own - inner):
            piece = self.words.pieces[at]
            forms = known[at].forms if at in known else frozenset(read_forms(piece.text))
            if piece.kind == "word" and any(form.kind != "words" or is_identifier(form) for form in forms):
                yield at, forms

    def list_wholes(self) -> Iterator[Value]:
        """Yield each way to read what stands in quotation marks, or is a word that names a thing or a number."""
        for at in self.words.own:
            piece = self.words.pieces[at]
            for form in read_forms(piece.text):
                if piece.kind == "quotation" or form.kind != "words" or is_identifier(form):
                    yield form

    def list_asked(self, value: Value) -> Iterator[frozenset[Value]]:
        """Yield the readings of each value of a kind, also in questions; nothing of that is forbidden."""
        for place in self.places:
            run = range(place.start, place.end)
            if self.words.forbidden.isdisjoint(run) and any(is_same_kind(value, form) for form in place.forms):
                yield place.forms

    def find_rivals(self, value: Value) -> Iterator[Value]:
        """Yield the own values that could stand where this one stands, as another address or account could."""
        for _, forms in self.list_named():
            if value not in forms:
                yield from (form for form in forms if is_same_shape(value, form))

    def list_groups(self) -> Iterator[list[frozenset[Value]]]:
        """Yield neighbouring own values; a group ends with its sentence, and where a value of a kind comes again."""
        group: list[frozenset[Value]] = []
        before = 0
        for at, forms in self.list_named():
            sentence = self.words.pieces[at].sentence
            again = any(are_alike(one, form) for known in group for one in known for form in forms)
            if group and (again or sentence != before):
                yield group
                group = []
            group.append(forms)
            before = sentence
        yield group

    def is_alone(self, value: Value) -> bool:
        """Whether no other value of the kind is among the own words.

        Dates and times are kinds of their own, numbers and codes of things too; plain words are none.
        """
        return not any(self.list_others(value))

    def list_others(self, value: Value) -> Iterator[frozenset[Value]]:
        """Yield the readings of each own value of the kind that is another one.

        A number in figures has no other in words: `one of them for 3 nights`.
        """
        if value.kind == "words":
            if is_identifier(value):
                yield from (frozenset([rival]) for rival in self.find_rivals(value))
            return
        own = [place for place in self.places if self.words.own.issuperset(range(place.start, place.end))]
        in_figures = any(has_form(place.forms, value) and not place.is_worded for place in own)
        for place in own:
            other = not has_form(place.forms, value) and any(is_same_kind(value, form) for form in place.forms)
            if other and not place.is_one and not (in_figures and place.is_worded):
                yield place.forms


class SaidValues(Struct, frozen=True):
    """The values that the person's own words of a task hold."""

    messages: tuple[SaidMessage, ...]
    section: Mandate
    words: frozenset[str] = frozenset()
    """The folded own words that may tell one record from another: no fillers, and none that asks for an effect."""
    asked: frozenset[str] = frozenset()
    """Such words of questions."""
    wholes: frozenset[Value] = frozenset()
    """The own values that stand as one: in quotation marks, or as a word that is a name, a code or a number."""

    def find(self, value: Value, text: str) -> Mention | None:
        """Return how the own words hold a value, None where they do not; `text` is the value as the call gives it.

        What a newer message forbids is not held by an older one.
        """
        if has_mixed_scripts(text) or has_mixed_scripts(value.normal):
            return None
        found = [mention for wanted in self.list_ways(value, text) if (mention := self.find_all(wanted))]
        return max(found, key=lambda mention: (mention.count, mention.alone, mention.seq), default=None)

    @property
    def pasted(self) -> bool:
        """Whether a message holds text of others as well."""
        return any(message.words.pasted for message in self.messages)

    def quotes(self, value: Value) -> int:
        """Return the event of the first message that holds a value within a quotation, 0 for none."""
        for message in self.messages:
            for piece in message.words.pieces:
                if piece.kind == "quotation" and any(
                    value in list_forms(word, self.section) for word in piece.text.split()
                ):
                    return message.seq
        return 0

    def names(self, value: Value) -> bool:
        """Whether a message names a value, be it in a question, and none forbids it."""
        allowed = ((message, frozenset(range(len(message.words.pieces)))) for message in self.messages)
        named = any(message.find(value, every - message.words.forbidden) for message, every in allowed)
        return named and not any(message.find(value, message.words.forbidden) for message in self.messages)

    def list_rivals(self, value: Value) -> Iterator[Value]:
        """Yield the own words' other values that could stand where this one stands: another address, account or name of
        a thing. Plain words, and numbers that are no names, have none."""
        for message in self.messages:
            yield from message.find_rivals(value)

    def list_named(self) -> Iterator[frozenset[Value]]:
        """Yield the readings of each own value that is no plain word."""
        for message in self.messages:
            yield from (forms for _, forms in message.list_named())

    def list_others(self, value: Value) -> Iterator[frozenset[Value]]:
        """Yield the readings of each of the own words' other values of the kind."""
        for message in self.messages:
            yield from message.list_others(value)

    def are_together(self, values: Collection[Value]) -> bool:
        """Whether two values and more stand beside each other in a message, with no other of their kinds between."""
        wanted = [value for value in values if value.kind != "words" or is_identifier(value)]
        return len(wanted) > 1 and any(
            all(any(has_form(forms, value) for forms in group) for value in wanted)
            for message in self.messages
            for group in message.list_groups()
        )

    def list_ways(self, value: Value, text: str) -> Iterator[tuple[Value, ...]]:
        """Yield the values that say this one: one that stands for it, or its date and its time."""
        if value.kind == "words" and (moments := read_moments(text, self.section)):
            value = moments[0]
        if value.kind == "moment":
            yield (value,)
            if " " in value.normal:
                yield tuple(Value("moment", part) for part in value.normal.split())
            return
        yield (value,)
        if value.kind == "url" and (host := read_bare_host(value.normal)):
            yield (host,)
        elif value.kind == "path" and "/" not in value.normal:
            yield (Value("words", value.normal.casefold()),)
        elif value.kind == "words" and " " not in value.normal:
            yield (Value("path", trim_text(text)),)

    def find_all(self, values: tuple[Value, ...]) -> Mention | None:
        """Return the mention of values that stand in one message together."""
        count, newest = 0, None
        for message in sorted(self.messages, key=lambda message: message.seq, reverse=True):
            if message.words.is_cut:
                # It may forbid what was said before.
                break
            found = [message.find(value, message.words.own) for value in values]
            if all(found):
                count += min(map(len, found))
                newest = newest or (message, found[0][0])
            elif any(message.find(value, message.words.forbidden) for value in values):
                break
        if newest is None:
            return None
        message, start = newest
        alone = all(message.is_alone(value) for value in values)
        return Mention(count, alone, message.seq, shorten_sentence(message.words, start))


@remember
def read_said(messages: tuple[Said, ...], policy: Policy) -> SaidValues:
    """Return the values of the person's own words in a task's messages."""
    read = ((said.seq, read_own_words(said.text, policy)) for said in messages if said.actor == "user")
    found = (SaidMessage(seq, words, tuple(find_places(words, policy.mandate))) for seq, words in read)
    kept = tuple(found)
    own, asked = (frozenset(_list_telling_words(kept, policy, asked=asked)) for asked in (False, True))
    wholes = frozenset(form for message in kept for form in message.list_wholes())
    return SaidValues(kept, policy.mandate, own, asked, wholes)


def _list_telling_words(messages: Iterable[SaidMessage], policy: Policy, *, asked: bool) -> Iterator[str]:
    common = {*policy.scores.filler_words, *policy.scores.vague_words, *policy.mandate.general_words}
    common.update(list_deeds(policy))
    for message in messages:
        for place in message.words.asked if asked else message.words.own:
            for word in _WORD.findall(unicodedata.normalize("NFKC", message.words.pieces[place].text).casefold()):
                if word not in common and (len(word) > 2 or word.isdecimal()):
                    yield word


def shorten_sentence(words: OwnWords, start: int) -> str:
    """Return the sentence of a piece, cut around it where it is too long."""
    piece = words.pieces[start]
    sentence = words.sentences[piece.sentence]
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    place = max(sentence.find(" ".join(piece.text.split())), 0)
    begin = max(min(place - LONGEST_SENTENCE // 4, len(sentence) - LONGEST_SENTENCE + 1), 0)
    cut = sentence[begin : begin + LONGEST_SENTENCE - 2].strip()
    return ("\u2026" if begin else "") + cut + ("\u2026" if begin + len(cut) < len(sentence) else "")


def asks_for(effect: Effect, tool: str, messages: tuple[Said, ...], policy: Policy) -> bool:
    """Whether the person's own words ask for an effect, by a word for it or by one of the tool's own name.

    The newest message that wishes for it or forbids it decides; one that wants only words forbids everything. Words of
    the model among them are a proposal the person agreed to: what it would do counts as wished for.
    """
    return is_asked((effect, tool, messages), policy)


@remember
def is_asked(asked: tuple[Effect, str, tuple[Said, ...]], policy: Policy) -> bool:
    effect, tool, messages = asked
    phrases = list_asking_phrases(effect, tool, policy)
    for said in sorted(messages, key=lambda said: said.seq, reverse=True):
        if said.actor not in ("user", "model"):
            continue
        own = read_own_words(said.text, policy)
        if own.is_cut:
            return False
        if has_wish(own, phrases, policy, proposing=said.actor != "user"):
            return True
        forbidden = any(start in own.negated for start, _, _ in find_phrases(own.words, phrases))
        contract = read_message(said.text, policy)
        if forbidden or (contract is not None and contract.text_only == "yes"):
            return False
    return False


def find_doubt(effect: Effect, tool: str, messages: Sequence[Said], policy: Policy) -> str:
    """Return why messages are no plain requests for an effect or a tool, or behind the first one answers, "" where
    they are. Words of the model among them are a proposal to which the first message plainly agrees.
    """
    return _find_doubt((effect, tool, tuple(messages)), policy)


@remember
def _find_doubt(asked: tuple[Effect, str, tuple[Said, ...]], policy: Policy) -> str:
    effect, tool, messages = asked
    phrases = list_asking_phrases(effect, tool, policy)
    read = [read_own_words(said.text, policy).form for said in messages if said.actor == "user"]
    forms = [AskingForm(form, phrases, policy) for form in read if form is not None]
    if len(forms) < len(read):
        return ""
    proposed = any(said.actor == "model" for said in messages)
    first = [] if proposed else [form for form in forms[:1] if not form.is_direct]
    doubtful = [*first, *(form for form in forms[1:] if not (form.is_direct or form.is_brief))]
    if doubtful:
        return doubtful[0].reason
    return "" if proposed or any(form.asking for form in forms) else "unclear: no words that ask for it"


def is_wished(text: str, phrases: tuple[str, ...], policy: Policy) -> bool:
    """Whether a text of the person's wishes for one of these phrases."""
    return has_wish(read_own_words(text, policy), phrases, policy)


def has_wish(own: OwnWords, phrases: tuple[str, ...], policy: Policy, *, proposing: bool = False) -> bool:
    """Whether own words wish for one of these phrases; `proposing` are those of a proposal, where a question
    is one, and where nothing else wishes for anything a name: `the upgrade costs 60, do you confirm?`."""
    section = widen_contract(None, policy)
    section = section.model_copy(update={"about": ()}) if proposing else section
    wished = [GONE if at in own.negated else word for at, word in enumerate(own.words)]
    # "shall I" stands before a deed, and makes no name of it.
    wished = mask_phrases(wished, policy.mandate.proposals) if proposing else wished
    if own.form is not None:
        # "tu" in "peux-tu" makes no name of the deed behind it.
        wished = mask_phrases(wished, (*policy.mandate.polite, *policy.mandate.direct.begging), "")
    if proposing and not any(find_wishes(wished, list_deeds(policy), section)):
        section = section.model_copy(update={"determiners": ()})
    return any(find_wishes(wished, phrases, section))


def list_asking_phrases(effect: Effect, tool: str, policy: Policy) -> tuple[str, ...]:
    """Return the phrases that ask for an effect or for a tool by its name.

    Where a word of the name is one for the effect, words for other effects in it do not count: `delete_email` is not
    asked for by `email Bob`, but `book_flight`, which edits, is by `book`.
    """
    section = policy.mandate
    if effect is Effect.UNKNOWN:
        own = tuple(phrase for of, listed in section.effects.items() if of.changes for phrase in listed)
    else:
        own = section.effects.get(effect, ())
    name = [part.group().casefold() for part in NAME_PARTS.finditer(tool)]
    looks = section.effects.get(Effect.OBSERVATION, ())
    besides = {*section.general_words, *looks, *policy.contract.observation}
    if not set(name).isdisjoint(own):
        besides.update(list_deeds(policy))
    return (*own, *(word for word in name if len(word) > 2 and word not in besides))
