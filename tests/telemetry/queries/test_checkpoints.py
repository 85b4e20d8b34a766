"""Signed checkpoints: what they prove of a log, and what of them is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foregate.schemas import strict_json
from foregate.schemas.errors import TamperedLog, UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.checkpoints import CheckpointFile, SignedCheckpoint, build_proof, write_checkpoint
from foregate.telemetry.queries.erase import erase_sessions
from foregate.telemetry.queries.signing import SigningKey, read_public
from foregate.telemetry.queries.verify import verify_session
from tests.rewritten import Lines, find_line, rewrite_log
from tests.telemetry.log.test_parts import run
from tests.telemetry.made import NOW
from tests.telemetry.queries.kept import Kept


class Signed:
    """A log of sessions `a`, which has ended, and `b`, a key, and a file of checkpoints elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.kept = Kept(folder / "home")
        self.key = SigningKey.create(folder / "key.pem")
        self.file = folder / "checkpoints"

    def sign(self, *sessions: str, key: SigningKey | None = None) -> SignedCheckpoint:
        """Append a checkpoint over sessions."""
        with closing(SqliteLog(self.kept.place.events)) as log:
            return write_checkpoint(log, sessions or ("a", "b"), self.file, key or self.key, time=NOW, by="ann@host")

    def read(self) -> CheckpointFile:
        """Return the checkpoints of the file."""
        return CheckpointFile.read(self.file, self.key.public)

    def find_states(self) -> list[str]:
        """Return how both sessions stand against the checkpoints."""
        anchors = self.read().list_anchors()
        with closing(SqliteLog(self.kept.place.events)) as log:
            return [verify_session(log, name, heads=anchors.get(name, ())).state for name in ("a", "b")]


@pytest.fixture
async def signed(tmp_path: Path) -> Signed:
    """A log with one checkpoint over it."""
    found = Signed(tmp_path)
    await found.kept.write("a", "one", "two", ended=NOW)
    await found.kept.write("b", "three")
    found.sign()
    return found


async def test_a_checkpoint_proves_the_tail_of_a_session_that_is_open(signed: Signed) -> None:
    assert signed.find_states() == ["verified", "verified"]
    with closing(SqliteLog(signed.kept.place.events)) as log:
        assert verify_session(log, "b").state == "unproven"
    assert [head.session for head in signed.sign().heads] == []
    await signed.kept.write("c", "four")
    assert [head.session for head in signed.sign("c").heads] == ["c"]
    newest = signed.read().newest
    assert newest is not None
    assert (newest.body.number, newest.body.sessions) == (3, 3)


def test_a_session_written_anew_as_a_whole_is_found_only_by_its_checkpoint(signed: Signed) -> None:
    def lie(lines: Lines) -> None:
        find_line(lines, "user_message")["body"]["text"] = "nothing of the kind"

    rewrite_log(signed.kept.place.events, "a", lie)
    with closing(SqliteLog(signed.kept.place.events)) as log:
        assert verify_session(log, "a").state == "verified"
    assert signed.find_states() == ["tampered", "verified"]
    with pytest.raises(TamperedLog, match="session `a` is not the one that a checkpoint was over"):
        signed.sign()


def test_a_session_cut_off_with_the_noted_head_is_truncated(signed: Signed) -> None:
    rewrite_log(signed.kept.place.events, "b", lambda lines: lines.pop())
    assert signed.find_states() == ["verified", "truncated"]


def test_a_session_that_is_gone_and_a_log_without_any_of_them_are_told_apart(signed: Signed, tmp_path: Path) -> None:
    with closing(SqliteLog(signed.kept.place.events)) as log:
        for table in ("events", "leases"):
            run(log, f"DELETE FROM {table} WHERE session = 'b'")
    assert signed.read().find_gone(["a"]) == ["b"]
    with pytest.raises(TamperedLog, match="session `b` is gone"):
        signed.sign("a")
    with pytest.raises(
        TamperedLog, match=r"none of the 2 sessions of the checkpoints .* they are those of another log"
    ):
        signed.read().find_gone(["x"])


async def test_a_session_that_was_erased_stays_proven(signed: Signed) -> None:
    place, store = signed.kept.place, signed.kept.store
    await erase_sessions(place, store, ["a"], kinds=(), at=NOW, by="ann", why="")
    assert signed.find_states() == ["verified", "verified"]
    with closing(SqliteLog(place.events)) as log:
        assert (proof := build_proof(log, "a", 2, signed.read()))["event"] == ""
        assert proof["hash"] == next(hash_ for seq, _, hash_ in log.lines("a") if seq == 2)
    run(SqliteLog(place.events), "UPDATE events SET hash = ? WHERE session = 'a' AND seq = 2", "0" * 64)
    with closing(SqliteLog(place.events)) as log, pytest.raises(TamperedLog):
        build_proof(log, "a", 2, signed.read())


def change_line(number: int, change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """Return what changes a line of a file of checkpoints and writes it as Foregate does."""

    def apply(data: bytes) -> bytes:
        lines = data.splitlines()
        change(line := json.loads(lines[number]))
        lines[number] = strict_json.canonical(line)
        return b"\n".join(lines) + b"\n"

    return apply


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:-20], "is no checkpoint, or only half of one"),
        (lambda data: data.splitlines(keepends=True)[1], "checkpoint 1 of .* a line is missing or was moved"),
        (lambda data: b"".join(reversed(data.splitlines(keepends=True))), "a line is missing or was moved"),
        (lambda data: b"", "holds no checkpoint"),
        (lambda data: b"\x7fELF\n\n", "it is no checkpoint of a version"),
        (lambda data: b"[" * 100_000 + b"\n", "it is no checkpoint of a version"),
        (change_line(0, lambda line: line["body"].update(time="2020")), "its signature does not fit"),
        (change_line(1, lambda line: line["heads"][0].__setitem__(1, 1)), "its heads are not those that were signed"),
        (change_line(1, lambda line: line.update(heads=[])), "its heads are not those that were signed"),
        (change_line(1, lambda line: line["body"].update(key="0" * 64)), "it is signed with the key 0000"),
        (change_line(1, lambda line: line["body"].update(v=2)), "it is no checkpoint of a version"),
    ],
)
async def test_a_file_of_checkpoints_that_was_changed_is_refused_and_left_alone(
    signed: Signed, damage: Callable[[bytes], bytes], why: str
) -> None:
    await signed.kept.write("c", "four")
    signed.sign("c")
    signed.file.write_bytes(damaged := damage(signed.file.read_bytes()))
    with pytest.raises(UsageError, match=why):
        signed.read()
    if damaged:
        with pytest.raises(UsageError, match=why):
            signed.sign()
        assert signed.file.read_bytes() == damaged


def test_another_key_neither_reads_nor_goes_on_with_a_file(signed: Signed, tmp_path: Path) -> None:
    other, before = SigningKey.create(tmp_path / "other.pem"), signed.file.read_bytes()
    with pytest.raises(UsageError, match=f"is signed with the key {signed.key.public}, and not with {other.public}"):
        CheckpointFile.read(signed.file, other.public)
    with pytest.raises(UsageError, match="is signed with the key"):
        signed.sign(key=other)
    assert signed.file.read_bytes() == before


def test_nothing_is_written_where_nothing_can_be_signed(signed: Signed, tmp_path: Path) -> None:
    rewrite_log(signed.kept.place.events, "a", lambda lines: None)
    with closing(SqliteLog(signed.kept.place.events)) as log:
        run(log, "UPDATE events SET text = replace(text, 'one', 'two') WHERE session = 'a'")
        with pytest.raises(TamperedLog):
            write_checkpoint(log, ["a"], tmp_path / "new", signed.key, time=NOW, by="")
        with pytest.raises(UsageError, match="there are no sessions yet"):
            write_checkpoint(log, [], tmp_path / "new", signed.key, time=NOW, by="")
        assert not (tmp_path / "new").exists()
        with pytest.raises(UsageError, match="there is no such folder"):
            write_checkpoint(log, ["b"], tmp_path / "no" / "new", signed.key, time=NOW, by="")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A file for a key."""
    return tmp_path / "key"


def test_a_key_is_for_its_owner_and_never_written_over(key_file: Path) -> None:
    made = SigningKey.create(key_file)
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert SigningKey.read(key_file).public == made.public
    with pytest.raises(UsageError, match="a key is never written over"):
        SigningKey.create(key_file)
    key_file.chmod(0o644)
    with pytest.raises(UsageError, match="others may read the key"):
        SigningKey.read(key_file)
    key_file.chmod(0o600)
    key_file.write_text("-----BEGIN PRIVATE KEY-----\nno\n-----END PRIVATE KEY-----\n")
    with pytest.raises(UsageError, match="holds no Ed25519 key"):
        SigningKey.read(key_file)
    with pytest.raises(UsageError, match="cannot be read"):
        SigningKey.read(key_file / "none")


def test_a_public_key_is_given_as_digits_or_as_a_file_of_them(key_file: Path) -> None:
    digits = "0a" * 32
    key_file.write_text(f"{digits.upper()}\n")
    assert read_public(digits) == read_public(str(key_file)) == digits
    for wrong in ("0a", "", str(key_file.parent), "\x00"):
        with pytest.raises(UsageError, match="is no public key"):
            read_public(wrong)
