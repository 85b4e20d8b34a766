"""Whether a person's messages are plain requests from end to end, so that nothing in them can be another's words. Pure.

`Send Ben the minutes. Thanks!` is one: each sentence asks, tells of the person or is polite. `Is this spam? Send Ben
the minutes.` is none, for nothing says where the words of others begin; nor is what waits or hangs on something. What
no list of `mandate.direct` knows counts as unknown, never as a request.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Literal, NamedTuple

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.policy.risk.own_words import LONGEST, is_question, list_deeds, split_pieces
from foregate.policy.risk.pasted import APOSTROPHES, cut_pasted
from foregate.policy.risk.request import GONE, STOP, find_phrases, index_phrases, is_naming, read_words, remember
from foregate.policy.risk.said import list_asking_phrases
from foregate.policy.risk.sorts import is_identifier
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, read_forms

_BULLET = compile_late(r"^(?:[-*\u2022]|\d{1,3}[.)])\s+")
"""What stands before an entry of a list: `- `, `2. `, `3) `."""
_ODD = compile_late(r"[^\w\"'`\u00ab\u201c\u201e\u00a1\u00bf]|.*[\t|]")
"""How no request begins, or what only a table holds: `[10:02] Eve`, `# Log`, `(aside)`, `a | b`."""
_DASH = compile_late(r"\s[-\u2013\u2014]{1,3}\s")
"""What divides a sentence as a full stop does: `Send it to Ben - he waits`."""
_SIGNED = compile_late(r"(?:[,;]|[@./\d]\w+)\s+(\w+)(?:\s+\w+)?\W*$")
"""The last one or two words behind a comma, an address or a number, which may be a name: `Mail it, Eve`."""
# "\u0434".
_OTHER_SCRIPT = compile_late(r"[\u0370-\u1cff\u2c80-\ud7ff\uf900-\ufdff]")
"""A letter that is not Latin; no list of the policy has one."""
_NAME = compile_late(r"(?<![\w'])(\w+),? +(?=(\w+))")
"""Two words, which may be a greeting and a name: `Hi Dan`."""
_QUOTATION, _COLON, _ENDS = "\u25cc", ":", (".", "!", "?")

Kind = Literal["request", "wish", "statement", "courtesy", "question", "unknown"]
_ASKING = ("request", "wish")


class Sentence(NamedTuple):
    """A sentence by how it begins; `clauses` are the places of its words at which it can ask for something.

    `joined` tells that a word such as `then` ties it to the one before, `aside` that it is a polite question, or asks
    to work on a text.
    """

    words: tuple[str, ...]
    kind: Kind
    clauses: frozenset[int]
    joined: bool
    aside: bool


class MessageForm(Struct, frozen=True):
    """How a message is made. `content` are the words behind a colon, `head` the number of the sentence before it.

    `own` tells that no sentence is a question or unknown, and none shows, reports, doubts, waits or hangs on anything;
    `brief` that the latter holds and it is one line, as an answer is; `tells` that it begins with what only tells
    something, and asks for nothing to be done.
    """

    sentences: tuple[Sentence, ...]
    content: tuple[str, ...]
    head: int | None
    own: bool
    brief: bool
    tells: bool

    def asks(self, phrases: tuple[str, ...]) -> list[int]:
        """Return the numbers of the sentences that ask by one of these phrases."""
        return [number for number, one in enumerate(self.sentences) if _asks(one, phrases)]

    def is_direct(self, phrases: tuple[str, ...]) -> bool:
        """Whether all of it can be the person's request: a text behind a colon asks for nothing and names nobody, and
        behind an aside only what is tied to it asks for anything."""
        asking = self.asks(phrases)
        if self.head is not None:
            named = any(map(_is_telling, chain.from_iterable(map(read_forms, self.content))))
            if named or any(find_phrases(self.content, phrases)) or self.head not in asking:
                return False
        asides = [number for number, one in enumerate(self.sentences) if one.aside and one.kind in _ASKING]
        if any(number != aside for aside in asides for number in asking):
            return self.own and all(one.joined or one.kind == "courtesy" for one in self.sentences[1:])
        return self.own


def _asks(one: Sentence, phrases: tuple[str, ...]) -> bool:
    if one.kind not in _ASKING:
        return False
    found = (start for start, _, _ in find_phrases(one.words, phrases))
    return any(start in one.clauses for start in found)


def _is_telling(form: Value) -> bool:
    """Whether a value says where something goes: an address, a host or an account; not `8 o'clock`."""
    return form.kind in ("address", "url", "host") or is_identifier(form)


def is_asked_directly(effect: Effect, tool: str, messages: Sequence[Said], policy: Policy) -> bool:
    """Whether messages are plain requests, or behind the first one answers, and one asks for an effect or a tool.

    Words of the model among them are a proposal to which the first message plainly agrees.
    """
    return _read_asking((effect, tool, tuple(messages)), policy)


@remember
def _read_asking(asked: tuple[Effect, str, tuple[Said, ...]], policy: Policy) -> bool:
    effect, tool, messages = asked
    if not policy.mandate.direct.verbs:
        return True
    phrases = list_asking_phrases(effect, tool, policy)
    forms = [read_form((said.text, phrases), policy) for said in messages if said.actor == "user"]
    direct = [form.is_direct(phrases) for form in forms]
    answered = all(one or form.brief for one, form in zip(direct[1:], forms[1:], strict=True))
    if any(said.actor == "model" for said in messages):
        return answered
    return answered and direct[:1] == [True] and any(form.asks(phrases) for form in forms)


@remember
def is_framed(text: str, policy: Policy) -> bool:
    """Whether a message, which may be an answer, asks about, shows or reports something, or makes it wait."""
    if not policy.mandate.direct.verbs:
        return False
    phrases = tuple(one for effect, listed in policy.mandate.effects.items() if effect.changes for one in listed)
    form = read_form((text, phrases), policy)
    return not (form.brief or form.tells or form.is_direct(phrases))


@remember
def read_form(asked: tuple[str, tuple[str, ...]], policy: Policy) -> MessageForm:
    """Return how a message is made; `phrases` that ask are verbs as well, such as the words of a tool's name."""
    text, phrases = asked
    return _MessageReader(phrases, policy).read(unicodedata.normalize("NFKC", text).translate(APOSTROPHES))


class _MessageReader:
    """Reads messages by the lists of a policy."""

    def __init__(self, phrases: tuple[str, ...], policy: Policy) -> None:
        direct, mandate = policy.mandate.direct, policy.mandate
        self.phrases, self.direct, self.mandate = phrases, direct, mandate
        self.names = {*phrases}.difference(list_deeds(policy))
        looks = (*policy.contract.mutation, *policy.contract.observation)
        self.verbs = (*phrases, *list_deeds(policy), *looks, *direct.verbs, *direct.works)
        self.opening = (*mandate.polite, *direct.wishes)
        self.leads = {STOP, *mandate.lead_ins, *direct.leads, *direct.joiners}
        agreeing = " ".join((*policy.scores.confirmations, *mandate.yeses)).split()
        self.courteous = {*self.leads, *mandate.agreeing, *agreeing, *direct.thanks, *direct.courtesies}
        self.thanks, self.shown, self.lost = {*agreeing, *direct.thanks}, {*direct.shown}, {*direct.lost}
        self.empty = {*self.leads, *direct.courtesies, *direct.belonging}
        self.vague = {*policy.scores.vague_words}

    def read(self, text: str) -> MessageForm:
        kept = cut_pasted(text, self.mandate)
        lines = [line.strip() for line in kept.splitlines() if line.strip()]
        sentences: list[Sentence] = []
        content: list[str] = []
        head, odd = None, len(text) > LONGEST or self.is_letter(kept) or self.is_said_twice(kept, text)
        odd = odd or _OTHER_SCRIPT.search(kept) is not None
        for number, line in enumerate(lines):
            entry = _BULLET.sub("", line, count=1)
            odd = odd or _ODD.match(entry) is not None
            ends = len(lines) == 1 or entry != line or line.endswith(_ENDS)
            read = list(self.read_line(entry))
            if at := next((at for at, (words, _, _) in enumerate(read, start=1) if _COLON in words), 0):
                words, colon = read[at - 1][0], read[at - 1][0].index(_COLON) + 1
                behind = [*words[colon:], *(word for more, _, _ in read[at:] for word in (STOP, *more))]
                odd = odd or head is not None or (not behind and number + 1 < len(lines))
                content += behind
                read = [*read[: at - 1], (words[:colon], False, False)]
                head = len(sentences) + at - 1
            sentences += [self.read_sentence(*one, ends=ends) for one in read]
        words = [word for one in sentences for word in (*one.words, STOP)] + content
        several = sum(one.kind != "courtesy" for one in sentences) + bool(content) > 1
        odd = odd or self.has_sign(words, several=several) or not sentences
        odd = odd or (several and self.points_on(sentences))
        plain = not odd and self.can_begin(sentences[0])
        kinds = {one.kind for one in sentences}
        own = plain and kinds.isdisjoint(("question", "unknown"))
        brief = not odd and len(lines) == 1 and head is None and not any(one.aside for one in sentences)
        tells = plain and head is None and kinds <= {"statement", "courtesy", "question"} and "statement" in kinds
        return MessageForm(
            tuple(sentences), tuple(content), head, own, brief, tells and sentences[0].kind != "question"
        )

    def read_line(self, line: str) -> Iterator[tuple[list[str], bool, bool]]:
        """Yield the words of each sentence of a line, whether it is a question, and whether one that is not polite."""
        pieces, sentences = split_pieces(_DASH.sub(" . ", line), self.mandate)
        for number, group in groupby(pieces, key=lambda piece: piece.sentence):
            held, words = list(group), list[str]()
            for piece in held:
                words += list(read_words(piece.text)) if piece.kind == "word" else [_QUOTATION]
                if piece.kind == "word" and piece.text.rstrip("\"'*_").endswith(":"):
                    words = [*words[:-1], _COLON]
            if any(word != STOP and not word.isdecimal() for word in words):
                asks = is_question(held[-1], sentences[number], self.mandate)
                yield words, held[-1].kind == "word" and "?" in held[-1].text, asks

    def read_sentence(self, words: list[str], is_polite: bool, asks: bool, *, ends: bool) -> Sentence:
        """Return a sentence by how it begins; `ends` tells that its line ends as one does, or is the only one."""
        start = self.skip_leads(words, 0)
        kind: Kind = "question" if asks else self.find_kind(words, start, ends=ends)
        works = any(find_phrases(words, self.direct.works))
        if any(at > start and self.is_appended(words, at) for at, _, _ in find_phrases(words, self.direct.works)):
            kind = "unknown"
        ties = {*self.direct.joiners} if works else self.leads
        first = start if kind == "request" else self.skip_leads(words, start + match_phrase(words, start, self.opening))
        open_ended = kind == "wish" and not works
        named = self.names if not works else ()
        clauses = {
            at
            for at in range(first, len(words))
            if open_ended or at == first or words[at - 1] in ties or words[at] in named
        }
        joined = not {*self.direct.joiners}.isdisjoint(words[:start])
        return Sentence(tuple(words), kind, frozenset(clauses), joined, works or is_polite)

    def is_appended(self, words: Sequence[str], at: int) -> bool:
        """Whether work on a text is asked for right behind a name or a comma: `mail a@b.example, translate`."""
        return words[at - 1] == STOP or is_naming(words[at - 1])

    def skip_leads(self, words: Sequence[str], at: int) -> int:
        return next((place for place in range(at, len(words)) if words[place] not in self.leads), len(words))

    def find_kind(self, words: Sequence[str], start: int, *, ends: bool) -> Kind:
        """Return what a sentence is that no question mark ends, by the words it begins with."""
        if self.courteous.issuperset(words) and (start == len(words) or not self.thanks.isdisjoint(words)):
            return "courtesy"
        if match_phrase(words, start, self.opening):
            return "wish"
        if size := match_phrase(words, start, self.verbs):
            return "request" if self.is_deed(words, start, size, ends=ends) else "unknown"
        told = {*self.direct.statements, *self.direct.further}
        rest = {*words[start:]}
        is_plain = (
            self.shown.isdisjoint(rest) and self.lost.isdisjoint(rest) and not rest.isdisjoint(self.direct.telling)
        )
        return "statement" if is_plain and not told.isdisjoint(words[start : start + 1]) else "unknown"

    def is_deed(self, words: Sequence[str], start: int, size: int, *, ends: bool) -> bool:
        """Whether a verb has an object and names no thing: not in `Read.`, `List of tasks`, `Mail from Eve`, `Text:`.

        Another verb that is tied to it does for an object: `Commit and push`. Work on `this` is work on a text that
        stands nearby.
        """
        rest = words[start + size :]
        if self.empty.issuperset(rest) or rest[0] == _COLON:
            return False
        nouns, is_tied = {*self.shown, *self.direct.nouns}, rest[0] in self.direct.joiners
        if is_tied and match_phrase(rest, 1, self.verbs):
            return True
        if words[start] in nouns and (not ends or rest[0] in nouns.union(self.direct.belonging)):
            return False
        works = match_phrase(words, start, self.direct.works)
        return not (works and not {*self.direct.pointing}.isdisjoint(rest))

    def has_sign(self, words: list[str], *, several: bool) -> bool:
        """Whether words report, doubt, or make a request wait or hang on something, point at one of `several` parts of
        the message, or ask somebody to ask for the same."""
        for start, end, _ in list(find_phrases(words, self.direct.exceptions)):
            words[start:end] = [GONE] * (end - start)
        if any(find_phrases(words, self.direct.signs)):
            return True
        things = {STOP, _COLON, *self.shown}
        pairs = zip(words, [*words[1:], STOP], strict=True)
        if several and any(word in self.direct.pointing and after in things for word, after in pairs):
            return True
        for at, _, _ in find_phrases(words, self.direct.delegating):
            end = next((end for end in range(at, len(words)) if words[end] == STOP), len(words))
            told = (place + 1 for place in range(at, end) if words[place] in self.direct.infinitives)
            if any(match_phrase(words, place, self.phrases) for place in told):
                return True
        return False

    def is_letter(self, text: str) -> bool:
        """Whether a text greets somebody by a name that is not its reader's, or ends with one. A verb is no name."""
        first = {phrase.split()[0] for phrase in (*self.opening, *self.verbs)}
        known = {*first, *self.courteous, *self.direct.statements}
        pairs = _NAME.findall(text)
        greets = {*self.direct.greetings}
        signed = _SIGNED.search(text)
        return (signed is not None and signed[1][0].isupper() and signed[1].casefold() not in known) or any(
            one.casefold() in greets and name[0].isupper() and name.casefold() not in known for one, name in pairs
        )

    def points_on(self, sentences: Sequence[Sentence]) -> bool:
        """Whether the first sentence ends with a word for something that none has named: `Read it.`"""
        first = next((one.words for one in sentences if one.kind != "courtesy"), ())
        return next((word for word in reversed(first) if word != STOP), "") in self.vague

    def is_said_twice(self, kept: str, text: str) -> bool:
        """Whether an address or a code stands in the person's own words and in what they quote as well."""
        pieces, _ = split_pieces(kept, self.mandate)
        words = [piece.text for piece in pieces if piece.kind == "word"]
        quoted = [piece.text.split() for piece in pieces if piece.kind == "quotation"]
        cut = Counter(text.split()) - Counter(kept.split())
        shown = [*cut.elements(), *(word for one in quoted if len(one) > 1 for word in one)]
        said = {form for word in words for form in read_forms(word) if _is_telling(form)}
        return any(form in said for word in shown for form in read_forms(word))

    def can_begin(self, first: Sentence) -> bool:
        """Whether a sentence needs none before it, as `It is clear.` and `Can you help?` do."""
        if first.kind == "courtesy":
            return not first.aside
        start = self.skip_leads(first.words, 0)
        return first.kind != "statement" or first.words[start] in self.direct.statements


def match_phrase(words: Sequence[str], at: int, phrases: Sequence[str]) -> int:
    """Return how many words the longest phrase has that begins at a place, 0 where none does."""
    beginning = index_phrases(tuple(phrases)).get(words[at], ()) if at < len(words) else ()
    return max((len(one) for _, one in beginning if tuple(words[at : at + len(one)]) == one), default=0)
