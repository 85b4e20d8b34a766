"""Proving a log: every turn judged again, and the stored bytes it names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from foregate.audit.proving import SessionProof, SessionProver
from foregate.schemas.protocols import Blobs
from foregate.telemetry.log.file_blobs import FileBlobs
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.agent.corpus import BOB
from tests.rewritten import Lines, find_line, record_edits, record_greeting, rewrite_log


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


def prove_forged(log: bytes, folder: Path, change: Callable[[Lines], object]) -> SessionProof:
    """Return what proving a log comes to that somebody wrote anew."""
    path = folder / "events.db"
    path.write_bytes(log)
    rewrite_log(path, "s", change)
    return prove(path)


def test_a_log_as_it_was_recorded_is_proven_with_every_turn_judged_again(edits: bytes, tmp_path: Path) -> None:
    proof = prove_forged(edits, tmp_path, lambda lines: None)
    assert (proof.found.state, proof.turns, proof.otherwise, proof.blobs) == ("verified", 3, 0, None)
    assert proof.scope == "3 turns judged again; stored bytes not checked"


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
