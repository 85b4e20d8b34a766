"""Which values the person's own words hold, and which effect they ask for; pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple
from urllib.parse import urlsplit

from foregate.policy.mandate_section import Mandate
from foregate.policy.policy import Policy
from foregate.policy.risk.moments import find_month, has_digit, read_moments
from foregate.policy.risk.own_words import OwnWords, list_deeds, read_own_words, widen_contract
from foregate.policy.risk.request import GONE, find_phrases, find_wishes, read_message, remember
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, has_mixed_scripts, read_forms, trim_text

LONGEST_SENTENCE = 160
"""Characters of a sentence that a mention shows."""
_ACCOUNT = 6
"""Digits from which a number is the name of something."""
_WIDEST = 9
"""Words of the longest date with a time: `15 de mayo de 2024 a las 3:30 pm`."""
_WORD = re.compile(r"[^\W_]+")
_MONTH_WITHIN = 4
"""Words of a date among which its month stands: `15 of the May`."""
_WIDEST_NUMBER = 4
"""Words of the longest number, or of a time: `1 200 300 EUR`."""
_POSSESSIVE = re.compile(r"'s$", re.IGNORECASE)
NAME_PARTS = re.compile(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_]?[a-z]+")
"""The words of a tool's name."""


@dataclass(frozen=True, slots=True)
class Mention:
    """`count` is how often the own words of all messages hold a value; the rest is about the newest that does.

    `alone` says that the message holds no other value of the kind; any words count as alone. `seq` is its event
    number, `sentence` where the value stands in it, at most 160 characters.
    """

    count: int
    alone: bool
    seq: int
    sentence: str


class _Place(NamedTuple):
    """Where values stand in a message: the pieces, and each way to read them; a date and its time stand apart."""

    start: int
    end: int
    forms: frozenset[Value]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the person's, and where values stand in it."""

    seq: int
    words: OwnWords
    places: tuple[_Place, ...]

    def find(self, value: Value, of: frozenset[int]) -> list[int]:
        """Return where a value begins among these pieces, in order."""
        places = (place for place in self.places if value in place.forms)
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
        inner = {at for place in self.places for at in range(place.start + 1, place.end)}
        for at in sorted(self.words.own - inner):
            piece = self.words.pieces[at]
            forms = known[at].forms if at in known else frozenset(read_forms(piece.text))
            if piece.kind == "word" and any(form.kind != "words" or is_identifier(form) for form in forms):
                yield at, forms

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
        if value.kind == "words":
            return not is_identifier(value) or not any(self.find_rivals(value))
        own = (place.forms for place in self.places if self.words.own.issuperset(range(place.start, place.end)))
        others = (forms for forms in own if value not in forms)
        return not any(is_same_kind(value, form) for forms in others for form in forms)


@dataclass(frozen=True, slots=True)
class SaidValues:
    """The values that the person's own words of a task hold."""

    messages: tuple[Message, ...]
    section: Mandate
    words: frozenset[str] = frozenset()
    """The folded own words that may tell one record from another: no fillers, and none that asks for an effect."""

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

    def are_together(self, values: Collection[Value]) -> bool:
        """Whether two values and more stand beside each other in a message, with no other of their kinds between."""
        wanted = [value for value in values if value.kind != "words" or is_identifier(value)]
        return len(wanted) > 1 and any(
            all(any(value in forms for forms in group) for value in wanted)
            for message in self.messages
            for group in message.list_groups()
        )

    def list_ways(self, value: Value, text: str) -> Iterator[tuple[Value, ...]]:
        """Yield the values that say this one: one that stands for it, or its date and its time."""
        if value.kind == "words" and (moments := read_moments(text, self.section)):
            value = moments[0]
        if value.kind == "moment":
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
                break  # it may forbid what was said before
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
    own = [said for said in messages if said.actor == "user"]
    read = ((said.seq, read_own_words(said.text, policy)) for said in own)
    found = (Message(seq, words, tuple(find_places(words, policy.mandate))) for seq, words in read)
    kept = tuple(found)
    return SaidValues(kept, policy.mandate, frozenset(_list_telling_words(kept, policy)))


def _list_telling_words(messages: Iterable[Message], policy: Policy) -> Iterator[str]:
    common = {*policy.scores.filler_words, *policy.scores.vague_words, *policy.mandate.general_words}
    common.update(list_deeds(policy))
    for message in messages:
        for place in message.words.own:
            for word in _WORD.findall(unicodedata.normalize("NFKC", message.words.pieces[place].text).casefold()):
                if word not in common and (len(word) > 2 or word.isdecimal()):
                    yield word


def find_places(words: OwnWords, section: Mandate) -> Iterator[_Place]:
    """Yield where values stand; the longest date, time or number first, so that none of its parts counts."""
    pieces, at = words.pieces, 0
    while at < len(pieces):
        size, forms = 1, frozenset[Value]()
        if pieces[at].kind == "word":
            size, forms = read_longest(words, at, section)
        elif pieces[at].kind == "quotation":
            forms = frozenset(list_forms(pieces[at].text, section))
        if forms:
            yield _Place(at, at + size, forms)
        at += size


def read_longest(words: OwnWords, at: int, section: Mandate) -> tuple[int, frozenset[Value]]:
    """Return how many words from here are one value, and each way to read them."""
    first = words.pieces[at]
    same = takewhile(lambda piece: piece[1:] == first[1:], words.pieces[at : at + _WIDEST])
    run = [piece.text for piece in same]
    has_month = any(find_month(trim_text(text), section) for text in run[:_MONTH_WITHIN])
    if not has_month:
        run = run[: _WIDEST_NUMBER if has_digit(first.text) else 1]
    for size in range(len(run), 1, -1):
        text = " ".join(run[:size])
        if (moments := read_moments(text, section)) is not None:
            return size, split_moments(moments)
        if numbers := {value for value in read_forms(text) if value.kind == "number"}:
            return size, frozenset(numbers)
    forms = list_forms(first.text, section)
    return 1, frozenset(value for value in forms if value.kind != "words")


def list_forms(text: str, section: Mandate) -> list[Value]:
    """Return each way to read one word or quotation; `9am-5pm` and `a@x.example,b@x.example` hold two values each."""
    text = _POSSESSIVE.sub("", text.strip())
    moments = read_moments(text, section)
    if moments is not None:
        return list(split_moments(moments))
    for split, kind in ((re.split("[-\u2013\u2014]", text), "moment"), (re.split("[,;]", text), "address")):
        parts = [next(iter(read_forms(part)), None) for part in split]
        if len(parts) > 1 and all(part and part.kind == kind for part in parts):
            return [part for part in parts if part]
    forms = list(read_forms(text.removeprefix("#") if text[1:].isdecimal() else text))
    return [*forms, *(host for form in forms if form.kind == "url" and (host := read_bare_host(form.normal)))]


def split_moments(moments: Iterable[Value]) -> frozenset[Value]:
    """Return dates and times apart from each other."""
    return frozenset(Value("moment", part) for moment in moments for part in moment.normal.split())


def is_same_kind(one: Value, other: Value) -> bool:
    return one.kind == other.kind and (one.kind != "moment" or (":" in one.normal) == (":" in other.normal))


def are_alike(one: Value, other: Value) -> bool:
    return is_same_shape(one, other) or (one.kind != "words" and is_same_kind(one, other))


def is_same_shape(one: Value, other: Value) -> bool:
    """Whether two values name things of one sort, as two mail addresses or two account numbers do."""
    if one.kind in ("address", "url", "host"):
        return one.kind == other.kind
    if one.kind not in ("words", "number") or not (is_identifier(one) and is_identifier(other)):
        return False
    return max(len(one.normal), len(other.normal)) <= 2 * min(len(one.normal), len(other.normal))


def is_identifier(value: Value) -> bool:
    """Whether a value is the number or the code of a thing, such as `R-71` or an account."""
    digits = sum(letter.isdecimal() for letter in value.normal)
    if value.kind == "number":
        return value.normal.isdecimal() and digits >= _ACCOUNT
    return value.kind == "words" and 0 < digits < len(value.normal) and " " not in value.normal


def read_bare_host(url: str) -> Value | None:
    """Return the host of a web address that names nothing else, None for any other."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or any((parts.path.strip("/"), parts.query, parts.fragment)):
        return None
    return next((form for form in read_forms(parts.netloc) if form.kind == "host"), None)


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


def is_wished(text: str, phrases: tuple[str, ...], policy: Policy) -> bool:
    """Whether a text of the person's wishes for one of these phrases."""
    return has_wish(read_own_words(text, policy), phrases, policy)


def has_wish(own: OwnWords, phrases: tuple[str, ...], policy: Policy, *, proposing: bool = False) -> bool:
    """Whether own words wish for one of these phrases; `proposing` are those of a proposal, of which a question is."""
    section = widen_contract(None, policy)
    section = section.model_copy(update={"about": ()}) if proposing else section
    wished = [GONE if at in own.negated else word for at, word in enumerate(own.words)]
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
