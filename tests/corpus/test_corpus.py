"""Logs recorded once stay readable: the same bytes, and the same of everything that is computed from them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping

import pytest

from foregate.evidence.state.session import SessionState
from foregate.schemas.errors import LogError
from tests.corpus.archive import DIGESTS, NO_HASH, read_damaged, read_expected, read_sessions, sha256
from tests.corpus.log import Log, read_event, write_event
from tests.corpus.readings import GROUPS, public_names, read_damage

RECORDINGS, BROKEN = sorted(read_sessions()), sorted(read_damaged())

_SHOWN, _WIDTH = 20, 300
"""Lines of a difference that are shown, and characters of each; the files hold all."""


@pytest.fixture(scope="module")
def logs() -> dict[str, Log]:
    """The sound recordings; their events are read once."""
    return {name: Log(found) for name, found in read_sessions().items()}


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_event_that_is_read_and_written_again_has_the_bytes_and_the_hash_it_had(name: str) -> None:
    for session, rows in read_sessions()[name].sessions.items():
        prev = NO_HASH
        for seq, text, stored in rows:
            event = read_event(text, stored)
            assert write_event(event) == text.encode("utf-8", "surrogatepass")
            assert (event.session, event.seq, event.prev, event.hash) == (
                session,
                seq,
                prev,
                sha256(write_event(event)),
            )
            prev = event.hash


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", RECORDINGS)
def test_what_is_computed_from_a_recorded_log_is_what_it_was(
    name: str, group: str, logs: dict[str, Log], tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = read_expected()[name]
    wanted = [reading for reading in GROUPS[group] if reading.__name__ in expected]
    actual = {reading.__name__: reading(logs[name]) for reading in wanted}
    compare(actual, {reading: expected[reading] for reading in actual}, tmp_path_factory)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_said_of_a_damaged_log_is_what_was_said(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    compare({"damage": read_damage(Log(read_damaged()[name]))}, read_expected()[name], tmp_path_factory)


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_log_is_gone_on_with_or_refused_in_one_sentence(name: str) -> None:
    assert len(refusals(Log(read_damaged()[name]))) <= 1


def refusals(log: Log) -> list[str]:
    """Return the lines of why a log cannot be gone on with."""
    (session,) = log.sessions
    state = SessionState()
    try:
        for event in log.events(session):
            state.apply(event)
    except LogError as refused:
        return str(refused).splitlines()
    return []


def test_the_list_of_digests_is_that_of_the_texts_that_are_expected() -> None:
    expected = [
        f"{sha256(text.encode())[:16]} {name} {reading}"
        for name, texts in read_expected().items()
        for reading, text in texts.items()
    ]
    assert DIGESTS.read_text("ascii").splitlines() == expected
    assert set(read_expected()) == {*RECORDINGS, *BROKEN}


def test_every_event_kind_and_every_public_code_stands_in_some_recording() -> None:
    recorded = (text for found in read_sessions().values() for rows in found.sessions.values() for _, text, _ in rows)
    known = set(re.findall("[a-z_]+", "\n".join(recorded)))
    assert {name for names in public_names().values() for name in names} - known == set()


def test_every_gate_gives_every_code_of_its_own_in_some_recording() -> None:
    given: set[tuple[str, str]] = set()
    for found in read_sessions().values():
        for rows in found.sessions.values():
            for _, text, _ in rows:
                event = json.loads(text)
                if event["kind"] == "need_raised":
                    given.add((event["body"]["need"]["gate"], event["body"]["need"].get("code", "")))
                if event["kind"] == "turn_judged":
                    for decision in event["body"]["judgement"]["decisions"]:
                        rulings = [ruling["code"] for ruling in decision.get("rulings", ())]
                        given |= {(decision["gate"], code) for code in (decision["code"], *rulings)}
    gates = {gate: codes for gate, codes in public_names().items() if gate != "kinds" and " " not in gate}
    wanted = {(gate, code) for gate, codes in gates.items() for code in codes}
    assert wanted - given == set()


def test_no_recording_says_anything_of_a_home_folder() -> None:
    recorded = (text for found in read_sessions().values() for rows in found.sessions.values() for _, text, _ in rows)
    assert [text for text in recorded if re.search("/home/|/Users/|/root/", text)] == []


def compare(actual: Mapping[str, str], expected: Mapping[str, str], folders: pytest.TempPathFactory) -> None:
    """Fail where the text of a reading differs, with the first lines that do and the files that hold both texts."""
    told = []
    for reading in (reading for reading in actual if actual[reading] != expected[reading]):
        folder = folders.mktemp(reading)
        (folder / "actual").write_text(actual[reading], "utf-8")
        (folder / "expected").write_text(expected[reading], "utf-8")
        texts = (expected[reading].splitlines(), actual[reading].splitlines())
        lines = [line[:_WIDTH] for line in difflib.unified_diff(*texts, lineterm="", n=0)][2:]
        told += [f"{reading} differs: diff {folder / 'expected'} {folder / 'actual'}", *lines[:_SHOWN]]
    if told:
        pytest.fail("\n".join(told), pytrace=False)
