"""Whether a plan lets text that was read go where a call sends it; pure."""

from __future__ import annotations

from collections.abc import Iterable

from foregate.policy.policy import Policy
from foregate.policy.risk.flows import speaks_of
from foregate.policy.risk.said import SaidValues
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Effect
from foregate.schemas.value import ArgumentValue, Value, format_key, read_forms

_WORD = compile_late(r"[^\W_]+")


def is_planned_flow(
    value: ArgumentValue, facts: CallFacts, flows: Iterable[tuple[str, str]], said: SaidValues, policy: Policy
) -> bool:
    """Whether text that a call takes along may go to all its targets, as `flows` say: what was read, and where to.

    A plan may be the work of whoever wrote what was read, so it opens only what stands in the person's own words as
    well: each telling word for the read, and the value it may go to. Text of which nobody knows where it was read no
    plan opens.
    """
    if not value.seq:
        return False
    places = [to for read, to in flows if is_said_name(read, value.name, said, policy)]
    keys = {format_key(form) for to in places for form in read_forms(to) if said.find(form, to) is not None}
    targets = [one for one in facts.survey.values or () if one.role == "target"]
    return bool(targets) and all(one.source == "said" and one.key in keys for one in targets)


def is_said_name(text: str, name: str, said: SaidValues, policy: Policy) -> bool:
    """Whether a plan's words for a read are the person's own, and words of its target or tool.

    Words for looking, as in `read_mail`, tell nothing, nor do those for a text that is to be written, as in `a note`.
    """
    looks = policy.mandate.effects.get(Effect.OBSERVATION, ())
    words = [word for word in _WORD.findall(text.casefold()) if len(word) > 2 and word not in looks]
    known = set(_WORD.findall(name.casefold()))
    spoken = (word in known and said.find(Value("words", word), word) is not None for word in words)
    return bool(words) and all(spoken) and all(speaks_of(word, said, policy) for word in words)
