"""Verifying: every change of a stored log is found with its number, and so is an effect nobody allowed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import SessionEnded
from foregate.telemetry.log import chain
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import Verification, parse_head, verify_rows, verify_session
from tests.conftest import OpenSession
from tests.rewritten import Lines, chain_anew
from tests.telemetry.made import NOW, said

COUNT = 6


async def write(path: Path, *, ended: bool = False) -> SqliteLog:
    """Return an open log at `path` with an honest session `s` of COUNT events."""
    log = SqliteLog(path)
    lease = await log.claim("s", create=True)
    drafts = [said(f"message ☃ {number}") for number in range(COUNT)]
    if ended:
        drafts[-1] = Draft(SessionEnded(events=COUNT), "foregate")
    await log.append(lease, drafts, policy="p", time=NOW)
    await log.release(lease)
    return log


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a closed log with one honest session."""
    path = tmp_path_factory.mktemp("log") / "events.db"
    asyncio.run(write(path)).close()
    return path.read_bytes()


def tampered(stored: bytes, folder: Path, *statements: tuple[str, tuple[object, ...]]) -> Verification:
    """Return what verifying says after somebody ran statements on a copy of the file."""
    path = folder / "copy.db"
    for name in ("copy.db", "copy.db-wal", "copy.db-shm"):
        (folder / name).unlink(missing_ok=True)
    path.write_bytes(stored)
    intruder = sqlite3.connect(path)
    with intruder:
        for statement, values in statements:
            intruder.execute(statement, values)
    intruder.close()
    log = SqliteLog(path)
    result = verify_session(log, "s")
    log.close()
    return result


@given(st.integers(1, COUNT), st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_of_a_stored_event_is_found(
    stored: bytes, tmp_path_factory: pytest.TempPathFactory, seq: int, position: int, flip: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    rows = dict(rows_of(stored, folder))
    data = bytearray(rows[seq].encode())
    data[position % len(data)] ^= flip
    change = ("UPDATE events SET text = CAST(? AS TEXT) WHERE seq = ?", (bytes(data), seq))
    assert first_bad(tampered(stored, folder, change)) == seq


def rows_of(stored: bytes, folder: Path) -> list[tuple[int, str]]:
    """Return number and text of the stored events."""
    path = folder / "look.db"
    path.write_bytes(stored)
    reader = sqlite3.connect(path)
    rows = reader.execute("SELECT seq, text FROM events ORDER BY seq").fetchall()
    reader.close()
    return rows


def first_bad(result: Verification) -> int:
    """Return the first bad number, 0 for none."""
    return result.defects[0].seq if result.defects else 0


@pytest.mark.parametrize("seq", range(1, COUNT + 1))
def test_a_changed_hash_is_found(stored: bytes, tmp_path: Path, seq: int) -> None:
    change = ("UPDATE events SET hash = replace(hash, substr(hash, 1, 1), 'z') WHERE seq = ?", (seq,))
    assert first_bad(tampered(stored, tmp_path, change)) == seq


@pytest.mark.parametrize("seq", range(1, COUNT + 1))
def test_a_deleted_event_is_found_even_the_last(stored: bytes, tmp_path: Path, seq: int) -> None:
    result = tampered(stored, tmp_path, ("DELETE FROM events WHERE seq = ?", (seq,)))
    assert first_bad(result) == seq
    assert result.defects[0].code == ("cut_tail" if seq == COUNT else "chain_broken")


@pytest.mark.parametrize("seq", range(1, COUNT))
def test_a_deleted_event_is_found_when_the_others_close_ranks(stored: bytes, tmp_path: Path, seq: int) -> None:
    result = tampered(
        stored,
        tmp_path,
        ("DELETE FROM events WHERE seq = ?", (seq,)),
        ("UPDATE events SET seq = -seq WHERE seq > ?", (seq,)),
        ("UPDATE events SET seq = -seq - 1 WHERE seq < 0", ()),
    )
    assert first_bad(result) == seq


@given(st.lists(st.integers(1, COUNT), min_size=2, max_size=2, unique=True))
def test_swapped_events_are_found(stored: bytes, tmp_path_factory: pytest.TempPathFactory, pair: list[int]) -> None:
    one, other = pair
    result = tampered(
        stored,
        tmp_path_factory.getbasetemp(),
        ("UPDATE events SET seq = 1000 WHERE seq = ?", (one,)),
        ("UPDATE events SET seq = ? WHERE seq = ?", (one, other)),
        ("UPDATE events SET seq = ? WHERE seq = 1000", (other,)),
    )
    assert first_bad(result) == min(one, other)


@pytest.mark.parametrize("seq", range(1, COUNT))
def test_a_duplicated_event_is_found(stored: bytes, tmp_path: Path, seq: int) -> None:
    result = tampered(
        stored,
        tmp_path,
        ("UPDATE events SET seq = -seq WHERE seq > ?", (seq,)),
        ("UPDATE events SET seq = 1 - seq WHERE seq < 0", ()),
        ("INSERT INTO events (session, seq, text, hash) SELECT session, seq + 1, text, hash FROM events WHERE seq = ?",
         (seq,)),
    )  # fmt: skip
    assert first_bad(result) == seq + 1


def test_an_event_moved_to_another_session_is_found(stored: bytes, tmp_path: Path) -> None:
    assert first_bad(tampered(stored, tmp_path, ("UPDATE events SET session = 't' WHERE seq = 3", ()))) == 3


async def test_an_open_session_is_consistent_and_an_ended_one_verified(tmp_path: Path) -> None:
    log = await write(tmp_path / "open.db")
    assert verify_session(log, "s").sentence == f"consistent: {COUNT} events; completeness of the tail unproven"
    log.close()
    log = await write(tmp_path / "ended.db", ended=True)
    assert verify_session(log, "s").sentence == f"verified: {COUNT} events"
    log.close()


async def test_a_kept_head_proves_the_tail_and_finds_a_cut_or_rewritten_one(tmp_path: Path) -> None:
    log = await write(tmp_path / "log.db")
    rows = list(log.lines("s"))
    log.close()
    head = parse_head(verify_rows(rows, "s").head)
    assert verify_rows(rows, "s", head).sentence == f"verified: {COUNT} events"
    assert verify_rows(rows, "s", (2, rows[1][2])).proven
    cut = verify_rows(rows[:-2], "s", head)
    assert (cut.proven, first_bad(cut), cut.defects[0].code) == (False, COUNT - 1, "cut_tail")
    other = verify_rows(rows, "s", (2, rows[2][2]))
    assert (other.proven, first_bad(other), other.defects[0].code) == (False, 2, "other_head")


async def test_an_ended_session_whose_tail_is_cut_is_found(tmp_path: Path) -> None:
    (await write(tmp_path / "log.db", ended=True)).close()
    cut = ("DELETE FROM events WHERE seq > 3", ())
    result = tampered((tmp_path / "log.db").read_bytes(), tmp_path, cut)
    assert (first_bad(result), result.defects[0].code) == (4, "cut_tail")


@pytest.mark.parametrize(
    "text", ["", "3", "3:abc", "x:" + "0" * 64, "-1:" + "0" * 64, "3:" + "g" * 64, "³:" + "0" * 64]
)
def test_a_head_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no head"):
        parse_head(text)


@pytest.fixture
async def session_events(folder: Path, open_session: OpenSession, tmp_path: Path) -> list[Event]:
    """The events of a real session: an edit held, its remedy, the edit, a read beside an unknown tool."""
    (folder / "a.txt").write_text("teh cat")
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    read = ("read_file", {"path": "a.txt"})
    log = SqliteLog(tmp_path / "log.db")
    session = await open_session(calls(edit), calls(edit), calls(read, ("nope", {})), says("done"), log=log)
    await run(session, "fix the typo in a.txt")
    await session.close()
    assert verify_session(log, "s").sentence == f"verified: {session.state.seq} events"
    events = list(log.events("s"))
    log.close()
    assert (folder / "a.txt").read_text() == "the cat"
    return events


def told(events: Sequence[Event], change: Callable[[Lines], None]) -> list[tuple[int, str]]:
    """Return number and name of the defects in a log written anew by somebody who can also compute hashes."""

    def checked(lines: Lines) -> None:
        change(lines)
        for seq, line in enumerate(lines, start=1):
            assert line["kind"] != "model_response" or line["seq"] == seq, "the change moved a response"

    texts = [strict_json.encode_record(chain.build_header(event)).decode() for event in events]
    return [(defect.seq, defect.code) for defect in verify_rows(chain_anew(texts, checked), "s").defects]


def place(lines: Lines, kind: str, number: int = 0) -> int:
    """Return where the n-th event of a kind is; negative counts from the end."""
    return [index for index, line in enumerate(lines) if line["kind"] == kind][number]


NOTHING = {"kind": "checkpoint", "body": {"undo": "c1.1", "steps": []}}
"""An event that says nothing of the calls."""


def test_a_log_written_anew_without_a_change_is_sound(session_events: list[Event]) -> None:
    assert told(session_events, lambda lines: None) == []


def test_an_effect_nobody_allowed_is_found(session_events: list[Event]) -> None:
    where: list[int] = []

    def held(lines: Lines) -> None:
        index = place(lines, "tool_started", 1)
        where.append(index + 1)
        judged = lines[index]["body"]["permit"]["judged"]
        for verdict in lines[judged - 1]["body"]["judgement"]["verdicts"]:
            verdict["standing"] = "hold"

    assert told(session_events, held) == [(where[0], "no_permit")]


@pytest.mark.parametrize("key", ["digest", "judged", "survey_hash", "call"])
def test_a_permit_for_something_else_is_found(session_events: list[Event], key: str) -> None:
    def other(lines: Lines) -> None:
        permit = lines[place(lines, "tool_started", 1)]["body"]["permit"]
        permit[key] = 1 if key == "judged" else "0" * 64

    assert [code for _, code in told(session_events, other)] == ["no_permit"]


def test_arguments_exchanged_after_judging_are_found(session_events: list[Event]) -> None:
    def exchanged(lines: Lines) -> None:
        lines[place(lines, "model_response", 1)]["body"]["calls"][0]["arguments"] = (
            '{"path":"b.txt","old":"x","new":"y"}'
        )

    assert next(code for _, code in told(session_events, exchanged)) == "other_call"


def test_a_permit_used_twice_is_found(session_events: list[Event]) -> None:
    def twice(lines: Lines) -> None:
        first, second = place(lines, "tool_started", 1), place(lines, "tool_finished", 1)
        last = place(lines, "task_ended")
        lines[last:last] = [lines[first], lines[second]]

    codes = {code for _, code in told(session_events, twice)}
    assert "permit_used_twice" in codes


def test_a_verdict_looser_than_a_gates_ruling_is_found(session_events: list[Event]) -> None:
    def loosened(lines: Lines) -> None:
        for verdict in lines[place(lines, "turn_judged")]["body"]["judgement"]["verdicts"]:
            verdict["standing"] = "allow"

    assert (
        session_events[[e.kind for e in session_events].index("turn_judged")].seq,
        "allowed_against_ruling",
    ) in told(session_events, loosened)


def test_a_survey_exchanged_after_judging_is_found(session_events: list[Event]) -> None:
    def exchanged(lines: Lines) -> None:
        lines[place(lines, "turn_judged")]["body"]["turn"]["surveys"][0]["problem"] = "none at all"

    assert [code for _, code in told(session_events, exchanged)] == ["other_survey"]


def test_an_answer_given_twice_is_found(session_events: list[Event]) -> None:
    def twice(lines: Lines) -> None:
        index = place(lines, "call_answered", -1)
        lines[index + 1 :] = [lines[index]]

    assert [code for _, code in told(session_events, twice)] == ["answered_twice"]


def test_a_call_without_an_answer_is_found(session_events: list[Event]) -> None:
    def silent(lines: Lines) -> None:
        lines[place(lines, "call_answered", -1)].update(NOTHING)

    assert [code for _, code in told(session_events, silent)] == ["no_answer"]


def test_an_effect_told_as_not_run_is_found(session_events: list[Event]) -> None:
    def denied(lines: Lines) -> None:
        line, answer = lines[place(lines, "tool_finished", 1)], lines[place(lines, "call_answered", -1)]
        line.update(kind="call_answered", body={**answer["body"], "call": line["body"]["call"]})

    assert next(code for _, code in told(session_events, denied)) == "answered_while_running"


def test_a_result_of_a_call_that_never_started_is_found(session_events: list[Event]) -> None:
    def invented(lines: Lines) -> None:
        lines[place(lines, "tool_started", 1)].update(NOTHING)

    assert next(code for _, code in told(session_events, invented)) == "ended_without_start"


def test_an_effect_without_an_outcome_is_found_once_the_session_goes_on(session_events: list[Event]) -> None:
    def lost(lines: Lines) -> None:
        lines[place(lines, "tool_finished", 1)].update(NOTHING)

    assert {"no_answer", "no_outcome"} <= {code for _, code in told(session_events, lost)}


def test_a_log_that_stops_in_the_middle_of_a_call_is_consistent(session_events: list[Event]) -> None:
    def stopped(lines: Lines) -> None:
        del lines[place(lines, "tool_started", 1) + 1 :]

    assert told(session_events, stopped) == []


@pytest.mark.parametrize("kind", ["model_response", "turn_judged", "tool_started", "tool_finished", "call_answered"])
def test_a_body_that_cannot_be_read_is_found_and_not_a_crash(session_events: list[Event], kind: str) -> None:
    def empty(lines: Lines) -> None:
        lines[place(lines, kind)]["body"] = {"permit": 3, "calls": 3, "turn": []}

    found = told(session_events, empty)
    assert next(code for _, code in found) == "malformed_event"
