"""Whether a sentence of the person's says, by the words right before them, that something goes to another. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from foregate.policy.policy import Policy
from foregate.policy.risk.claims import wants_change
from foregate.policy.risk.own_words import read_own_words, widen_contract
from foregate.policy.risk.request import read_contract, split_phrase
from foregate.policy.risk.said import SaidMessage, SaidValues, list_asking_phrases
from foregate.policy.risk.sorts import is_same_shape
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, trim_text

Named = tuple[int, frozenset[Value]]
"""The place of a value's piece in its message, and each way to read it."""


def is_for_another(
    target: Collection[Value], targets: Collection[Value], effect: Effect, tool: str, said: SaidValues, policy: Policy
) -> bool:
    """Whether the person's words ask for an effect for another value of the sort of `target`, in a sentence that only
    mentions this one: in `tell ben@… that carla@… leaves` Carla is not who is told.

    `target` is each way to read the value, `targets` holds all that the call goes to; another of those is no other.
    Only what stands right before a value tells whom a deed is for: a word that asks for the effect, or one of
    `mandate.addressing` in a sentence that asks. A value that follows another, or `and`, is one more of them.
    """
    reading = _AddressReading(effect, tool, policy)
    rivals = False
    for message in said.messages if policy.mandate.addressing else ():
        named = list(message.list_named())
        for at, forms in named:
            if forms.isdisjoint(target):
                continue
            if reading.is_addressed(message, at) or reading.goes_on(message, at, named):
                return False
            others = _list_others(message, at, named, target)
            rivals = rivals or any(
                forms.isdisjoint(targets) and reading.is_addressed(message, place) for place, forms in others
            )
    return rivals


def _list_others(message: SaidMessage, at: int, named: Sequence[Named], target: Collection[Value]) -> Iterator[Named]:
    """Yield the values of a sentence that could stand where the one at a place stands."""
    for place, forms in named:
        same = message.words.pieces[place].sentence == message.words.pieces[at].sentence
        if same and place != at and any(is_same_shape(one, other) for one in target for other in forms):
            yield place, forms


def wants_only_words(messages: Sequence[Said], policy: Policy) -> bool:
    """Whether what the person said asks a question, or for a look, and by no known word for a change."""
    if wants_change(messages, policy):
        return False
    own = [read_own_words(said.text, policy) for said in messages if said.actor == "user"]
    return any(one.asked for one in own) or read_contract(messages, policy).requires_observation == "yes"


class _AddressReading:
    """Reads what stands before a value, for one effect."""

    def __init__(self, effect: Effect, tool: str, policy: Policy) -> None:
        self.section = policy.mandate
        self.phrases = [*map(split_phrase, list_asking_phrases(effect, tool, policy))]
        self.determiners = {*widen_contract(None, policy).determiners}

    def is_addressed(self, message: SaidMessage, at: int) -> bool:
        """Whether a word that asks stands right before a place, or one for whom it is in a sentence that asks."""
        before = _list_before(message, at)
        if before[-1:] and before[-1] in self.section.addressing:
            return any(self.asks(before[:end]) for end in range(len(before)))
        return self.asks(before)

    def asks(self, words: Sequence[str]) -> bool:
        """Whether words end with a phrase that asks for the effect and is not the name of a thing, as `the mail`."""
        for phrase in self.phrases:
            if phrase and tuple(words[-len(phrase) :]) == phrase:
                return words[-len(phrase) - 1 : -len(phrase)] == [] or (words[-len(phrase) - 1] not in self.determiners)
        return False

    def goes_on(self, message: SaidMessage, at: int, named: Sequence[Named]) -> bool:
        """Whether a value is one more of several: after `and`, or right after another value."""
        before = _list_before(message, at)
        return any(place == at - 1 for place, _ in named) or (bool(before) and before[-1] in self.section.lead_ins)


def _list_before(message: SaidMessage, at: int) -> list[str]:
    """Return the words of a sentence before a place, folded."""
    pieces = message.words.pieces
    begin = next((place for place in range(at) if pieces[place].sentence == pieces[at].sentence), at)
    return [trim_text(piece.text).casefold() if piece.kind == "word" else "" for piece in pieces[begin:at]]
