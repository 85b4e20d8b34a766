"""What a request says about its object: what it names, how destructive and how vague it is; pure, by word lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foregate.policy.policy import Contract, Policy, Scores
from foregate.policy.words import STOP, find, words_of

_MARKS = str.maketrans("`\"\u201c\u201d'", "     ")


@dataclass(frozen=True, slots=True)
class Request:
    """`names` are the words that could name a thing, `vague` the word that stands for a thing without naming one,
    `destructive` the first destructive word, `conflict` two words that contradict each other; "" where none is.
    `confirms` says that the newest message agrees to something said before."""

    names: frozenset[str] = frozenset()
    vague: str = ""
    destructive: str = ""
    conflict: str = ""
    confirms: bool = False


_READ: dict[tuple[tuple[str, ...], str], Request] = {}
_REMEMBERED = 256


def request_of(texts: tuple[str, ...], policy: Policy) -> Request:
    """Return what the messages of a task say together, oldest first; verbs and filling words name nothing."""
    key = (texts, policy.hash)
    request = _READ.get(key)
    if request is None:
        if len(_READ) >= _REMEMBERED:
            _READ.clear()
        request = _READ[key] = _read(texts, policy.scores, policy.contract)
    return request


def _read(texts: Sequence[str], section: Scores, contract: Contract) -> Request:
    words = [word for text in texts for word in (*words_of(text), STOP)]
    quoted = [word for text in texts for word in words_of(unquoted(text))]
    vague = set(section.vague_words)
    empty = vague.union(section.filler_words, section.destructive_words, contract.mutation, contract.observation)
    heard = (word.removeprefix("./").rstrip("/") for word in (*words, *quoted))
    names = frozenset(word for word in heard if word not in empty) - {STOP, "", "\u25cc"}
    stands_for = next((word for word in words if word in vague), "")
    newest = words_of(texts[-1]) if texts else ()
    confirms = any(start == 0 for start, _, _ in find(newest, section.confirmations))
    return Request(
        names,
        stands_for if not names and not confirms else "",
        next((phrase for _, _, phrase in find(words, section.destructive_words)), ""),
        next((f"{a} and {b}" for a, b in section.conflicts if both(words, a, b)), ""),
        confirms,
    )


def unquoted(text: str) -> str:
    """Return a text without its quotation marks: a quoted name is still a name."""
    return text.translate(_MARKS)


def both(words: Sequence[str], first: str, second: str) -> bool:
    """Whether two phrases both occur."""
    return any(find(words, (first,))) and any(find(words, (second,)))


def named(target: str, request: Request) -> bool:
    """Whether a request names a target: its id, a directory above it, its last part, or that without its ending.

    Compared by whole words; a single word names a part of a path only as that whole part.
    """
    target = target.casefold().rstrip("/")
    if not target or not request.names:
        return False
    if target in request.names or any(name[0] in "/~" and name.endswith(f"/{target}") for name in request.names):
        return True
    if "://" in target:
        return any(host in request.names for host in (target.split("/")[2], target.split("/")[2].partition(":")[0]))
    parts = target.split("/")
    above = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return any(word in request.names for word in (*above, *parts, stem(parts[-1])) if word not in ("", ".", ".."))


def stem(name: str) -> str:
    """Return a file's name without its last ending."""
    return name.rpartition(".")[0] if "." in name.lstrip(".") else name
