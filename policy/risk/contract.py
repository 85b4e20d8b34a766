"""What a request wants, by the phrases of the policy; never by a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from foregate.policy import policy as typed
from foregate.policy.policy import Policy
from foregate.policy.risk.request import GONE, STOP, find_phrases, is_naming, split_phrase, split_words
from foregate.schemas.turn import Said

Wanted = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class RequestContract:
    """What the request wants; `unknown` wherever no phrase says so. `reason` names the phrases that decided."""

    expects_mutation: Wanted = "unknown"
    requires_observation: Wanted = "unknown"
    text_only: Wanted = "unknown"
    reason: str = "no phrase of the policy says what is wanted"


def read_contract(messages: Sequence[Said], policy: Policy) -> RequestContract:
    """Return the contract of the newest message of the user that matches a phrase; a parent's words give none."""
    for said in reversed(messages):
        if said.actor == "user" and (contract := read_message(said.text, policy.contract)) is not None:
            return contract
    return RequestContract()


@lru_cache(maxsize=256)
def read_message(text: str, section: typed.Contract) -> RequestContract | None:
    """Return what one message wants, None when it matches no phrase.

    Words alone are wanted when a phrase says so and nothing else in the message wishes for a change.
    """
    words = list(split_words(text))
    for start, end, _ in list(find_phrases(words, section.exceptions)):
        words[start:end] = [GONE] * (end - start)
    only = next((hit for hit in find_phrases(words, section.text_only) if is_whole_request(hit, words, section)), None)
    for start, end, _ in list(find_phrases(words, section.text_only)):
        words[start:end] = [GONE] * (end - start)
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


def is_whole_request(hit: tuple[int, int, str], words: Sequence[str], section: typed.Contract) -> bool:
    """Whether a phrase stands for the whole request: a prohibition does so only where its clause ends.

    `don't change anything` wants words; `don't change anything in vendor` only sets a limit.
    """
    start, end, _ = hit
    prohibits = any(at == 0 for at, _, _ in find_phrases(words[start:end], section.negations))
    return not prohibits or end == len(words) or words[end] == STOP


def find_wishes(words: Sequence[str], phrases: Sequence[str], section: typed.Contract) -> Iterator[str]:
    """Yield the phrases that are wished for, not asked about (`how to fix`), named (`the fix`) or forbidden."""
    hits = sorted(find_phrases(words, phrases))
    if hits:
        talked_about = {end for _, end, _ in find_phrases(words, (*section.about, *section.determiners))}
        forbidden = find_negated_places(words, section)
        for start, _, phrase in hits:
            if start not in talked_about and start not in forbidden:
                yield phrase


def find_negated_places(words: Sequence[str], section: typed.Contract) -> set[int]:
    """Return the places a negation reaches: to the end of its clause or to a word that turns it round."""
    turns = {start for start, _, _ in find_phrases(words, section.pivots)}
    reached: set[int] = set()
    for _, end, _ in find_phrases(words, section.negations):
        at = end
        while at < len(words) and at not in turns and at not in reached and words[at] != STOP:
            reached.add(at)
            at += 1
    return reached


def find_destination(words: Sequence[str], section: typed.Contract, *, anywhere: bool) -> str:
    """Return the named thing the words are to go to, "" when there is none; `anywhere` takes any named thing."""
    into = {end for _, end, _ in find_phrases(words, section.destinations)}
    for at, word in enumerate(words):
        if is_naming(word) and (anywhere or at in into):
            return word
    return ""
