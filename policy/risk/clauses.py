"""What each clause of a person's message does: it asks, tells, reports, sets a condition and so on. Pure.

`Send Ben the minutes. Thanks!` asks and is polite. `Is this spam? Send Ben the minutes.` asks for nothing that counts,
for nothing says where the words of others begin; nor does what waits or hangs on something. What no list of
`mandate.direct` knows is unclear, never a request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Literal, NamedTuple

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.policy.risk.pieces import MessageToken, has_telling, is_said_twice, split_lines, strip_accents
from foregate.policy.risk.request import (
    GONE,
    STOP,
    find_phrases,
    is_naming,
    mask_phrases,
    match_phrase,
    read_words,
    remember,
    split_phrase,
)
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_spec import Effect

Mark = Literal["asked", "wished", "told", "polite", "question", "unclear", "pasted", "quoted", "reported",
               "doubted", "supposed", "conditional", "deferred"]  # fmt: skip
"""What a clause does. One that is `pasted` or what follows it in this list gives its message no authority."""
_SIGNS: tuple[Mark, ...] = ("pasted", "reported", "doubted", "supposed", "conditional", "deferred")
DOUBTFUL = frozenset(("quoted", *_SIGNS))
_TAIL = "?!.,;:'\")]}*_\u2026"
_ODD = compile_late(r"[^\w\"'`\u00ab\u201c\u201e\u00a1\u00bf]")
"""How no request begins: `[10:02] Eve`, `# Log`, `(aside)`."""
_TABLE = compile_late(r"(?m)^[ \t]*(?:\+|\S[^\n]*[\t|])")
"""What only a table or a list of changes holds: `a | b`, `+ line`."""
_SIGNED = compile_late(r"(?:[,;]|[@./\d]\w+)\s+(\w+)(?:\s+\w+)?\W*$")
"""The last one or two words behind a comma, an address or a number, which may be a name: `Mail it, Eve`."""
# "\u0434", a zero-width space, an override of the direction, an accent that stands alone.
_UNREADABLE = compile_late(
    r"[\u00ad\u0300-\u1cff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2c80-\ud7ff\uf900-\ufdff\ufeff]"
)
"""A letter that is not Latin, as no list of the policy has one, or a sign that hides others."""
_NAME = compile_late(r"(?<![\w'])(\w+),? +(?=(\w+))")
"""Two words, which may be a greeting and a name: `Hi Dan`."""
_QUOTATION, _COLON, _ENDS = "\u25cc", ":", (".", "!", "?")
_BEFORE_PRONOUNS = ("a", "e", "i", "r")
"""What stands before a pronoun that is part of a verb: `mándalo`, `mandarlo`; `readme` is none."""
_LONGEST_END, _MOST_PARTS, _FEW, _NEAR = 200, 8, 6, 6
"""Characters at the end of a message among which a name is looked for; commas behind something told at which a request
is; words of a clause that names so little that it may point at a text, as `can you have a look at it` does; and words
between a verb that asks somebody and what is asked, as in `ask the whole design team if`."""


class Clause(NamedTuple):
    """A clause: its folded words, the sentence it was typed in, and what it does.

    It begins at `start`, behind words that only lead up to it, and can ask for something at `places`. `joined` tells
    that a word such as `then` ties it to the one before, `works` that it asks for work on a text, `aside` that it does
    or is a polite question, `is_ended` that its line ends as one does, or is the only one.
    """

    words: tuple[str, ...]
    text: str
    mark: Mark
    start: int
    places: frozenset[int]
    joined: bool
    works: bool
    aside: bool
    is_ended: bool


class MessageForm(Struct, frozen=True):
    """The clauses of a message. `content` are the words behind a colon, `head` the number of the clause before it.

    `doubt` is the first mark by which the message counts as more than a request, "" for none, and `why` the words.
    """

    clauses: tuple[Clause, ...]
    content: tuple[str, ...]
    head: int | None
    is_one_line: bool
    doubt: Mark | Literal[""]
    why: str


def is_question(last: MessageToken, sentence: str, policy: Policy) -> bool:
    """Whether a sentence that ends so asks for an answer and not, politely, for something to be done."""
    section = policy.mandate
    if last.kind != "word" or "?" not in last.text[len(last.text.rstrip(_TAIL)) :]:
        return False
    words = [STOP, *read_words(sentence)]
    first = {0}
    for at, word in enumerate(words):
        if word == STOP or (at in first and (word in section.lead_ins or word in section.direct.leads)):
            first.add(at + 1)
    return not any(start in first for start, _, _ in find_phrases(words, (*section.polite, *section.direct.begging)))


@remember
def load_reader(_: None, policy: Policy) -> ClauseReader:
    """Return the reader of a policy's lists."""
    return ClauseReader(policy)


class _Typed(NamedTuple):
    """How a sentence was typed: its text, whether its line ends as one does, and whether it is the first that says
    anything, has a question mark and asks for an answer."""

    text: str
    is_ended: bool
    is_first: bool
    is_polite: bool = False
    asks: bool = False


class ClauseReader:
    """Reads messages by the lists of a policy."""

    def __init__(self, policy: Policy) -> None:
        direct, mandate = policy.mandate.direct, policy.mandate
        self.speech, self.typed = (
            defaultdict[str, tuple[str, ...]](tuple, one) for one in (direct.speech, direct.typed)
        )
        self.policy, self.direct, self.mandate = policy, direct, mandate
        deeds = {split_phrase(phrase): phrase for listed in mandate.effects.values() for phrase in listed}
        self.deeds = tuple(deeds.values())
        looks = (*policy.contract.mutation, *policy.contract.observation)
        self.verbs = (*self.deeds, *looks, *direct.verbs, *direct.works)
        self.opening = (*mandate.polite, *direct.wishes, *direct.begging)
        self.leads = {STOP, *mandate.lead_ins, *direct.leads, *direct.joiners, *direct.hence}
        agreeing = " ".join((*policy.scores.confirmations, *mandate.yeses)).split()
        self.courteous = {*self.leads, *mandate.agreeing, *agreeing, *direct.thanks, *direct.courtesies}
        self.thanks, self.shown, self.lost = {*agreeing, *direct.thanks}, {*direct.shown}, {*direct.lost}
        self.empty = {*self.leads, *direct.courtesies, *direct.belonging}
        self.vague = {*policy.scores.vague_words}.difference(self.speech["content"])
        self.told = {*direct.statements, *direct.further, *direct.selves}
        self.endings = tuple(word[1:] for word in direct.telling if word.startswith("-"))
        self.spellings = dict(phrase.split(" ", 1) for phrase in self.typed["spellings"])
        self.signs: dict[str, Mark] = {phrase: mark for mark in _SIGNS for phrase in direct.signs.get(mark, ())}
        self.single = {phrase for phrase in self.verbs if phrase.isalpha()}
        single = "\n".join(sorted(self.single))
        self.known = dict(zip(strip_accents(single).split("\n"), single.split("\n"), strict=True))
        self.first = {phrase.partition(" ")[0] for phrase in (*self.opening, *self.verbs)}
        self.last = {phrase.rpartition(" ")[2] for phrase in self.deeds if "*" in phrase}
        self.nouns, self.pointing = {*self.shown, *direct.nouns}, {*direct.pointing}
        acts = (Effect.EXECUTE, Effect.DELETE, Effect.ADMINISTER, Effect.COMMIT, Effect.MOVE, Effect.SEND)
        wordy = self.shown.union(direct.works, self.speech["delegating"])
        self.acts = tuple({*chain.from_iterable(mandate.effects.get(act, ()) for act in acts)}.difference(wordy))
        self.single_deeds = {*self.deeds}.difference(self.nouns)

    def read(self, pieces: Sequence[MessageToken], kept: str, text: str, longest: int) -> MessageForm:
        """Return how a message is made; `kept` is what of its text is not pasted, `longest` what can be read."""
        lines = split_lines(pieces)
        clauses: list[Clause] = []
        content: list[str] = []
        head = None
        mark: Mark | Literal[""] = "pasted" if len(text) > longest else self.find_oddity(kept, text, pieces)
        for number, (is_entry, groups) in enumerate(lines, start=1):
            first, last = groups[0][0], groups[-1][-1]
            mark = mark or ("pasted" if first.kind == "word" and _ODD.match(first.text) else "")
            is_ended = len(lines) == 1 or is_entry or last.text.endswith(_ENDS)
            for at, group in enumerate(groups):
                words, behind = self.read_group(group), None
                if _COLON in words:
                    colon = words.index(_COLON) + 1
                    behind = words[colon:] + [
                        word for more in groups[at + 1 :] for word in (STOP, *self.spell_all(more))
                    ]
                    mark = mark or ("pasted" if head is not None or (not behind and number < len(lines)) else "")
                    words, content = words[:colon], [*content, *behind]
                if any(word != STOP and not word.isdecimal() for word in words):
                    typed = " ".join(piece.text for piece in group)
                    is_first = all(one.mark == "polite" for one in clauses)
                    clauses += self.read_sentence(words, group[-1], _Typed(typed, is_ended, is_first))
                if behind is not None:
                    head = len(clauses) - 1
                    break
        odd = next((one for one in clauses if one.mark in DOUBTFUL), None)
        why = odd.text if odd is not None and not mark else ""
        several = sum(one.mark != "polite" or len(lines) > 1 for one in clauses) + bool(content) > 1
        mark = mark or (odd.mark if odd is not None else self.find_sign(content, len(content)))
        points = several and self.points(clauses, content, is_one_line=len(lines) == 1)
        mark = mark or ("pasted" if points else "" if clauses else "unclear")
        return MessageForm(tuple(clauses), tuple(content), head, len(lines) == 1, mark, why)

    def spell_all(self, group: Sequence[MessageToken]) -> list[str]:
        """Return the words of a group of pieces, each spelled as the lists of the policy are."""
        words: list[str] = []
        for piece in group:
            if piece.kind == "quotation":
                words.append(_QUOTATION)
                continue
            words += (more for word in read_words(piece.text) for more in self.spell(word))
            if piece.text.rstrip("\"'*_").endswith(":"):
                words[-1:] = [_COLON]
        return words

    def read_group(self, group: Sequence[MessageToken]) -> list[str]:
        """Return the words of a sentence without fillers and without what only announces it: `One more thing:`."""
        words = self.spell_all(group)
        before = words[self.skip_leads(words, 0) : words.index(_COLON)] if _COLON in words else []
        size = match_phrase(before, 0, self.typed["heralds"])
        if size and self.leads.union(self.typed["heralded"]).issuperset(before[size:]):
            words = words[words.index(_COLON) + 1 :]
        return [word for word in mask_phrases(words, self.typed["fillers"]) if word != GONE]

    def spell(self, word: str) -> list[str]:
        """Return a word as the lists have it: `pls` as `please`, `d'envoyer` as two, `mandarlo` as `mandar`."""
        if word in self.spellings:
            return self.spellings[word].split()
        if word in self.single or not self.typed["affixes"]:
            return [word]
        plain = strip_accents(word)
        for affix in self.typed["affixes"] if plain not in self.known else ():
            base = plain.removeprefix(affix) if affix.endswith("'") else plain.removesuffix(affix)
            if base in self.known and base != plain and (affix.endswith("'") or base.endswith(_BEFORE_PRONOUNS)):
                return [affix[:-1], self.known[base]] if affix.endswith("'") else [self.known[base]]
        return [self.known.get(plain, word)]

    def read_sentence(self, words: list[str], last: MessageToken, typed: _Typed) -> Iterator[Clause]:
        """Yield the clauses of a sentence: `I am ill, please mail Ben` tells something and asks for something."""
        start = self.skip_leads(words, 0)
        breaks = (at for at in range(start + 1, len(words)) if words[at - 1] == STOP or words[at] in self.direct.hence)
        tells = words[start : start + 1] and words[start] in self.told.union(self.courteous)
        for at in islice(breaks, _MOST_PARTS) if tells else ():
            if self.asks(words, at) and self.find_kind(words[:at], start, is_ended=True) in ("told", "polite"):
                yield self.read_clause(words[:at], typed)
                words, typed = words[at:], typed._replace(is_first=False)
                break
        if words[-1] != _COLON and last.kind == "word" and "?" in last.text:
            typed = typed._replace(is_polite=True, asks=is_question(last, typed.text, self.policy))
        yield self.read_clause(words, typed)

    def asks(self, words: Sequence[str], at: int) -> bool:
        """Whether a request begins at a place."""
        begin = self.skip_leads(words, at)
        size = match_phrase(words, begin, self.verbs)
        wished = match_phrase(words, begin, self.opening)
        return wished > 0 or (size > 0 and self.is_deed(words, begin, size, is_ended=True))

    def read_clause(self, words: list[str], typed: _Typed) -> Clause:
        """Return a clause by how it begins, or by the first sign in it of anything else."""
        start = self.skip_leads(words, 0)
        sign = self.find_sign(words, start)
        kind: Mark = "question" if typed.asks else self.find_kind(words, start, is_ended=typed.is_ended)
        if sign == "conditional" and self.is_choice(words, start):
            sign, kind = "", "told"
        works = [at for at, _, _ in find_phrases(mask_phrases(words, self.direct.exceptions), self.direct.works)]
        if any(at > start and (words[at - 1] == STOP or is_naming(words[at - 1])) for at in works):
            # `mail a@b.example, translate`: it may be a text behind which stands what to do with it.
            kind = "unclear"
        ties = {*self.direct.joiners} if works else self.leads
        first = start if kind == "asked" else self.skip_leads(words, start + match_phrase(words, start, self.opening))
        open_ended = kind == "wished" and not works
        places = (at for at in range(first, len(words)) if open_ended or at == first or words[at - 1] in ties)
        joined = not {*self.direct.joiners}.isdisjoint(words[:start])
        aside = bool(works) or self.is_thin(words, first, kind, typed)
        form = (start, frozenset(places), joined, bool(works), aside, typed.is_ended)
        return Clause(tuple(words), typed.text, sign or kind, *form)

    def is_choice(self, words: Sequence[str], start: int) -> bool:
        """Whether a clause says what to take of several things: `if there are more, choose the cheapest`."""
        if words[start : start + 1] and words[start] in self.speech["hanging"] and not has_telling(words):
            rest = words[self.skip_leads(words, words.index(STOP) if STOP in words else len(words)) :]
            return match_phrase(rest, 0, self.speech["choosing"]) > 0 and not self.vague.issuperset(rest[1:-1])
        return False

    def is_thin(self, words: Sequence[str], at: int, kind: Mark, typed: _Typed) -> bool:
        """Whether a polite question, or the first request of a message, may be about a text nearby: it is about a thing
        that holds words, or no act in a word or two that name nothing: `Find the mistake.`"""
        rest, asks = words[at:], typed.is_first and kind in ("asked", "wished")
        owned = any(word.endswith("'s") for word in rest)
        if typed.is_polite and (owned or len(rest) < _FEW or not self.lost.isdisjoint(rest)):
            return True
        names = any(map(is_naming, rest)) or _QUOTATION in rest
        named = names or any(word.istitle() for word in typed.text.split()[1:])
        shows = not self.shown.isdisjoint(rest) and (typed.is_polite or owned or not named)
        near = rest[1:2] if named else rest[: 2 * _FEW]
        vague = not self.vague.isdisjoint(near) and len(rest) < 2 * _FEW
        if (shows or vague or not self.pointing.isdisjoint(rest)) and (typed.is_polite or asks):
            return True
        return asks and kind == "asked" and len(rest) < _FEW and not (named or match_phrase(words, at, self.acts))

    def skip_leads(self, words: Sequence[str], at: int) -> int:
        return next((place for place in range(at, len(words)) if words[place] not in self.leads), len(words))

    def find_kind(self, words: Sequence[str], start: int, *, is_ended: bool) -> Mark:
        """Return what a sentence does that no question mark ends, by the words it begins with."""
        if self.courteous.issuperset(words) and (start == len(words) or not self.thanks.isdisjoint(words)):
            return "polite"
        if match_phrase(words, start, self.opening):
            return "wished"
        if size := match_phrase(words, start, self.verbs):
            return "asked" if self.is_deed(words, start, size, is_ended=is_ended) else "unclear"
        rest = {*words[start:]}
        if words[start] not in self.told or not self.shown.isdisjoint(rest) or not self.lost.isdisjoint(rest):
            return "unclear"
        tells = (words[start] in self.direct.selves and len(rest) > 1) or not rest.isdisjoint(self.direct.telling)
        return "told" if tells or any(word.endswith(self.endings) for word in rest) else "unclear"

    def is_deed(self, words: Sequence[str], start: int, size: int, *, is_ended: bool) -> bool:
        """Whether a verb has an object and names no thing: not in `Read.`, `List of tasks`, `Mail from Eve`, `Text:`.

        Another verb that is tied to it does for an object: `Commit and push`. Work on `this` is work on a text that
        stands nearby.
        """
        rest = words[start + size :]
        if self.empty.issuperset(rest) or rest[0] == _COLON:
            return False
        if rest[0] in self.direct.joiners and match_phrase(rest, 1, self.verbs):
            return True
        is_noun = size == 1 and words[start] in self.nouns and {*words[:start]}.isdisjoint(self.mandate.polite)
        if is_noun and (not is_ended or rest[0] in self.nouns.union(self.direct.belonging)):
            return any(word in self.speech["content"] for word in rest[1:4])
        works = match_phrase(words, start, self.direct.works)
        return not (works and not self.pointing.isdisjoint(rest))

    def find_sign(self, words: Sequence[str], start: int) -> Mark | Literal[""]:
        """Return the first sign that a clause reports, doubts, waits, hangs on something and so on, "" for none.

        What somebody else is to be told or asked is no sign of anything: `ask Ben whether he can come later`.
        """
        masked = mask_phrases(words, self.direct.exceptions)
        begin, end = self.find_content(words, start)
        if not has_telling(words[begin:end]):
            masked[begin:end] = [GONE] * (end - begin)
        elif any(find_phrases(words[begin:end], self.deeds)):
            return "reported"
        if found := next(find_phrases(masked, tuple(self.signs)), None):
            return self.signs[found[2]]
        # `the prompt send it`: a thing that holds words, and a request in it.
        shows = any(a in self.shown and b in self.single_deeds for a, b in pairwise(masked))
        return "quoted" if shows else ""

    def find_content(self, words: Sequence[str], start: int) -> tuple[int, int]:
        """Return the places of what somebody is to be told or asked, to the end of the clause: `that ...`, `if ...`.

        Of what is looked up it ends before another request: `find out when he comes and tell Ben`.
        """
        told, asked = (
            next((at for at in range(start, len(words)) if words[at] in listed), len(words))
            for listed in (self.speech["delegating"], self.speech["inquiring"])
        )
        openers = {*self.speech["content"], *self.speech["inquired"], *self.speech["hanging"]}
        for at in range(start + 1, len(words)):
            opener = f", {words[at]}" if words[at - 1] == STOP else words[at]
            if opener not in openers:
                continue
            looked_up = opener in self.speech["inquired"] and words[at - 1] in self.speech["looking"]
            tells = told < at and opener in self.speech["content"]
            if not (tells or looked_up or (asked < at <= asked + _NEAR and opener not in self.speech["content"])):
                continue
            end = next((end for end in range(at, len(words)) if words[end] in (STOP, _COLON)), len(words))
            tied = (place for place in range(at + 1, end - 1) if words[place] in self.direct.joiners)
            tie = next((place for place in tied if match_phrase(words, place + 1, self.verbs)), 0)
            points = not self.vague.union(self.pointing, self.direct.further).isdisjoint(words[at : tie or end])
            return (at, tie or end) if (not points if looked_up else not tie) else (at, at)
        return 0, 0

    def points(self, clauses: Sequence[Clause], content: Sequence[str], *, is_one_line: bool) -> bool:
        """Whether a word of one of several clauses points at a text, or the first one ends with a word for something
        that none has named: `Read it.`"""
        words = [word for one in clauses for word in (*one.words, STOP)] + [*content]
        things = {STOP, _COLON, *self.shown}
        if any(a in self.direct.pointing and b in things for a, b in zip(words, [*words[1:], STOP], strict=True)):
            return True
        said = (one.words for one in clauses if one.mark != "polite" or not is_one_line)
        first = [word for word in next(said, ()) if word != STOP]
        return len(first) <= _FEW and first[-1:] != [] and first[-1] in self.vague

    def find_oddity(self, kept: str, text: str, pieces: Sequence[MessageToken]) -> Mark | Literal[""]:
        """Return what a message is by its form, be its words what they may, "" for nothing odd."""
        if _UNREADABLE.search(kept):
            return "unclear"
        if _TABLE.search(kept) or self.is_letter(kept):
            return "pasted"
        return "quoted" if is_said_twice(pieces, kept, text) else ""

    def is_letter(self, text: str) -> bool:
        """Whether a text greets somebody by a name that is not its reader's, or ends with one. A verb is no name."""
        known = self.first.union(self.courteous, self.told)
        signed = _SIGNED.search(text[-_LONGEST_END:])
        if signed is not None and is_name(signed[1]) and signed[1].casefold() not in known.union(self.last):
            return True
        pairs = (pair for pair in _NAME.findall(text) if pair[0].casefold() in self.direct.greetings)
        return any(is_name(name) and name.casefold() not in known for _, name in pairs)


def is_name(word: str) -> bool:
    return word[0].isupper() and word.isalpha()
