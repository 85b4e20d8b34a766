"""Proving a log: every turn judged again, and the stored bytes it names."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.schemas.protocols import Blobs
from foregate.schemas.session_link import SessionLink
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.snapshots import find_key_file
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.verify import verify_session
from foregate.tuning import rejudging
from foregate.tuning.piece_store import PieceStore
from foregate.tuning.pieces import SessionPiece
from foregate.tuning.proving import SessionProof, SessionProver
from foregate.tuning.rejudging import JudgedCounts, JudgedMarks, open_judged_marks
from tests.agent.corpus import BOB
from tests.agent.world import World
from tests.rewritten import Lines, find_line, record_edits, record_greeting, rewrite_log
from tests.telemetry.log.test_parts import HASH, began
from tests.telemetry.made import NOW


@pytest.fixture(scope="module")
def edits(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A closed log with a session of edits."""
    path = tmp_path_factory.mktemp("edits") / "events.db"
    asyncio.run(record_edits(path))
    return path.read_bytes()


@pytest.fixture(scope="module")
def greeting(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A closed log with a session that sends what the person asked for."""
    path = tmp_path_factory.mktemp("greeting") / "events.db"
    asyncio.run(record_greeting(path))
    return path.read_bytes()


def prove(path: Path, *, blobs: Blobs | None = None, judges: bool = True) -> SessionProof:
    """Return what proving session `s` of the log at `path` comes to."""
    with closing(SqliteLog(path)) as log:
        (proof,) = SessionProver(log, blobs, judges).prove(["s"])
    return proof


def prove_with_marks(path: Path, *, anew: bool = False) -> SessionProof:
    """Return the same with the marks that earlier runs kept beside the log."""
    with closing(SqliteLog(path)) as log, open_judged_marks(log, anew=anew) as marks:
        (proof,) = SessionProver(log, marks=marks).prove(["s"])
    return proof


def prove_forged(log: bytes, folder: Path, change: Callable[[Lines], object]) -> SessionProof:
    """Return what proving a log comes to that somebody wrote anew: the same where it was proven before."""
    path = folder / "events.db"
    path.write_bytes(log)
    turns = prove_with_marks(path).turns
    assert prove_with_marks(path).earlier == turns
    rewrite_log(path, "s", change)
    proof = prove(path)
    assert replace(prove_with_marks(path), earlier=0) == proof
    return proof


def test_a_log_as_it_was_recorded_is_proven_with_every_turn_judged_again(edits: bytes, tmp_path: Path) -> None:
    proof = prove_forged(edits, tmp_path, lambda lines: None)
    assert (proof.found.state, proof.turns, proof.otherwise, proof.blobs) == ("verified", 3, 0, None)
    assert proof.scope == "3 turns judged again; no stored files checked"


def test_turns_that_an_earlier_run_found_as_recorded_are_not_judged_again(
    edits: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, judged = tmp_path / "events.db", list[object]()
    path.write_bytes(edits)
    first = prove_with_marks(path)
    call = rejudging.TurnJudge.__call__

    def note(self: rejudging.TurnJudge, piece: SessionPiece) -> rejudging.Rejudgement:
        judged.append(piece)
        return call(self, piece)

    monkeypatch.setattr(rejudging.TurnJudge, "__call__", note)
    again = prove_with_marks(path)
    assert (again, judged) == (replace(first, earlier=3), [])
    assert again.scope == "3 turns judged again, 3 of them by an earlier run; no stored files checked"
    assert (prove_with_marks(path, anew=True), len(judged)) == (first, 1)


def test_a_forged_moved_or_foreign_mark_counts_for_nothing(greeting: bytes, tmp_path: Path) -> None:
    """Somebody who writes the log and what is kept of it, but has not its key, hides no lie."""
    path, kept = tmp_path / "events.db", tmp_path / "tuning.db"
    path.write_bytes(greeting)
    prove_with_marks(path)
    rewrite_log(path, "s", put_other_words_in_the_persons_mouth)
    wanted = prove(path)
    assert not wanted.found.ok
    with closing(SqliteLog(path)) as log:
        seq, hash_ = log.head_anchor("s")
    with closing(sqlite3.connect(kept)) as file, file:
        file.execute("UPDATE pages SET seq = ?, hash = ?", (seq, hash_))  # the honest mark, put on the forged end
    assert prove_with_marks(path) == wanted
    with closing(SqliteLog(path)) as log, closing(PieceStore(log, kept)) as pieces:  # one of another key
        forger = JudgedMarks(pieces, b"x" * 32)
        forger.keep(SessionPiece("s", 0, seq, ()), {seq: hash_}, JudgedCounts({"0.2.0": 3}, {}))
        forger.commit()
    assert prove_with_marks(path) == wanted
    find_key_file(path).unlink()  # without its key nothing that was kept counts
    assert prove_with_marks(path) == wanted


def test_a_log_that_may_only_be_read_and_has_no_key_is_judged_whole(edits: bytes, tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(edits)
    with closing(SqliteLog(path, create=False, read_only=True)) as log, open_judged_marks(log, anew=False) as marks:
        assert marks is None
        assert not find_key_file(path).exists()


def put_other_words_in_the_persons_mouth(lines: Lines) -> None:
    find_line(lines, "user_message")["body"]["text"] = f"say nothing to {BOB}"


def leave_out_whom_the_person_named(lines: Lines) -> None:
    find_line(lines, "user_message")["body"]["text"] = "send a greeting to whom you like"


def tell_another_reason(lines: Lines) -> None:
    find_line(lines, "turn_judged")["body"]["judgement"]["decisions"][0]["summary"] = "nothing to see"


@pytest.mark.parametrize("lie", [put_other_words_in_the_persons_mouth, tell_another_reason])
def test_a_lie_that_no_event_contradicts_is_found_where_the_turn_is_judged_again(
    greeting: bytes, tmp_path: Path, lie: Callable[[Lines], object]
) -> None:
    proof = prove_forged(greeting, tmp_path, lie)
    first = proof.found.defects[0]
    assert first.code == "other_judgement"
    assert proof.found.sentence.startswith(f"tampered at {first.seq}: event {first.seq}: judged again")
    assert prove(tmp_path / "events.db", judges=False).found.ok


def test_a_text_without_the_name_it_is_said_to_have_brought_is_found(greeting: bytes, tmp_path: Path) -> None:
    found = prove_forged(greeting, tmp_path, leave_out_whom_the_person_named).found
    assert "other_source" in {one.code for one in found.defects}
    assert any(f"`{BOB}` is said to be named first in event 3, which does not" in one.message for one in found.defects)


def test_turns_that_another_version_judged_otherwise_are_told_and_no_defect(greeting: bytes, tmp_path: Path) -> None:
    def of_another_version(lines: Lines) -> None:
        put_other_words_in_the_persons_mouth(lines)
        for line in lines:
            line["foregate"] = "0.0.9"

    proof = prove_forged(greeting, tmp_path, of_another_version)
    assert (proof.found.state, proof.otherwise) == ("verified", 1)
    assert proof.remarks[0].startswith("judged by Foregate 0.0.9; 1 of ")


def test_a_log_whose_turns_cannot_be_put_together_is_named_and_no_crash(edits: bytes, tmp_path: Path) -> None:
    def lose_a_response(lines: Lines) -> None:
        find_line(lines, "turn_judged")["body"]["turn"]["response"] = 2

    assert "not_judged" in {defect.code for defect in prove_forged(edits, tmp_path, lose_a_response).found.defects}


def read_otherwise(lines: Lines) -> None:
    find_line(lines, "tool_finished")["body"]["content"] = "the cat"


def let_nobody_name_it(lines: Lines) -> None:
    find_line(lines, "user_message")["body"]["text"] = "mend it"


def give_other_arguments(lines: Lines) -> None:
    call = find_line(lines, "model_response", 2)["body"]["calls"][0]
    call["arguments"] = call["arguments"].replace("cats", "dogs")


def allow_what_was_denied(lines: Lines) -> None:
    (verdict,) = find_line(lines, "turn_judged", 1)["body"]["judgement"]["verdicts"]
    verdict["standing"] = "allow"


def answer_by_another(lines: Lines) -> None:
    find_line(lines, "need_answered", 1)["body"]["answer"]["value"]["by"] = "program"


def swap(first: str, second: str) -> Callable[[Lines], object]:
    """Return what exchanges the first events of two kinds, with the times of the places where they stand then."""

    def change(lines: Lines) -> None:
        kinds = [line["kind"] for line in lines]
        one, two = kinds.index(first), kinds.index(second)
        lines[one], lines[two] = lines[two], lines[one]
        lines[one]["time"], lines[two]["time"] = lines[two]["time"], lines[one]["time"]

    return change


@pytest.mark.parametrize(
    "lie",
    [
        read_otherwise,
        let_nobody_name_it,
        give_other_arguments,
        allow_what_was_denied,
        answer_by_another,
        swap("need_raised", "need_answered"),
        swap("tool_started", "tool_finished"),
        swap("turn_judged", "tool_started"),
        swap("model_response", "turn_judged"),
        swap("user_message", "model_response"),
    ],
)
def test_a_log_written_anew_with_one_lie_in_it_is_tampered(
    edits: bytes, tmp_path: Path, lie: Callable[[Lines], object]
) -> None:
    assert prove_forged(edits, tmp_path, lie).found.state == "tampered"


async def test_what_is_said_of_arguments_is_the_same_when_judged_again(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "events.db")) as log:
        world = World(log=cast(MemoryLog, log))
        wrong = ("edit_file", {"file": "a.txt", "old": "teh"})
        session = await world.open([calls(wrong), calls(wrong), says("I cannot")], name="s")
        await run(session, "mend a.txt")
        await session.close()
    assert prove(tmp_path / "events.db").found.defects == ()


async def test_a_session_that_goes_on_with_another_is_bound_to_how_that_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    await record_greeting(path, "a")
    with closing(SqliteLog(path)) as log:
        seq, hash_ = log.head_anchor("a")
        for name, link in {"s": SessionLink("a", seq, hash_), "no": SessionLink("b", seq, hash_)}.items():
            lease = await log.claim(name, create=True)
            await log.append(lease, [began(follows=link)], policy=HASH, time=NOW)
            await log.release(lease)
        (unknown,) = SessionProver(log).prove(["no"])
    assert unknown.found.sentence.startswith("tampered at 1: event 1: it follows session `b`, which is not in")
    assert prove(path).found.state == "unproven"
    rewrite_log(path, "a", lambda lines: find_line(lines, "task_ended")["body"].update(note="nothing"))
    with closing(SqliteLog(path)) as log:
        assert verify_session(log, "a").ok
    assert [one.code for one in prove(path).found.defects] == ["other_earlier_session"]


async def test_stored_bytes_that_are_gone_or_changed_are_named_by_their_event(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    await record_edits(tmp_path / "events.db", blobs=blobs)
    whole = prove(tmp_path / "events.db", blobs=blobs, judges=False)
    assert (whole.found.state, whole.turns) == ("verified", None)
    files = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert whole.blobs == len(files) > 2
    files[0].unlink()
    files[1].write_bytes(b"something else")
    found = prove(tmp_path / "events.db", blobs=blobs, judges=False).found
    assert (found.state, [one.code for one in found.defects]) == ("tampered", ["other_bytes"] * 2)
    assert all(f"event {one.seq} names bytes that are gone or changed" in one.message for one in found.defects)
    assert prove(tmp_path / "events.db", judges=False).found.ok
