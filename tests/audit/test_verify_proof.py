"""The program of one file that checks the proof of an event: without the log, without Foregate, without a library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from foregate.schemas import strict_json
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.checkpoints import CheckpointFile, build_proof, write_checkpoint
from foregate.telemetry.queries.signing import SigningKey
from foregate.tuning import verify_proof
from tests.telemetry.made import NOW
from tests.telemetry.queries.kept import Kept

Json = dict[str, Any]


@pytest.fixture
async def proof(tmp_path: Path) -> tuple[Json, str]:
    """The proof of the third event of a session, one of four, and the public key."""
    kept, key = Kept(tmp_path / "home"), SigningKey.create(tmp_path / "key.pem")
    for name in ("a", "b", "c", "\u00e4"):
        await kept.write(name, "one", "\u201ctwo\u201d \U0001f512", "three")
    with closing(SqliteLog(kept.place.events)) as log:
        names = await log.sessions()
        write_checkpoint(log, names, tmp_path / "checkpoints", key, time=NOW, by="\x1b[31m@host")
        return build_proof(log, "c", 3, CheckpointFile.read(tmp_path / "checkpoints")), key.public


def run_alone(folder: Path, proof: Json, public: str) -> tuple[int, str]:
    """Run a copy of the program as whoever gets the proof would, without this project; return exit code and output."""
    program, file = folder / "alone.py", folder / "proof.json"
    program.write_text(resources.files("foregate.tuning").joinpath("verify_proof.py").read_text("utf-8"), "utf-8")
    file.write_text(json.dumps(proof), "utf-8")
    command = [sys.executable, "-I", "-S", "-W", "error", str(program), str(file), public]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert ran.stderr == ""
    return ran.returncode, ran.stdout


def test_a_proof_is_checked_by_the_file_alone(proof: tuple[Json, str], tmp_path: Path) -> None:
    code, out = run_alone(tmp_path, *proof)
    assert code == 0
    assert out.startswith("proven: event 3 of session c, its text, was there when checkpoint 1 was signed\n")
    assert "\x1b" not in out
    code, out = run_alone(tmp_path, proof[0] | {"event": proof[0]["event"].replace("two", "ten")}, proof[1])
    assert (code, out) == (1, "NOT proven: the text of the event was changed: its hash does not match\n")


def change_text(proof: Json) -> None:
    """Tell another story, and have its hash as well."""
    proof["event"] = proof["event"].replace("two", "ten")
    proof["hash"] = strict_json.sha256(proof["event"].encode())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (change_text, "does not stand at this place"),
        (lambda proof: proof.update(seq=2), "that of another event"),
        (lambda proof: proof.update(session="a"), "that of another event"),
        (lambda proof: proof.update(event="", seq=2), "does not stand at this place"),
        (lambda proof: proof.update(event="", seq=0), "is not one of the session's events"),
        (lambda proof: proof.update(v=2), "no proof of a kind"),
        (lambda proof: proof["events"].append("0" * 64), "a path in a tree is too long"),
        (lambda proof: proof["events"].pop(), "pop from empty list"),
        (lambda proof: proof["head"].__setitem__(1, 3), "is not one of the session's events"),
        (lambda proof: proof["head"].__setitem__(3, "0" * 64), "does not stand at this place"),
        (lambda proof: proof["sessions"].update(index=0), "was not part of the checkpoint"),
        (lambda proof: proof["sessions"].update(index=9), "is not one of its places"),
        (lambda proof: proof["checkpoint"]["body"].update(root="0" * 64), "was not part of the checkpoint"),
        (lambda proof: proof["checkpoint"]["body"].update(time="1999"), "the signature of the checkpoint does not fit"),
        (lambda proof: proof["checkpoint"].update(signature="0" * 128), "the signature of the checkpoint does not fit"),
        (lambda proof: proof["checkpoint"].update(signature=""), "the signature of the checkpoint does not fit"),
        (lambda proof: proof["checkpoint"]["body"].update(key="0" * 64), "another key than the one you gave"),
        (lambda proof: proof.pop("head"), "head"),
    ],
)
def test_a_proof_that_was_changed_does_not_hold(
    proof: tuple[Json, str], change: Callable[[Json], object], why: str
) -> None:
    found, public = proof
    assert verify_proof.check(found, public)
    change(found)
    with pytest.raises((ValueError, KeyError, IndexError), match=why):
        verify_proof.check(found, public)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", "[" * 100_000, '{"v":1,"kind":"foregate proof"}', "\udcff"])
def test_what_is_no_proof_gets_a_sentence(
    content: str, proof: tuple[Json, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "proof.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert verify_proof.main([str(file), proof[1]]) == 1
    assert capsys.readouterr().out == "NOT proven: it is damaged, or no proof\n"
    assert verify_proof.main([str(tmp_path / "none"), proof[1]]) == 1
    assert verify_proof.main([]) == 2


VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
"""Tests 1 to 3 of RFC 8032, section 7.1."""


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_signatures_are_checked_as_the_standard_says(key: str, message: str, signature: str) -> None:
    public, data, signed = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)
    assert verify_proof.is_signed(public, signed, data)
    assert not verify_proof.is_signed(public, signed, data + b"x")
    assert not verify_proof.is_signed(public, signed[:-1], data)
    assert not verify_proof.is_signed(public[:-1] + b"\xff", signed, data)
    # the same signature with its scalar written otherwise
    scalar = (int.from_bytes(signed[32:], "little") + verify_proof.Q).to_bytes(32, "little")
    assert not verify_proof.is_signed(public, signed[:32] + scalar, data)
