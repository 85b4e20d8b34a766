"""What a text that leaves takes along: passages, codes and addresses that the request does not name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

from msgspec import Struct

from foregate.evidence.ledger import Written
from foregate.evidence.passages import (
    LOST,
    Passage,
    PlainText,
    ReadText,
    ReadTexts,
    bare_text,
    find_addresses,
    find_encoded,
    find_passages,
    find_taken_codes,
    fold_text,
    list_codes,
    list_places,
    name_place,
)
from foregate.policy.policy import Policy
from foregate.policy.risk.command_line import Segment, parse_command_line
from foregate.policy.risk.pieces import cut_pasted
from foregate.policy.risk.reading import list_operands
from foregate.policy.risk.request import STOP, find_phrases, read_words, remember
from foregate.policy.risk.said import NAME_PARTS, SaidValues
from foregate.policy.risk.wrapped import unwrap_segment
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, read_forms, trim_text

# "|" in "sort notes.txt|uniq".
_FOR_SHELL = compile_late(r"[\s;&|<>$`(){}]")
"""What no path holds, and a line for the shell may."""
# "-n10", "--all", "12".
_OPTION = compile_late(r"-[A-Za-z]{,3}\d*|--[a-z-]*|\d+")
"""An option without a value, or a number."""
_PLACES = ("path", "url", "host")
"""Kinds of targets that a noun does not tell apart: `the file` may be any."""
_PAIRED, _SEAM, _END = 6, 80, "\uffff"
"""How many texts are searched for two halves of one passage, characters of each half, and what ends a pair."""
_BEFORE = 3
"""Words among which one may stand that makes what follows them the name of a thing: `the last mail`."""


class CarriedText(NamedTuple):
    """A text that a call takes along: the number of the argument it stands in, the words as written, who said it.

    `read` is None for encoded text that nobody said, and for an address, and LOST for text whose source is unknown.
    """

    argument: int
    text: str
    read: ReadText | None
    is_address: bool = False


class WhatWasSaid(Struct, frozen=True):
    """What one request has behind it: its messages, what they say, and what the session wrote.

    `is_found` tells whether what the person named led to a value, such as the number of a mail or a link, `goes_back`
    whether a folded text would go only to whoever wrote it, `is_known` whether an address was said before, configured,
    or assigned by a tool's own system.
    """

    messages: Sequence[Said]
    said: SaidValues
    written: Written
    is_found: Callable[[Value], bool]
    goes_back: Callable[[str], bool]
    is_known: Callable[[Value], bool]


def find_carried_texts(
    texts: Sequence[str], kept_reads: ReadTexts, known: WhatWasSaid, policy: Policy
) -> Iterator[CarriedText]:
    """Yield the longest passage of each read that texts take along although the request does not name the read, or else
    a code or number of it.

    After them come encoded text and addresses that neither the person nor a read the request names said. Passages come
    in the order of the reads, the others in the order of the texts. Where more was read than is kept, the text with the
    most that the person did not say stands between them: any of it may have been read.
    """
    section, reads = policy.mandate.flows, kept_reads.reads
    seams = list(_list_seams(texts))
    every = [*texts, *(seam for _, seam in seams)]
    owners = [*range(len(texts)), *(argument for argument, _ in seams)]
    free = _FreeText(reads, known, policy)
    kept: dict[ReadText, Passage] = {}
    if section.verbatim:
        plain = PlainText(every)
        for passage in find_passages(plain, reads, section.verbatim):
            best = kept.get(passage.read)
            longer = best is None or passage.end - passage.start > best.end - best.start
            if longer and not free.is_named(passage.read) and free.count_rest(plain, passage) >= section.verbatim:
                kept[passage.read] = passage
        for read, passage in kept.items():
            words = plain.find_words(passage.start, passage.end)
            yield CarriedText(owners[plain.find_text(words[0])], " ".join(plain.words[words[0] : words[-1] + 1]), read)
    for read in reads if section.codes else ():
        for number, code in find_taken_codes(read, every, section.codes) if read not in kept else ():
            if not free.lets_go(read, code):
                yield CarriedText(owners[number], code, read)
                break
    if section.verbatim and kept_reads.is_cut:
        plains = [PlainText([text]) for text in texts]
        rests = [free.count_rest(plain, Passage(LOST, 0, len(plain.text))) for plain in plains]
        if sum(rests) >= section.verbatim:
            number = rests.index(max(rests))
            yield CarriedText(number, " ".join(plains[number].words), LOST)
    for number, text in enumerate(texts):
        for run in find_encoded(text, section.encoded):
            if not free.holds(fold_text(run)):
                yield CarriedText(number, run, None)
        for address in find_addresses(text, section.endings) if section.endings else ():
            if not free.leads_to(address):
                yield CarriedText(number, address.normal, None, is_address=True)


def _list_seams(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the end of each text with the beginning of each other one, for arguments have no order; and its number."""
    short = [text.strip() for text in texts[:_PAIRED]]
    for one, other in permutations(range(len(short)), 2):
        yield one, f"{short[one][-_SEAM:]}{short[other][:_SEAM]}"
        yield one, _END


class _FreeText:
    """What may leave anyhow: the person's own words, set phrases, and what stands in a read the request names."""

    def __init__(self, reads: Sequence[ReadText], known: WhatWasSaid, policy: Policy) -> None:
        self._reads, self._known, self._policy = reads, known, policy
        self._named: dict[tuple[ReadText, bool], bool] = {}
        own = [said.text for said in known.messages if said.actor == "user"]
        self._own = "".join(map(fold_text, own))
        self._words = {fold_text(trim_text(word)) for text in own for word in text.split()}

    def is_named(self, read: ReadText, *, by_itself: bool = False) -> bool:
        """Whether the request names a read."""
        if (known := self._named.get((read, by_itself))) is None:
            known = names_read(read, self._known, self._policy, by_itself=by_itself)
            self._named[read, by_itself] = known
        return known

    @cached_property
    def _texts(self) -> list[str]:
        return [self._own, *(fold_text(read.content) for read in self._reads if self.is_named(read))]

    @cached_property
    def _written(self) -> list[tuple[int, str]]:
        """What calls of this request wrote: found in a later read, it is the session's own."""
        since = min((said.seq for said in self._known.messages), default=0)
        texts = ((seq, _list_texts(raw)) for seq, raw in self._known.written.texts if seq > since)
        return [(seq, "".join(map(fold_text, found))) for seq, found in texts]

    @cached_property
    def _bare(self) -> str:
        return bare_text("\n".join(said.text for said in self._known.messages if said.actor == "user"))

    @cached_property
    def _places(self) -> set[str]:
        """The addresses in the person's own words, and in the reads that the request names."""
        section = self._policy.mandate
        own = (cut_pasted(said.text, section) for said in self._known.messages if said.actor == "user")
        named = (read.content for read in self._reads if self.is_named(read, by_itself=True))
        return {place for text in (*own, *named) for place in list_places(text, section.flows.endings)}

    def leads_to(self, address: Value) -> bool:
        """Whether an address may stand in a text that leaves."""
        held = name_place(address) in self._places or self._known.is_known(address)
        return held or self._known.goes_back(fold_text(address.normal))

    def lets_go(self, read: ReadText, code: str) -> bool:
        """Whether a code of a read may leave: the request says it, or names it or a read that holds it."""
        plain, shortest, folded = bare_text(code), self._policy.mandate.flows.codes, fold_text(code)
        if plain in self._bare or any(map(self._known.is_found, read_forms(code))):
            return True
        named = (one for one in self._reads if plain in list_codes(one, shortest))
        if any(self.is_named(one, by_itself=True) for one in named) or self._known.goes_back(folded):
            return True
        return any(seq < read.seq and folded in text for seq, text in self._written)

    def holds(self, folded: str) -> bool:
        """Whether a folded text stands in the person's words, or in a read the request names."""
        return any(folded in text for text in self._texts)

    def count_rest(self, plain: PlainText, passage: Passage) -> int:
        """Return how many characters of a passage are neither the person's words, nor the session's, nor a phrase."""
        text = plain.text[passage.start : passage.end]
        if (
            self.holds(text)
            or self._known.goes_back(text)
            or any(seq < passage.read.seq and text in wrote for seq, wrote in self._written)
        ):
            return 0
        count = plain.measure(passage.start, passage.end)
        for phrase in map(fold_text, self._policy.mandate.flows.courtesies):
            count -= text.count(phrase) * len(phrase)
        for number in plain.find_words(passage.start, passage.end):
            start, end = plain.starts[number], plain.starts[number + 1]
            within = passage.start <= start and end <= passage.end
            if within and fold_text(trim_text(plain.words[number])) in self._words:
                count -= end - start + 1
        return count


def names_read(read: ReadText, known: WhatWasSaid, policy: Policy, *, by_itself: bool = False) -> bool:
    """Whether the request names what a call read.

    The person says its target, or the name of its file without the ending; where it has none, some argument of it, but
    for what they name `by_itself`, or what they said led to one; or they ask to pass on such a thing as the tool looks
    at: `send Ben a summary of the last mail` for `read_mail`. What a search through a folder looks for names none of
    the files it finds.
    """
    target, said = read.target, known.said
    nouns = [part.group().casefold() for part in NAME_PARTS.finditer(read.tool)]
    if not target:
        forms = [form for text in _list_texts(read.arguments) for form in read_forms(text)]
        if not by_itself and any(_names(form, said, policy) for form in forms):
            return True
        if any(map(known.is_found, forms)):
            return True
        return asks_to_pass_on(nouns, said, policy)
    if len(target.split()) > 1 or ("://" not in target and _FOR_SHELL.search(target)):
        return names_command(target, said, policy)
    kinds = {form.kind for form in read_forms(target)}
    if names_target(target, said, policy) or ("url" in kinds and any(map(known.is_found, read_forms(target)))):
        return True
    telling = [noun for noun in nouns if noun not in policy.mandate.general_words]
    return kinds.isdisjoint(_PLACES) and asks_to_pass_on(telling, said, policy)


def _names(form: Value, said: SaidValues, policy: Policy) -> bool:
    """Whether the person's words name a thing, and not what they want written, as `a note`."""
    return said.names(form) and speaks_of(form.normal, said, policy)


def names_target(target: str, said: SaidValues, policy: Policy) -> bool:
    """Whether the person's words name a path, an address or a thing by its name, or all of a site by its host."""
    forms = list(read_forms(target))
    if any(_names(form, said, policy) for form in forms):
        return True
    for form in forms:
        if form.kind == "url" and said.names(Value("host", form.normal.split("/")[2])):
            return True
    last = target.rstrip("/").rpartition("/")[2]
    stem = last.rpartition(".")[0] or last
    is_word = "://" not in target and stem.casefold() in said.words
    return is_word and _names(Value("words", stem.casefold()), said, policy)


def names_command(command: str, said: SaidValues, policy: Policy) -> bool:
    """Whether the person says a command as a whole, or every word that its programs are given, among them a file.

    What the shell, a variable or a text in the line gives them is not known.
    """
    if said.names(Value("words", command.strip().casefold())):
        return True
    line = parse_command_line(command)
    inputs = [redirection.target for redirection in line.redirections if redirection.operator == "<"]
    if line.problem or "<<" in command or not all(name and names_target(name, said, policy) for name in inputs):
        return False
    segments = [inner for segment in line.segments for inner in unwrap_segment(segment)]
    return bool(segments) and all(_names_operands(segment, said, policy) for segment in segments)


def _names_operands(segment: Segment, said: SaidValues, policy: Policy) -> bool:
    """Whether the person says every word of a simple command, among them a path; `cd` prints nothing."""
    if segment.words[:1] == ("cd",):
        return True
    if segment.variables or not segment.words:
        return False
    if (segment.words[0] or "").startswith("python") and segment.words[1:2] == ("-m",):
        # The module is the program.
        segment = Segment(segment.words[2:])
    given = [word for word in segment.words[1:] if word is None or not _OPTION.fullmatch(word)]
    has_path = any(list_operands(segment, policy)[0])
    return has_path and all(word is not None and names_target(word, said, policy) for word in given)


def asks_to_pass_on(nouns: Sequence[str], said: SaidValues, policy: Policy) -> bool:
    """Whether a sentence of the person's asks to pass something on, and speaks of a thing by one of these nouns.

    A noun for any text, as in `send Ben the message`, says what is written: it takes a verb for what is there.
    """
    section = policy.mandate
    looks = {*section.effects.get(Effect.OBSERVATION, ()), *policy.contract.observation}
    things = {noun for noun in nouns if len(noun) > 2 and noun not in looks}
    for words in _list_sentences(said):
        passing, sending = _find_passing(words, policy)
        places = {*_find_things(words, things, policy)}
        there = {at for at in places if _is_there(words, at, policy)}
        if (passing - places and places) or (sending - places and there):
            return True
    return False


def speaks_of(noun: str, said: SaidValues, policy: Policy) -> bool:
    """Whether the person speaks of something that is there by a noun, which may be one for what is written."""
    return noun not in policy.mandate.flows.written or any(
        _is_there(words, at, policy) for words in _list_sentences(said) for at in _find_things(words, {noun}, policy)
    )


def _list_sentences(said: SaidValues) -> Iterator[tuple[str, ...]]:
    """Yield the words of each sentence that forbids nothing."""
    for own in (message.words for message in said.messages):
        forbidden = {own.pieces[at].sentence for at in own.forbidden}
        for number, sentence in enumerate(own.sentences):
            if number not in forbidden:
                yield tuple(word for word in read_words(sentence) if word != STOP)


@remember
def _find_passing(words: tuple[str, ...], policy: Policy) -> tuple[frozenset[int], frozenset[int]]:
    """Return the places of words that ask for something to be passed on, and of those that ask for it to be sent."""
    passing, sending = policy.mandate.flows.passing, policy.mandate.effects.get(Effect.SEND, ())
    return _find_places(words, passing), _find_places(words, sending)


def _find_places(words: Sequence[str], phrases: Sequence[str]) -> frozenset[int]:
    return frozenset(start for start, _, _ in find_phrases(words, phrases))


def _find_things(words: Sequence[str], nouns: set[str], policy: Policy) -> Iterator[int]:
    """Yield the places of nouns: words in the plural, and those with a word such as `the` or `Ben's` before them.

    A word such as `a` before them makes them no thing that is there already.
    """
    indefinite, determiners = policy.mandate.flows.indefinite, _list_determiners(policy)
    for at, word in enumerate(words):
        if not nouns.isdisjoint((word, word.removesuffix("s"), f"{word}s")):
            before = words[max(0, at - _BEFORE) : at]
            if any(one in indefinite for one in before[1 - _BEFORE :]):
                continue
            if word.endswith("s") or any(one in determiners or one.endswith("'s") for one in before):
                yield at


def _list_determiners(policy: Policy) -> set[str]:
    known = {*policy.contract.determiners, *policy.mandate.phrases.determiners}
    return known.difference(policy.mandate.flows.indefinite)


def _is_there(words: tuple[str, ...], at: int, policy: Policy) -> bool:
    """Whether a noun for any text stands for one that is there and is not what is to be written.

    So it is behind a word for looking or passing on, with none for sending between, or where it says more of it:
    `the mail from Kim`, `Kim's mail`, `the notes`.
    """
    section, before = policy.mandate, words[max(0, at - _BEFORE) : at]
    if words[at] not in section.flows.written or any(one.endswith("'s") for one in before[-1:]):
        return True
    if words[at].endswith("s") and not _list_determiners(policy).isdisjoint(before):
        return True
    if words[at + 1 : at + 2] and words[at + 1] in section.direct.belonging:
        return True
    passing, sending = _find_passing(words, policy)
    looks = _find_places(words, (*section.effects.get(Effect.OBSERVATION, ()), *policy.contract.observation))
    verbs = [place for place in passing | sending | looks if place < at]
    return bool(verbs) and max(verbs) not in sending - passing


def _list_texts(arguments: str) -> Iterator[str]:
    """Yield the texts and numbers of a call's arguments."""
    stack: list[Json] = []
    with suppress(InvalidJson):
        stack.append(strict_json.parse(arguments))
    while stack:
        item = stack.pop()
        if isinstance(item, dict | list):
            stack += reversed(list(item.values()) if isinstance(item, dict) else item)
        elif item is not None and not isinstance(item, bool):
            yield str(item)
