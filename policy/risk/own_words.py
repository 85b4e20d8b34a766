"""The person's own words in a message: what is quoted, pasted or asked about is left out, what is forbidden is told.

A message asks for something in so many words where it is a plain request from end to end, so that nothing in it can be
another's words.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec import Struct

from foregate.policy.mandate_section import MandatePhrases
from foregate.policy.policy import Contract, Policy
from foregate.policy.risk.clauses import Clause, MessageForm, is_question, load_reader
from foregate.policy.risk.pieces import MessageToken, cut_pasted, has_telling, split_pieces
from foregate.policy.risk.request import (
    GONE,
    STOP,
    find_negated_places,
    find_phrases,
    mask_phrases,
    match_phrase,
    read_words,
    remember,
)

LONGEST = 16 * 1024
"""Characters of a message, without what is quoted or pasted, that are read."""
_QUOTATION = "\u25cc"
_SHOWN = 80
"""Characters of the words that say why a message is more than a request."""
_LONG_QUOTATION = 12
"""Words of a quotation that can still be the name of something."""


class OwnWords(Struct, frozen=True):
    """`pieces` of a message; `own` are the places of those that count, `forbidden` of those a negation reaches.

    `words` are the words of what is no question as phrases are found in them, `negated` the places of those that a
    negation reaches.
    """

    pieces: tuple[MessageToken, ...]
    sentences: tuple[str, ...]
    own: frozenset[int]
    forbidden: frozenset[int]
    words: tuple[str, ...]
    negated: frozenset[int]
    pasted: bool = False
    """Whether text of others stands in the message: quoted lines, fenced code, a mail, a long quotation."""
    asked: frozenset[int] = frozenset()
    """The places of what stands in questions."""
    is_cut: bool = False
    """Whether the message is too long to be read, so that nothing in it counts, and nothing said before it does."""
    form: MessageForm | None = None
    """What each clause does, None where the policy has no lists by which it is known: every message counts as plain."""


@remember
def read_own_words(text: str, policy: Policy) -> OwnWords:
    """Return the person's own words of one message."""
    section = policy.mandate
    text = unicodedata.normalize("NFKC", text)
    kept = cut_pasted(text, section)
    is_cut = len(kept) > LONGEST
    kept = "" if is_cut else kept
    pieces, sentences = split_pieces(kept, section)
    last = {piece.sentence: piece for piece in pieces if piece.kind != "line"}
    asked = {number for number, piece in last.items() if is_question(piece, sentences[number], policy)}
    clauses = _Clauses(pieces, asked, policy)
    negated = clauses.find_negated(policy)
    counted = {at for at, piece in enumerate(pieces) if piece.sentence not in asked and piece.kind != "line"}
    forbidden = {clauses.places[at] for at in negated} & counted
    return OwnWords(
        tuple(pieces),
        tuple(sentences),
        frozenset(counted - forbidden),
        frozenset(forbidden),
        tuple(clauses.words),
        frozenset(negated),
        pasted=len(kept.split()) < len(text.split())
        or any(piece.kind == "quotation" and len(piece.text.split()) > _LONG_QUOTATION for piece in pieces),
        asked=frozenset(at for at, piece in enumerate(pieces) if piece.sentence in asked and piece.kind != "line"),
        is_cut=is_cut,
        form=load_reader(None, policy).read(pieces, kept, text, LONGEST) if section.direct.verbs else None,
    )


@remember
def widen_contract(_: None, policy: Policy) -> Contract:
    """Return the lists of `contract` with the further phrases of the mandate."""
    more = policy.mandate.phrases
    names = MandatePhrases.model_fields
    return policy.contract.model_copy(
        update={name: (*getattr(policy.contract, name), *getattr(more, name)) for name in names}
    )


class _Clauses:
    """The words of what is no question, the place of each one's piece, and the places where clauses end."""

    def __init__(self, pieces: Sequence[MessageToken], asked: set[int], policy: Policy) -> None:
        reader = load_reader(None, policy)
        self.words: list[str] = []
        self.places: list[int] = []
        self.soft: set[int] = set()
        sentence, colon, bullet = 0, False, False
        for at, piece in enumerate(pieces):
            after, bullet = bullet, piece.kind == "line" and piece.text.strip() != ""
            if piece.sentence != sentence:
                self.add_stop(at, soft=colon or bullet or after)
                sentence = piece.sentence
            if piece.sentence in asked:
                continue
            if piece.kind == "line":
                self.add_stop(at, soft=True)
                continue
            colon = piece.kind == "word" and piece.text.endswith(":")
            for word in read_words(piece.text) if piece.kind == "word" else (_QUOTATION,):
                if word == STOP:
                    self.add_stop(at, soft=True)
                    continue
                for spelled in reader.spell(word):
                    self.words.append(spelled)
                    self.places.append(at)

    def add_stop(self, at: int, *, soft: bool) -> None:
        if soft:
            self.soft.add(len(self.words))
        self.words.append(STOP)
        self.places.append(at)

    def find_negated(self, policy: Policy) -> set[int]:
        """Return the places of words that a negation reaches, and take phrases out that only look like one.

        It reaches beyond a comma, a colon or a new line into what names no deed of its own (`never pay A, B or C`),
        and back where no deed stands before it (`B must not get it`) or nothing behind it (`zahle B nicht`).
        """
        section = widen_contract(None, policy)
        self.words = words = mask_phrases(self.words, section.exceptions)
        deeds = sorted(start for start, _, _ in find_phrases(words, list_deeds(policy)))
        stops = [at for at, word in enumerate(words) if word == STOP]
        for at, following in zip(stops, [*stops[1:], len(words)], strict=False):
            if at in self.soft and bisect_right(deeds, at) == bisect_left(deeds, following):
                words[at] = GONE
        negated = find_negated_places(words, section)
        closed = set(stops)
        ends = sorted(closed.union(start for start, _, _ in find_phrases(words, section.pivots)))
        for start, end, _ in find_phrases(words, section.negations):
            before = bisect_left(ends, start)
            begin = ends[before - 1] + 1 if before else 0
            if end == len(words) or end in closed or bisect_left(deeds, begin) == bisect_left(deeds, start):
                negated.update(range(begin, start))
        return {at for at in negated if words[at] not in (STOP, GONE)}


def list_deeds(policy: Policy) -> tuple[str, ...]:
    """Return every phrase that asks for an effect, once."""
    return load_reader(None, policy).deeds


def is_framed(text: str, policy: Policy) -> bool:
    """Whether a message, which may be an answer, asks about, shows or reports something, or makes it wait."""
    form = read_own_words(text, policy).form
    if form is None:
        return False
    phrases = tuple(one for effect, listed in policy.mandate.effects.items() if effect.changes for one in listed)
    asking = AskingForm(form, phrases, policy)
    return not (asking.is_brief or asking.only_tells or asking.is_direct)


class AskingForm:
    """How a message is made as one that asks by some phrases; those that name a tool are verbs of it as well.

    `asking` are the numbers of the clauses that ask by one. A message `is_direct` where all of it can be the person's
    request: a text behind a colon asks for nothing and names nobody, and behind an aside, or behind a question to
    somebody else, only what is tied to it asks for anything. It `is_brief` where it is one line, as an answer is, and
    shows, reports, doubts or awaits nothing, and `only_tells` where it begins by telling something and asks for
    nothing to be done.
    """

    def __init__(self, form: MessageForm, phrases: tuple[str, ...], policy: Policy) -> None:
        self.form, self.phrases, self.direct, clauses = form, phrases, policy.mandate.direct, form.clauses
        self.reader = load_reader(None, policy)
        self.names = tuple({*phrases}.difference(self.reader.deeds))
        self.kinds = ["asked" if self.names_deed(one) else one.mark for one in clauses]
        self.places = [self.list_places(one, kind) for one, kind in zip(clauses, self.kinds, strict=True)]
        self.asking = [number for number, places in enumerate(self.places) if places]
        self.is_plain = not form.doubt and not any(map(self.delegates, [*(one.words for one in clauses), form.content]))
        kinds, head = {*self.kinds}, form.head
        # `It is clear.` and `Can you help?` need a clause before them.
        late = not clauses or (clauses[0].aside if clauses[0].mark == "polite" else self.goes_on(clauses[0]))
        self.is_brief = self.is_plain and form.is_one_line and head is None and not any(one.aside for one in clauses)
        self.only_tells = self.is_plain and not late and head is None and "told" in kinds
        self.only_tells &= kinds <= {"told", "polite", "question"} and self.kinds[:1] != ["question"]
        self.is_direct = self.is_plain and not late and kinds.isdisjoint(("question", "unclear"))
        asides = (at for at, one in enumerate(clauses) if one.aside and self.kinds[at] in ("asked", "wished"))
        if any(number != aside for aside in asides for number in self.asking):
            self.is_direct &= all(one.joined or one.mark == "polite" for one in clauses[1:])
        if head is not None:
            names = has_telling(form.content) or any(find_phrases(form.content, phrases))
            self.is_direct &= head in self.asking and not names
        self.is_direct &= not any(self.asks_another(number) for number in range(len(clauses)))

    @property
    def reason(self) -> str:
        """Why the message is more than a request, as a mark and the words: "reported: `Ann says send it`"."""
        unread = next((at for at, kind in enumerate(self.kinds) if kind in ("question", "unclear")), None)
        mark = self.form.doubt or ("unclear" if unread is None else self.kinds[unread])
        words = self.form.why or "".join(one.text for one in self.form.clauses[unread or 0 :][:1])
        return f"{mark if self.is_plain or self.form.doubt else 'reported'}: `{words[:_SHOWN]}`"

    def names_deed(self, clause: Clause) -> bool:
        """Whether a clause begins with a word of the tool's name as with a verb."""
        size = match_phrase(clause.words, clause.start, self.names) if clause.mark == "unclear" else 0
        return size > 0 and self.reader.is_deed(clause.words, clause.start, size, is_ended=clause.is_ended)

    def goes_on(self, clause: Clause) -> bool:
        return clause.mark == "told" and clause.words[clause.start] in self.direct.further

    def list_places(self, clause: Clause, kind: str) -> list[int]:
        """Return where a clause asks by one of the phrases."""
        found = (at for at, _, _ in find_phrases(clause.words, self.phrases) if kind in ("asked", "wished"))
        named = () if clause.works else self.names
        places = clause.places if clause.mark != "unclear" else {clause.start}
        return [at for at in found if at in places or (at >= clause.start and clause.words[at] in named)]

    def delegates(self, words: Sequence[str]) -> bool:
        """Whether somebody is to be asked for what the phrases ask for, and not for the person: `tell Ben to mail`."""
        words = mask_phrases(words, self.reader.opening, "")
        told, is_told = {start for start, _, _ in find_phrases(words, self.reader.speech["delegating"])}, False
        for at, word in enumerate(words):
            size = (
                match_phrase(words, at, self.phrases)
                if is_told and words[at - 1] in self.reader.speech["infinitives"]
                else 0
            )
            if size and {*words[at + size : at + size + 1]}.isdisjoint(self.reader.speech["backward"]):
                return True
            is_told = (is_told or at in told) and word != STOP
        return False

    def asks_another(self, number: int) -> bool:
        """Whether somebody is to be asked in a clause before something is asked for: `Ask Ann, then mail Ben`."""
        words, asked = self.form.clauses[number].words, self.reader.speech["inquiring"]
        first = min((at for at in self.form.clauses[number].places if words[at] in asked), default=len(words))
        later = any(at > first and words[at] not in asked for at in self.places[number])
        return first < len(words) and (later or any(other > number for other in self.asking))
