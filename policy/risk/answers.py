"""Whether a person's reply answers what they were asked: by naming it, or by a plain yes to what was proposed. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from foregate.policy.policy import Policy
from foregate.policy.risk.request import find_names, find_phrases, is_plain, read_request, split_phrase, split_words
from foregate.schemas.tool_call import SurveyedResource
from foregate.schemas.turn import Turn

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
    """Whether a reply leaves open what it was asked: it asks back, or says that nobody knows."""
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
