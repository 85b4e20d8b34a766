"""What a request says: what it names, how destructive and vague it is, what it wants; pure, by whole words of lists."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain, permutations, takewhile
from typing import Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from foregate.policy.policy import Contract, Policy
from foregate.policy.risk.pieces import APOSTROPHES, cut_pasted
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import Origin, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Said

STOP = "\n"
"""Stands in a sequence of words where a clause ends; no phrase matches across it."""
GONE = "\0"
"""Stands for a word that was taken out; no phrase matches across it."""
_GAP, _WIDEST_GAP = "*", 12
"""What stands in a phrase for any words before its last one, and how many these are at most, with it."""

# '"delete all"', "`rm -rf`": what somebody quotes, they do not ask for.
_QUOTED = compile_late(r"```.*?(?:```|$)|`[^`\n]*`|\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d", re.DOTALL)
# "src/a.py", "don't", ",".
_TOKEN = compile_late(r"[\w./~:@\\#$%+*-]+(?:'\w+)*|[,;!?\n]|'")
_ENDS = ".,:;!?"
# "." in "a.py", "7" in "v7": a word with such a sign names a thing, and is no word of a phrase.
_NAMING = compile_late(r"[./\\@:_~\d]")


@lru_cache(maxsize=256)
def split_words(text: str) -> tuple[str, ...]:
    """Return the words of `text`, folded, with STOP where a clause ends; what is quoted as code or text is left out."""
    text = unicodedata.normalize("NFC", text.translate(APOSTROPHES))
    return tuple(read_words(_QUOTED.sub(" \u25cc ", text)))


@lru_cache(maxsize=4096)
def split_phrase(phrase: str) -> tuple[str, ...]:
    return tuple(word for word in split_words(phrase) if word != STOP)


def find_phrases(words: Sequence[str], phrases: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, phrase) for every occurrence of a phrase, in the order of the phrases.

    One with a gap ends before it: `let * know` is `let` in `let Ben know`.
    """
    beginning = index_phrases(tuple(phrases))
    hits = [
        (number, at, at + size)
        for at, word in enumerate(words)
        for number, wanted in beginning.get(word, ())
        if (size := measure_phrase(words, at, wanted))
    ]
    for number, start, end in sorted(hits):
        yield start, end, phrases[number]


def mask_phrases(words: Sequence[str], phrases: Sequence[str], instead: str = GONE) -> list[str]:
    """Return words in which some phrases are taken out."""
    masked = list(words)
    for start, end, _ in list(find_phrases(masked, phrases)):
        masked[start:end] = [instead] * (end - start)
    return masked


def measure_phrase(words: Sequence[str], at: int, wanted: tuple[str, ...]) -> int:
    """Return how many words of a phrase stand at a place, 0 for none; of one with a gap, those before it."""
    if tuple(words[at : at + len(wanted)]) == wanted:
        return len(wanted)
    if _GAP not in wanted:
        return 0
    size = wanted.index(_GAP)
    if tuple(words[at : at + size]) != wanted[:size]:
        return 0
    between = list(takewhile(lambda word: word not in (STOP, GONE), words[at + size : at + size + _WIDEST_GAP]))
    return size if wanted[size + 1] in between else 0


def match_phrase(words: Sequence[str], at: int, phrases: Sequence[str]) -> int:
    """Return how many words the longest phrase has that begins at a place, 0 where none does; of one with a gap, those
    before it."""
    beginning = index_phrases(tuple(phrases)).get(words[at], ()) if at < len(words) else ()
    return max((measure_phrase(words, at, one) for _, one in beginning), default=0)


@lru_cache(maxsize=1024)
def index_phrases(phrases: tuple[str, ...]) -> dict[str, list[tuple[int, tuple[str, ...]]]]:
    """Return by their first word the phrases that have one, each with its number and its words."""
    found: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    for number, phrase in enumerate(phrases):
        if wanted := split_phrase(phrase):
            found.setdefault(wanted[0], []).append((number, wanted))
    return found


def is_naming(word: str) -> bool:
    """Whether a word looks like a name of a thing: a path, a file, an address, an identifier, a number."""
    return len(word) > 1 and _NAMING.search(word) is not None


def read_words(text: str) -> Iterator[str]:
    """Yield the words of a text in NFC, folded, with STOP where a clause ends."""
    for match in _TOKEN.finditer(text):
        piece = match.group()
        if piece in _ENDS or piece == "\n":
            yield STOP
            continue
        word = piece.rstrip(_ENDS)
        if word.strip("'"):
            yield from _split_hyphens(word.casefold())
        if len(word) < len(piece):
            yield STOP


def _split_hyphens(word: str) -> list[str]:
    """Split hyphenated words; what looks like a path or an option stays whole."""
    if "-" not in word.strip("-") or word.startswith("-") or _NAMING.search(word):
        return [word]
    return [part for part in word.split("-") if part]


Asked = TypeVar("Asked", bound=Hashable)
Found = TypeVar("Found")
_REMEMBERED = 256
_MARKS = str.maketrans('`"\u201c\u201d', "    ")


class RequestFacts(Struct, frozen=True):
    """`names` are the words that could name a thing, `things` also verbs that stand for one (`the build`), `kept` those
    of them that are to stay. `vague` is the word that stands for a thing without naming one, `destructive` the first
    destructive word, `conflict` two words that contradict each other; "" where none is. `confirms` says that the newest
    message agrees to something said before."""

    names: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    vague: str = ""
    destructive: str = ""
    conflict: str = ""
    confirms: bool = False


def remember(read: Callable[[Asked, Policy], Found]) -> Callable[[Asked, Policy], Found]:
    """Return a reader that remembers what it read under each list of words: what people said is read for every call,
    and a policy that differs in a threshold reads it the same."""
    known: dict[tuple[Asked, str], Found] = {}

    def read_once(said: Asked, policy: Policy) -> Found:
        if policy.reading is not None:
            return cast(Found, policy.reading.remember(read, said, policy))
        key = (said, policy.words_hash)
        try:
            return known[key]
        except KeyError:
            found = read(said, policy)
        if len(known) >= _REMEMBERED:
            del known[next(iter(known))]
        known[key] = found
        return found

    return read_once


@remember
def read_own_request(texts: tuple[str, ...], policy: Policy) -> RequestFacts:
    """Return what messages say together, without what is pasted into them where a mandate tells the two apart.

    There only a newest message that says nothing else confirms: "ok, now count the lines" agrees to nothing.
    """
    if policy.mandate.mode == "off":
        return read_request(texts, policy)
    found = read_request(tuple(cut_pasted(text, policy.mandate).strip() for text in texts), policy)
    return found if not found.confirms or is_plain(texts[-1], policy) else replace(found, confirms=False)


def is_plain(reply: str, policy: Policy, besides: Set[str] = frozenset()) -> bool:
    """Whether a reply has no words but those that agree, fill, or name nothing, and those `besides`."""
    scores, mandate = policy.scores, policy.mandate
    agreeing = (word for phrase in (*scores.confirmations, *mandate.yeses) for word in split_phrase(phrase))
    known = {STOP, *besides, *scores.filler_words, *scores.vague_words, *mandate.agreeing, *agreeing}
    return known.issuperset(split_words(reply))


@remember
def read_request(texts: tuple[str, ...], policy: Policy) -> RequestFacts:
    """Return what the messages of a task say together, oldest first; verbs and filling words name nothing."""
    section, contract = policy.scores, policy.contract
    words = [word for text in texts for word in (*split_words(text), STOP)]
    # without its quotation marks: a quoted name is still a name
    quoted = [word for text in texts for word in (*split_words(text.translate(_MARKS)), STOP)]
    vague = set(section.vague_words)
    verbs = {*section.destructive_words, *contract.mutation, *contract.observation}
    empty = vague.union(section.filler_words, verbs)
    names = collect_names(word for word in (*words, *quoted) if word not in empty)
    determined = (quoted[end : end + 2] for _, end, _ in find_phrases(quoted, contract.determiners))
    ends = {STOP, *contract.mutation, *contract.pivots}
    kept = (takewhile(lambda w: w not in ends, quoted[end:]) for _, end, _ in find_phrases(quoted, section.keep_words))
    newest = split_words(texts[-1]) if texts else ()
    confirms = any(start == 0 for start, _, _ in find_phrases(newest, section.confirmations))
    said = {word for pair in section.conflicts for word in pair if any(find_phrases(words, (word,)))}
    return RequestFacts(
        names,
        names | (collect_names(chain.from_iterable(determined)) & verbs),
        names & collect_names(chain.from_iterable(kept)),
        "" if names or confirms else next((word for word in words if word in vague), ""),
        next((phrase for _, _, phrase in find_phrases(words, section.destructive_words)), ""),
        next((f"{a} and {b}" for a, b in section.conflicts if a in said and b in said), ""),
        confirms,
    )


def collect_names(words: Iterable[str]) -> frozenset[str]:
    """Return words as names are compared, without what stands for the end of a clause or for something quoted."""
    return frozenset(word.removeprefix("./").rstrip("/") for word in words) - {STOP, "", "\u25cc"}


def is_named(target: str, words: frozenset[str]) -> bool:
    return bool(find_names(target, words))


@lru_cache(maxsize=256)
def find_names(target: str, words: frozenset[str]) -> frozenset[str]:
    """Return the words that name a target: its id, a directory above it, its last part, with or without its ending.

    An ending alone names it as well. Compared by whole words; a single word names a part of a path only as that whole
    part.
    """
    target = target.casefold().rstrip("/")
    if not target or not words:
        return frozenset()
    whole = {word for word in words if word == target or (word[0] in "/~" and word.endswith(f"/{target}"))}
    if "://" in target:
        host = target.split("/")[2]
        return frozenset(words & {host, host.partition(":")[0]} | whole)
    parts = target.split("/")
    above = ("/".join(parts[:end]) for end in range(1, len(parts)))
    ways = {*above, *parts, *list_endings("/".join(parts[:-1]), parts[-1])} - {"", ".", ".."}
    return frozenset(words & ways | whole)


def find_partly_named(targets: Collection[str], words: frozenset[str]) -> set[str]:
    """Return the targets that fewer words name than name another of them, so that others than they were meant.

    A folder is meant with what is in it. Words that name a further target on their own say nothing about the others.

    >>> find_partly_named(["reports/2021.txt", "reports/2024.txt"], frozenset({"reports", "2021"}))
    {'reports/2024.txt'}
    >>> find_partly_named(["app.log", "build/app.log", "build/x.o"], frozenset({"build", "app.log"}))
    set()
    """
    named: dict[frozenset[str], list[str]] = {}
    for target in targets:
        named.setdefault(find_names(target, words), []).append(target)
    alone = {
        few: {word for one in ones for word in (one.casefold(), one.casefold().rpartition("/")[2])}
        for few, ones in named.items()
    }
    partly = set()
    for few, many in permutations(named, 2):
        more = many - few
        if few < many and not any(words <= more and words & alone[words] for words in named):
            above = {name[:end] for name in named[many] for end in range(len(name)) if name[end] == "/"}
            partly |= set(named[few]) - above
    return partly


def list_endings(folder: str, name: str) -> tuple[str, ...]:
    """Return a file's name without its ending, and the ways to name it by the ending: `log`, `.log`, `logs/*.log`."""
    if "." not in name.lstrip("."):
        return (name,)
    stem, _, ending = name.rpartition(".")
    return stem, ending, f".{ending}", f"*.{ending}", f"{folder}/*.{ending}"


def find_namesake(target: str, words: frozenset[str]) -> str:
    """Return the path words name that ends as the target does, "" when they name the target or no such path."""
    last = f"/{target.casefold().rstrip('/').rpartition('/')[2]}"
    twins = [word for word in words if word.endswith(last)]
    return min(twins) if twins and not is_named(target, words) else ""


def find_kept_word(folder: str, words: Set[str]) -> str:
    """Return the first word that names something in a folder or is a file's bare name; "" when none does."""
    inside = "" if folder == "." else f"{folder.casefold().rstrip('/')}/"
    return min((word for word in words if word.startswith(inside) or ("." in word and "/" not in word)), default="")


def is_named_by_user(resource: SurveyedResource, request: RequestFacts, origins: Mapping[str, Origin]) -> bool:
    """Whether the user named a resource: with words of the request, or as its atoms say."""
    return is_named(resource.id, request.things) or origins.get(resource.id) is Origin.USER


def find_target_to_keep(resource: SurveyedResource, request: RequestFacts) -> str:
    """Return what a request says to keep and a deletion or move of a resource would take away, "" when nothing."""
    if resource.access not in (Effect.DELETE, Effect.MOVE):
        return ""
    if is_named(resource.id, request.kept):
        return resource.id
    return find_kept_word(resource.id, request.kept) if resource.kind is ResourceKind.DIRECTORY else ""


Wanted = Literal["yes", "no", "unknown"]


class RequestContract(Struct, frozen=True):
    """What the request wants; `unknown` wherever no phrase says so. `reason` names the phrases that decided."""

    expects_mutation: Wanted = "unknown"
    requires_observation: Wanted = "unknown"
    text_only: Wanted = "unknown"
    reason: str = "no phrase of the policy says what is wanted"


_UNKNOWN = RequestContract()


def read_contract(messages: Sequence[Said], policy: Policy) -> RequestContract:
    """Return the contract of the newest message of the user that matches a phrase; a parent's words give none."""
    for said in reversed(messages):
        if said.actor == "user" and (contract := read_message(said.text, policy)) is not None:
            return contract
    return _UNKNOWN


@remember
def read_message(text: str, policy: Policy) -> RequestContract | None:
    """Return what one message wants, None when it matches no phrase.

    Words alone are wanted when a phrase says so and nothing else in the message wishes for a change.
    """
    words, section = list(split_words(text)), policy.contract
    words = mask_phrases(words, section.exceptions)
    only = next((hit for hit in find_phrases(words, section.text_only) if is_whole_request(hit, words, section)), None)
    words = mask_phrases(words, section.text_only)
    change = next(find_wishes(words, section.mutation, section), "")
    look = next(find_wishes(words, section.observation, section), "")
    observation: Wanted = "yes" if look else "unknown"
    if only is None:
        if not change and not look:
            return None
        said = " and ".join(f"`{phrase}`" for phrase in (change, look) if phrase)
        return RequestContract(
            "yes" if change else "unknown", observation, "no" if change else "unknown", f"it says {said}"
        )
    phrase = only[2]
    target = change or find_destination(words, section, anywhere=split_phrase(phrase)[0] in section.mutation)
    if target:
        wanted: Wanted = "yes" if change else "unknown"
        return RequestContract(wanted, observation, "unknown", f"it says `{phrase}`, but also `{target}`")
    return RequestContract("no", observation, "yes", f"it says `{phrase}`")


def is_whole_request(hit: tuple[int, int, str], words: Sequence[str], section: Contract) -> bool:
    """Whether a phrase stands for the whole request: a prohibition does so only where its clause ends.

    `don't change anything` wants words; `don't change anything in vendor` only sets a limit.
    """
    start, end, _ = hit
    prohibits = any(at == 0 for at, _, _ in find_phrases(words[start:end], section.negations))
    return not prohibits or end == len(words) or words[end] == STOP


def find_wishes(words: Sequence[str], phrases: Sequence[str], section: Contract) -> Iterator[str]:
    """Yield the phrases that are wished for, not asked about (`how to fix`), named (`the fix`) or forbidden."""
    hits = sorted(find_phrases(words, phrases))
    if hits:
        talked_about = {end for _, end, _ in find_phrases(words, (*section.about, *section.determiners))}
        forbidden = find_negated_places(words, section)
        for start, _, phrase in hits:
            if start not in talked_about and start not in forbidden:
                yield phrase


def find_negated_places(words: Sequence[str], section: Contract) -> set[int]:
    """Return the places a negation reaches: to the end of its clause or to a word that turns it round."""
    turns = {start for start, _, _ in find_phrases(words, section.pivots)}
    reached: set[int] = set()
    for _, end, _ in find_phrases(words, section.negations):
        for at in range(end, len(words)):
            if at in turns or at in reached or words[at] == STOP:
                break
            reached.add(at)
    return reached


def find_destination(words: Sequence[str], section: Contract, *, anywhere: bool) -> str:
    """Return the named thing the words are to go to, "" for none; `anywhere` takes any named thing."""
    into = {end for _, end, _ in find_phrases(words, section.destinations)}
    return next((word for at, word in enumerate(words) if is_naming(word) and (anywhere or at in into)), "")
