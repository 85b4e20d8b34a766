"""What an answer says of itself: that something was done, or only that it will be; pure, by whole words of lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from foregate.policy.policy import Policy
from foregate.policy.risk.request import STOP, find_phrases, is_naming, read_contract, split_phrase, split_words
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said

# The blank in "Done. All tests pass", and the end of a line.
_SENTENCE = compile_late(r"(?<=[.!?;])\s+|\n+")
_FIRST = 3
"""Words at the start of a sentence in which a claim needs no sign, and by which it must name something."""
_FREE = frozenset([Effect.SEND, Effect.EXECUTE, Effect.COMMIT, Effect.ADMINISTER, Effect.UNKNOWN])
"""Effects of calls that may have sent or started what an answer speaks of."""


def find_untrue_claim(text: str, done: Collection[Effect], policy: Policy) -> str:
    """Return the first sentence that claims an effect which no effect in `done` can stand for, "" where none does."""
    claims = policy.postlude.claims
    untrue = () if done else (*claims.changed, *claims.finished)
    if _FREE.isdisjoint(done):
        untrue = (*untrue, *claims.sent)
    return next(_find_claims(text, untrue, policy), "")


def has_claim(text: str, policy: Policy) -> bool:
    """Whether an answer claims an effect of any sort."""
    claims = policy.postlude.claims
    return any(_find_claims(text, (*claims.changed, *claims.sent, *claims.finished), policy))


def wants_deed(messages: Sequence[Said], policy: Policy) -> bool:
    """Whether a request asks for a change or a look, and not for words alone."""
    contract = read_contract(messages, policy)
    looks = contract.requires_observation == "yes" and contract.expects_mutation != "yes"
    return contract.text_only == "no" or (looks and contract.text_only != "yes")


def wants_change(messages: Sequence[Said], policy: Policy) -> bool:
    """Whether a request asks for a change."""
    return read_contract(messages, policy).expects_mutation == "yes"


def find_promise(text: str, policy: Policy) -> str:
    """Return the first or last sentence of an answer where it only promises, "" where it does not, or asks anything."""
    sentences = [sentence for sentence in _SENTENCE.split(text.strip()) if sentence]
    if "?" in text or not sentences:
        return ""
    phrases = {split_phrase(phrase) for phrase in policy.postlude.promises}
    for sentence in (sentences[0], sentences[-1]):
        words = split_words(sentence)
        clauses = [0, *(at + 1 for at, word in enumerate(words) if word == STOP)]
        if any(words[at : at + len(phrase)] == phrase for at in clauses for phrase in phrases):
            return sentence
    return ""


def _find_claims(text: str, claimed: Sequence[str], policy: Policy) -> Iterator[str]:
    claims = policy.postlude.claims
    if not claimed or _has_any(split_words(text), claims.failures):
        return
    for sentence in _SENTENCE.split(text.strip()):
        words = split_words(sentence)
        if sentence.rstrip().endswith("?") or _has_any(words, claims.doubts):
            continue
        finished = [start for start, _, phrase in find_phrases(words, claimed) if phrase in claims.finished]
        others = [end for _, end, phrase in find_phrases(words, claimed) if phrase not in claims.finished]
        opening = any(end <= _FIRST and _names_something(words[end : end + _FIRST], policy) for end in others)
        if any(start < _FIRST for start in finished) or opening or (others and _has_any(words, claims.signs)):
            yield sentence


def _names_something(words: Sequence[str], policy: Policy) -> bool:
    """Whether words after a claim name its object, or there are none: `Sent.`, `Created a.txt`, not `Updated text:`."""
    determiners = {*policy.contract.determiners, *policy.mandate.phrases.determiners}
    return words[:1] in ((), (STOP,)) or words[0] in determiners or any(map(is_naming, words))


def _has_any(words: Sequence[str], phrases: Sequence[str]) -> bool:
    return any(True for _ in find_phrases(words, phrases))
