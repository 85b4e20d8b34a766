"""The chain: every change before the last event is found, with its number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas.errors import InvalidJson, TamperedLog
from foregate.schemas.event import GENESIS, Draft
from foregate.schemas.task_plan import FillRequest, PlanStepChanged
from foregate.telemetry.log import chain
from tests.telemetry.made import CHECKPOINT, NOW, said


def lines(count: int = 6) -> list[tuple[int, str, str]]:
    """Return the rows of an honest log of `count` events."""
    drafts = [said(f"message {number}") for number in range(count)]
    sealed = chain.seal_drafts(drafts, session="s", after=0, prev=GENESIS, policy="p", time=NOW)
    return [(event.seq, text, event.hash) for event, text in sealed]


def first_bad(rows: list[tuple[int, str, str]]) -> int:
    """Return the number the verifier names, 0 when it finds nothing."""
    try:
        list(chain.verify_lines(rows, "s"))
    except TamperedLog as error:
        return error.seq
    return 0


def test_an_honest_log_verifies() -> None:
    assert first_bad(lines()) == 0


@given(st.integers(0, 5), st.integers(0, 10_000), st.integers(1, 127))
def test_any_changed_byte_is_found_with_its_number(index: int, position: int, flip: int) -> None:
    rows = lines()
    seq, text, hash_ = rows[index]
    data = bytearray(text.encode())
    data[position % len(data)] ^= flip
    rows[index] = (seq, data.decode("utf-8", "surrogateescape"), hash_)
    assert first_bad(rows) == index + 1


@given(st.integers(0, 4))
def test_a_deleted_event_before_the_last_is_found(index: int) -> None:
    rows = lines()
    del rows[index]
    assert first_bad(rows) == index + 1


@given(st.integers(0, 5), st.integers(0, 5))
def test_swapped_events_are_found(one: int, other: int) -> None:
    rows = lines()
    rows[one], rows[other] = rows[other], rows[one]
    assert first_bad(rows) == (min(one, other) + 1 if one != other else 0)


@given(st.integers(0, 5))
def test_a_duplicated_event_is_found(index: int) -> None:
    rows = lines()
    rows.insert(index, rows[index])
    assert first_bad(rows) == index + 2


def test_an_event_of_another_session_is_found_even_with_a_right_hash() -> None:
    sealed = chain.seal_drafts([CHECKPOINT], session="t", after=0, prev=GENESIS, policy="p", time=NOW)
    assert first_bad([(1, sealed[0][1], sealed[0][0].hash)]) == 1


@pytest.mark.parametrize("value", [float("nan"), "\ud800", object()])
def test_a_body_that_is_not_the_logs_json_is_refused_before_anything_is_stored(value: object) -> None:
    body = FillRequest(notice="", about={"x": value}, request="")  # type: ignore[dict-item]
    draft = Draft(PlanStepChanged(plan="p", step=1, status="running", ask=body), "foregate")
    with pytest.raises(InvalidJson, match="an event of kind `plan_step_changed` cannot be written"):
        chain.seal_drafts([draft], session="s", after=0, prev="", policy="", time="")
