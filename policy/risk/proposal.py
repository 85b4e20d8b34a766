"""What a reply of the person's answers: a question by naming it, or a proposal of the model by a plain yes. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.own_words import is_framed, list_deeds, read_own_words, widen_contract
from foregate.policy.risk.pieces import split_pieces
from foregate.policy.risk.places import split_moment
from foregate.policy.risk.request import (
    GONE,
    STOP,
    find_names,
    find_phrases,
    is_plain,
    mask_phrases,
    read_request,
    split_phrase,
    split_words,
)
from foregate.policy.risk.said import SaidValues, read_said
from foregate.policy.risk.sorts import has_form
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import SurveyedResource
from foregate.schemas.turn import Said, Turn
from foregate.schemas.value import Value

_LAST = 2
"""Sentences at the end of an answer in which it can ask for leave."""
# "**K7Q2**" in "cancel **K7Q2**", as models write Markdown; "**" in "src/**/*.py" is none.
_EMPHASIS = compile_late(r"(?<![\w*/])(\*{1,3})(?=[^\s*/])([^*\n]*[^\s*/])\1(?![\w*/])")
# "?" in "Shall I send it?"; that in "a?b" asks nothing.
_ASKING = compile_late(r"\?(?=[\s\"'*_)\]\u201d]*(?:\s|$))")


class Agreed(Struct, frozen=True):
    """A proposal as if the person had made it: the sentence that asks for leave, and all that was proposed."""

    asked: SaidValues
    whole: SaidValues

    def binds(self, value: Value, text: str, used: Collection[Value]) -> bool:
        """Whether the proposal names a value, and no other of its kind but what the call has `used` as well."""
        for part in (self.asked, self.whole):
            others = (forms for one in split_moment(value) for forms in part.list_others(one))
            if part.find(value, text) is not None and all(any(has_form(used, form) for form in one) for one in others):
                return True
        return False

    def names(self, value: Value, text: str) -> bool:
        """Whether the proposal names a value, alone or beside others."""
        return self.whole.find(value, text) is not None

    def names_rival(self, value: Value, used: Collection[Value]) -> bool:
        """Whether the proposal names another thing of a value's sort that the call has not `used` as well."""
        return any(not has_form(used, rival) for rival in self.whole.list_rivals(value))


def find_agreed_answer(answer: Said, messages: Sequence[Said], policy: Policy) -> Said | None:
    """Return the model's last words where they ask for leave and the request is a plain yes to them, None else."""
    if not messages or messages[0].actor != "user" or policy.mandate.mode == "off":
        return None
    reply = messages[0].text
    return answer if find_asking_sentence(answer.text, policy) and is_plain_yes(reply, answer.text, policy) else None


def read_agreed(proposal: Said, policy: Policy) -> Agreed:
    """Return what a proposal says that a person agreed to.

    A sentence that names nothing and only points at what was said before asks about all of it.
    """
    sentence = find_asking_sentence(proposal.text, policy)
    asked, whole = (read_said((Said(proposal.seq, unask(text)),), policy) for text in (sentence, proposal.text))
    return Agreed(asked, whole if not any(asked.list_named()) and is_pointing(sentence, policy) else asked)


def is_pointing(sentence: str, policy: Policy) -> bool:
    """Whether a sentence that asks for leave speaks of no deed, or of one right beside `it` or `this`."""
    words = mask_phrases(split_words(sentence), policy.mandate.proposals)
    deeds = list(find_phrases(words, list_deeds(policy)))
    pointers = {at for at, word in enumerate(words) if word in policy.scores.vague_words}
    return not deeds or (len(deeds) == 1 and any(at in pointers for at in (deeds[0][0] - 1, deeds[0][1])))


def list_asking(proposal: Said, messages: Sequence[Said], policy: Policy) -> tuple[Said, ...]:
    """Return the messages of a request, after the proposal that the first of them agrees to."""
    return (replace(proposal, text=unask(find_proposed(proposal.text, policy))), *messages)


def find_proposed(text: str, policy: Policy) -> str:
    """Return what an answer proposes: the sentence that asks for leave where it names a deed, else all of it."""
    asked = find_asking_sentence(text, policy)
    words = mask_phrases(split_words(asked), policy.mandate.proposals)
    deeds = [phrase for effect, listed in policy.mandate.effects.items() if effect.changes for phrase in listed]
    return asked if any(find_phrases(words, deeds)) else text


def unask(text: str) -> str:
    """Return a text without emphasis in which every question is a statement, for nothing that is asked about counts as
    said."""
    return _ASKING.sub(".", _EMPHASIS.sub(r"\2", text))


def find_asking_sentence(text: str, policy: Policy) -> str:
    """Return the sentence at the end of an answer that asks for leave, "" for an answer that asks for none."""
    _, sentences = split_pieces(unicodedata.normalize("NFKC", text), policy.mandate)
    last = [sentence for sentence in sentences if sentence][-_LAST:]
    phrases = policy.mandate.proposals
    asking = (one for one in reversed(last) if _ASKING.search(one) or any(find_phrases(split_words(one), phrases)))
    return next(asking, "") if phrases else ""


def is_plain_yes(reply: str, proposal: str, policy: Policy) -> bool:
    """Whether a reply agrees: it forbids nothing, and each other word of it stands in the proposal, or it goes on in
    plain words of the person's, as in `yes, with the second card`."""
    section = widen_contract(None, policy)
    if is_open(reply, policy) or not confirms(reply, policy) or read_own_words(reply, policy).pasted:
        return False
    words = mask_phrases(split_words(reply), section.exceptions)
    if any(find_phrases(words, section.negations)):
        return False
    scores, mandate = policy.scores, policy.mandate
    known = {STOP, GONE, *scores.filler_words, *scores.vague_words, *mandate.agreeing, *split_words(proposal)}
    is_bare = set(words) <= known.union(split_all((*scores.confirmations, *mandate.yeses)))
    turns = {*section.pivots}.difference(mandate.lead_ins, mandate.direct.joiners)
    return is_bare or not (any(find_phrases(words, tuple(sorted(turns)))) or is_framed(reply, policy))


def confirms(reply: str, policy: Policy) -> bool:
    """Whether a reply begins by agreeing to what was said before."""
    begins = any(start == 0 for start, _, _ in find_phrases(split_words(reply), policy.mandate.yeses))
    return begins or read_request((reply,), policy).confirms


def split_all(phrases: Iterable[str]) -> set[str]:
    return {word for phrase in phrases for word in split_phrase(phrase)}


_ASKED = "uncertainty_clarification"
_BOUND_TO_TARGET = ("target", "scope")


def list_answered_slots(digest: str, aimed: Iterable[SurveyedResource], turn: Turn, policy: Policy) -> tuple[str, ...]:
    """Return the slots of an earlier question that the person has answered for the call with this digest.

    A target is answered by a reply that names it, or by a plain yes to this very call; so is how far the call may go,
    where both were asked for. Any other slot is answered by a reply that is no question and does not say that nobody
    knows. `aimed` are the resources of the call.
    """
    replies = tuple(said.text for said in turn.user_messages[1:] if said.actor == "user")
    if policy.mandate.mode == "off" or not replies:
        return turn.slots_answered
    said = [text for text in replies if not is_open(text, policy)]
    ids = [resource.id for resource in aimed]
    was_asked = any((held.digest, held.code) == (digest, _ASKED) for held in turn.holds)
    if any(_names_one(text, ids, policy) or (was_asked and _is_plain_yes(text, ids, policy)) for text in said):
        return turn.slots_answered
    left = _BOUND_TO_TARGET if "target" in turn.slots_answered else ()
    return tuple(slot for slot in turn.slots_answered if slot not in left and said)


def is_open(text: str, policy: Policy) -> bool:
    """Whether a reply leaves open what it was asked: it asks back, or says that the person does not know."""
    return text.rstrip().endswith("?") or next(find_phrases(split_words(text), policy.mandate.unsure), None) is not None


def _names_one(text: str, ids: Iterable[str], policy: Policy) -> bool:
    things = read_request((text,), policy).things
    return any(find_names(name, things) for name in ids)


def _is_plain_yes(text: str, ids: Iterable[str], policy: Policy) -> bool:
    """Whether a reply agrees and says nothing else: `ok, count the lines` agrees to no deletion."""
    request = read_request((text,), policy)
    deeds = (phrase for effect, listed in policy.mandate.effects.items() if effect.changes for phrase in listed)
    named = {word for name in ids for word in find_names(name, request.things)}
    known = named.union(word for deed in deeds for word in split_phrase(deed))
    return request.confirms and is_plain(text, policy, known)
