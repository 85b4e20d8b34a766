"""Who said a value first, in Foregate's own words; what a name or a text of somebody else's adds stands at the end."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from foregate.schemas.strict_json import Json, as_object, as_texts, get_list, get_object, get_text
from foregate.schemas.value import format_key, read_forms, read_value

_AROUND = 40
"""Characters of a sentence that are shown on each side of the value it holds."""
_SAYS = {
    "said": "you",
    "mentioned": "you, beside others like it",
    "unclear": "you, beside others like it or for an earlier call",
    "found": "found",
    "configured": "configured before this session",
    "own": "one of several, and you named none",
    "unsaid": "nobody said this",
    "outside": "not you",
}
_COMPOSED = "the model, after it read text from outside"
_AGAINST = "the model, and you said another"
_WRITERS = {True: "others cannot write there", False: "others can write there"}
_TAKEN = "you did not ask to send this; it was read in"
_UNSPOKEN = {
    "lost": "you did not ask for this to go, and git cannot bring it back",
    "secret": "it holds a secret, and you did not ask for that to go along",
}
_ENCODED = "encoded text that nobody said"
_MANDATES = {
    "words": "you asked for this",
    "proposal": "you agreed to this when it was proposed",
    "plan": "the plan made from your words covers this",
    "sheet": "you said yes to this on a sheet",
    "rule": "a rule of the policy stands for your yes",
}
_LONGEST = 600


def explain_source(value: Mapping[str, Json], *, details: bool = False) -> str:
    """Return who said a value of an approval request first; of the person's own sentence a part, without `details`.

    >>> explain_source({"text": "10", "source": "said", "words": "Pay 10 to Bob."})
    'you: “Pay 10 to Bob.”'
    >>> explain_source({"text": "10", "source": "found", "words": "field amount of get_bill"})
    'found: field amount of get_bill'
    >>> explain_source({"text": "10", "source": "outside", "words": "read_mail", "at": "2026-03-01T10:02:07Z"})
    'not you: read_mail, 10:02 UTC; others can write there'
    """
    source, words = get_text(value, "source", ""), get_text(value, "words", "")
    role = get_text(value, "role", "")
    if role in _UNSPOKEN:
        return _UNSPOKEN[role]
    if role == "carried":
        return f"{_TAKEN}: {words}" if words else _ENCODED
    says = _SAYS.get(source, "nobody can tell who said this")
    if source == "outside":
        return f"{says}: {explain_outside_value(value)}"
    if source in ("said", "mentioned", "unclear") and words:
        words = f"“{words if details else excerpt_sentence(words, get_text(value, 'text', ''))}”"
    return f"{says}: {words}" if words else says


def explain_outside_value(value: Mapping[str, Json]) -> str:
    """Return who said a value that is not the person's, and who could have."""
    words, record = get_text(value, "words", ""), as_texts(get_list(value, "record"))
    if words.startswith("nobody "):
        # Out of several texts, or in a form in which none has it.
        return _AGAINST if words.endswith("another") else _COMPOSED
    if words.startswith("text you "):
        return words
    tool, field = (get_text(value, part, "") for part in ("tool", "field"))
    tool, field = tool or "".join(record[:1]) or words or "text from outside", field or "".join(record[1:2])
    where = _describe_place(tool, field, get_text(value, "at", ""))
    return f"{where}; {_WRITERS[False]}"


def explain_candidate(other: Mapping[str, Json]) -> str:
    """Return where a value stands that a person may mean instead, and who could have written it.

    >>> explain_candidate({"field": "email", "tool": "find_contact", "at": "2026-03-01T10:02:07Z", "own": True})
    'find_contact, field email, 10:02 UTC; others cannot write there'
    """
    where = (get_text(other, name, "") for name in ("tool", "field", "at"))
    return f"{_describe_place(*where)}; {_WRITERS[other.get('own') is True]}"


def _describe_place(tool: str, field: str, at: str) -> str:
    return ", ".join(filter(None, (tool, field and f"field {field}", at and f"{at[11:16]} UTC")))


def explain_mandate(mandate: Mapping[str, Json]) -> str:
    """Return who asked for a call, to the person whose words count: a decision's `mandate` as a sentence.

    >>> explain_mandate({"source": "none", "outside": {"to": "read_mail; others can write there"}})
    'you did not say `to` for this (read_mail; others can write there)'
    """
    rests = "; ".join(as_texts(get_list(mandate, "rests")))
    outside = "; ".join(f"`{path}` for this ({who})" for path, who in get_object(mandate, "outside").items())
    says = _MANDATES.get(get_text(mandate, "source"), "")
    if not says:
        return (f"you did not say {outside}" if outside else "your words alone do not ask for exactly this")[:_LONGEST]
    whole = f"{says}: {rests}" if rests else says
    return (f"{whole}; you did not say {outside}" if outside else whole)[:_LONGEST]


def explain_naming(value: Mapping[str, Json], path: str) -> str:
    """Return what a person types to release a value, which is shown as `path`.

    >>> explain_naming({"role": "carried", "words": "settings.ini"}, "text")
    'the name of what `text` was read in'
    """
    text, words, name = (get_text(value, key, "") for key in ("text", "words", "name"))
    match get_text(value, "role", ""):
        case "lost":
            return "the name of what would be lost"
        case "secret":
            return "the name of the file with the secret"
        case "carried" if words and name and text.startswith(name):
            return f"how the text in `{path}` begins"
        case "carried" if words:
            return f"the name of what `{path}` was read in"
        case "carried":
            return f"how the code in `{path}` begins"
    return f"what the record of `{path}` is called" if name else f"the value of `{path}`"


def excerpt_sentence(sentence: str, text: str) -> str:
    """Return the part of a sentence around a text that it holds, its beginning where it does not."""
    place = max(0, sentence.casefold().find(text.casefold()))
    begin, end = max(0, place - _AROUND), place + len(text) + _AROUND
    before, after = sentence[begin:place], sentence[place:end]
    before = f"…{before.partition(' ')[2] or before}" if begin else before
    after = f"{after.rpartition(' ')[0] or after}…" if end < len(sentence) else after
    return (before + after).strip()


def list_to_name(call: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield the values that a person has to type themselves before a call of an approval request may run, each once."""
    values = [as_object(value) for value in get_list(call, "values")]
    for text in dict.fromkeys(as_texts(get_list(call, "to_name"), "to_name")):
        unknown: Mapping[str, Json] = {"path": "value", "text": text, "source": "outside", "words": ""}
        named = (value for value in values if text in (get_text(value, "name", ""), get_text(value, "text", "")))
        yield next(named, unknown)


def is_named_by(typed: str, value: Mapping[str, Json]) -> bool:
    """Whether what a person typed is a value of an approval request, however it is written.

    >>> is_named_by(" Bob@Example.org ", {"text": "bob@example.org"}), is_named_by("bob", {"text": "bob@example.org"})
    (True, False)
    """
    text, key, name = (get_text(value, part, "") for part in ("text", "key", "name"))
    if name and is_named_by(typed, {"text": name}):
        return True
    if not key and (read := read_value(text)) is not None:
        key = format_key(read)
    if key:
        return key in map(format_key, read_forms(typed))
    return bool(typed.strip()) and _fold(typed) == _fold(text)


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())
