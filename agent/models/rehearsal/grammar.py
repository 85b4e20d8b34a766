"""The plain English the rehearsal model understands, as wishes. A small grammar, no language model.

    read FILE · show FILE, FILE           explain FILE · what is in this repository
    list files [in DIR]                   search "TEXT" [in DIR]
    replace "A" with "B" in FILE          fix the typo A -> B in FILE
    create FILE with "TEXT"               append "TEXT" to FILE
    create folder DIR                     rename A to B · move A to B
    delete FILE · delete *.tmp in DIR     delete stale logs in DIR
    run COMMAND WORDS                     status · diff · log
    commit [everything | FILES] with message "M"
    remember [NAME:] TEXT · recall [TEXT] fetch URL
    delegate "REQUEST"
    just tell me ... · write a poem ...   (words only)
    clean this up                         (too vague to act on)

Several wishes may stand in one message, one per line or joined by `then`, `;`, a comma or `and`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from foregate.agent.models.rehearsal.patterns import PATTERNS
from foregate.agent.models.rehearsal.wish import Request, Wish, looks_like_path, plain

_VERB = (
    r"(?:add|append|cat|change|clean|commit|correct|create|delegate|delete|describe|diff|download|edit|erase|execute|explain"
    r"|fetch|find|fix|get|grep|list|look|make|move|mv|open|print|put|read|recall|remember|remove|rename|replace|rm|run"
    r"|save|search|show|summari[sz]e|tidy|update|view|what|where|wipe|write)\b"
)
"""Words a new clause begins with after `and`, a comma or a full stop."""

_QUOTES = {'"': '"', "\u201c": "\u201d", "`": "`", "'": "'"}
_COURTESY = re.compile(
    r"^(?:(?:please|kindly|now|first|next|also|finally|lastly|then|and|ok|okay|so|could you|can you|"
    r"would you|will you|i want you to|i would like you to|i'd like you to|let us|let's|you should|wait|well|no|yes|"
    r"right|hm+)\b[,.:!]? *)+",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^ *(?:[-*\u2022]|[0-9]{1,3}[.)]) +")
_JOINT = re.compile(
    rf" *(?:;|\n|,? and then |,? then (?={_VERB})|, then |,? and (?={_VERB})|, (?={_VERB})|"
    rf"(?<![0-9])[.!] (?=(?:then |and )?{_VERB}))",
    re.IGNORECASE,
)
_WORDS_ONLY = re.compile(
    r"\b(?:just|only) (?:tell|explain|describe|answer)\b|\b(?:words|text) only\b|\bin words\b"
    r"|\b(?:explain|describe|answer) only\b|\bwithout changing anything\b"
    r"|\b(?:do not|don't) (?:change|touch) anything\b|\bwrite (?:me )?a (?:poem|haiku|limerick|story)\b",
    re.IGNORECASE,
)
_WORDS_PHRASE = re.compile(
    r"\b(?:just|only) tell me\b[,:]?|\b(?:just|only) (?=explain|describe)|\bin words(?: only)?\b[,:]?"
    r"|\b(?:words|text) only\b[,:]?"
    r"|,? ?\bwithout changing anything\b|[,;]? ?\b(?:do not|don't) (?:change|touch) anything\b",
    re.IGNORECASE,
)


def understand(text: str) -> Request:
    """Return what a message wants. Never raises; what is not understood is a wish with the verb `unknown`."""
    masked, quoted = mask(text)
    words_only = _WORDS_ONLY.search(masked) is not None
    if words_only:
        masked = _WORDS_PHRASE.sub(" ", masked)
    clauses = [clause for part in _JOINT.split(masked) if (clause := tidy(part))]
    wishes = tuple(wish_of(clause, quoted) for clause in joined(clauses))
    return Request(with_context(wishes), words_only)


def joined(clauses: Sequence[str]) -> Iterator[str]:
    """Yield the clauses; a place in front, such as `in a.txt`, belongs to the clause behind it."""
    place = ""
    for clause in clauses:
        if re.fullmatch(r"in \S+", clause, re.IGNORECASE):
            place = clause
            continue
        yield f"{place} {clause}".strip()
        place = ""


def mask(text: str) -> tuple[str, list[str]]:
    """Return the text with quoted passages replaced by marks, and the passages; an open quote is an ordinary sign."""
    text = text.replace("\x00", "").replace("\r", "\n").replace("\t", " ")
    out: list[str] = []
    quoted: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        starts = sign in _QUOTES and (at == 0 or not (text[at - 1].isalnum()))
        end = text.find(_QUOTES[sign], at + 1) if starts else -1
        if end > at + 1 and not (sign == "'" and "\n" in text[at:end]):
            out.append(f"\x00{len(quoted)}\x00")
            quoted.append(text[at + 1 : end])
            at = end + 1
        else:
            out.append(sign)
            at += 1
    return "".join(out), quoted


def tidy(clause: str) -> str:
    """Return a clause without bullet, courtesy and closing punctuation."""
    clause = " ".join(_BULLET.sub("", clause).split())
    clause = _COURTESY.sub("", clause)
    clause = re.sub(r"(?<=\S)[,.!?;:]+$", "", clause).strip()
    return re.sub(r",? please$", "", clause, flags=re.IGNORECASE)


def wish_of(clause: str, quoted: Sequence[str]) -> Wish:
    """Return the wish a clause states."""
    said = plain(clause, quoted)
    if lead := re.match(r"^in (\S+?),? (.+)$", clause, re.IGNORECASE):
        named = plain(lead.group(1), quoted)
        if looks_like_path(named) and " in " not in lead.group(2):
            clause = f"{lead.group(2)} in {lead.group(1)}"
    for pattern, make in PATTERNS:
        if (found := pattern.match(clause)) and (wish := make(found.groups(""), quoted, said)):
            return wish
    return Wish("unknown", said)


def with_context(wishes: tuple[Wish, ...]) -> tuple[Wish, ...]:
    """Return wishes where `it` stands for the path named just before."""
    result: list[Wish] = []
    named = ""
    for wish in wishes:
        if named and wish.target == "it":
            wish = replace(wish, target=named)
        if named and wish.words == ("it",) and wish.verb in ("read", "delete", "commit"):
            wish = replace(wish, words=(named,))
        if wish.verb == "move":
            named = wish.other
            result.append(wish)
            continue
        named = wish.target if looks_like_path(wish.target) else next(filter(looks_like_path, wish.words), named)
        result.append(wish)
    return tuple(result)
