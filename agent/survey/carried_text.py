"""What was read and would leave in the texts of a call, as values that somebody has to stand behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice

from foregate.agent.survey.value_source import has_word
from foregate.evidence.ledger import shorten_word
from foregate.evidence.passages import LOST, fold_text
from foregate.evidence.records import Record
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.flows import CarriedText, WhatWasSaid, find_carried_texts
from foregate.policy.risk.said import SaidValues
from foregate.schemas.value import ArgumentValue, Value, format_key, read_value

_MOST = 8
"""Texts of a call that are named to a person; one is enough to hold it."""
_SHOWN = 160
_NAME = 24
"""Characters of a text that name it, where no read does."""


def list_carried_values(
    texts: Sequence[tuple[str, str]],
    targets: Collection[str],
    state: SessionState,
    said: SaidValues,
    policy: Policy,
    *,
    outside: bool,
) -> Iterator[ArgumentValue]:
    """Yield what texts of a call, each with its path, take along; `outside` says that something from outside was read.

    `targets` are the keys of the values the call goes to: a text may go back to whoever wrote the record it stands in.
    Encoded text that some result of the session holds is said by somebody.
    """
    task = state.task
    assert task is not None

    def is_found(value: Value) -> bool:
        if value.kind == "url" and task.reads.find_link(value, said.names) is not None:
            return True
        beside = partial(has_word, value=value, words=said.words)
        return task.reads.find(value, value.normal, beside, need_words=True) is not None

    def goes_back(folded: str) -> bool:
        records = (record for record in task.reads.list_records() if targets and is_written_by(record, targets, policy))
        return any(folded in fold_text(field.text) for record in records for field in record.fields)

    known = WhatWasSaid(task.messages, said, state.written, is_found, goes_back)
    found = find_carried_texts([text for _, text in texts], task.texts, known, policy)
    for carried in islice((one for one in found if one.read is not None or not _is_known(one, state)), _MOST):
        text, read = carried.text, carried.read
        value = read_value(text) or Value("words", text)
        yield ArgumentValue(
            texts[carried.argument][0][:_SHOWN],
            "carried",
            shorten_word(text),
            format_key(value),
            "outside" if outside else "unsaid",
            read.seq if read is not None else 0,
            read.name[:_SHOWN] if read is not None else "",
            name=read.name[:_SHOWN] if read is not None and read is not LOST else text[:_NAME],
        )


def is_written_by(record: Record, keys: Collection[str], policy: Policy) -> bool:
    """Whether a record says that it is by somebody, and by nobody but those these keys stand for."""
    senders = policy.mandate.flows.senders
    by = [field.value for field in record.fields if field.name.casefold() in senders and field.value is not None]
    return set(keys) == {format_key(value) for value in by}


def _is_known(carried: CarriedText, state: SessionState) -> bool:
    return state.atoms.is_known_whole(carried.text)
