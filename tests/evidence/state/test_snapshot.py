"""A snapshot of a session's state: folding goes on from it as from the events, and bytes that are none are refused."""

from __future__ import annotations

import pickle
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import UnreadableSnapshot, decode_state, encode_state, find_version
from foregate.schemas.event import Event
from foregate.telemetry.log.chain import seal_drafts
from tests.agent.session.test_state_from_log import plain
from tests.corpus import archive
from tests.corpus.log import Log
from tests.telemetry.log.test_parts import began
from tests.telemetry.made import NOW, said

CUTS = 5
"""Places at which each recorded session is cut, beside its end."""


def list_sessions() -> list[tuple[str, str]]:
    """Return the recordings and the sessions in each."""
    return [(name, session) for name, found in archive.read_sessions().items() for session in found.sessions]


def restore(state: SessionState) -> SessionState:
    """Return a state after it was bytes."""
    return decode_state(encode_state(state), state.session, state.seq, state.hash)


@pytest.mark.parametrize(("recording", "session"), list_sessions())
def test_a_snapshot_and_the_events_after_it_lead_to_the_state_that_all_events_lead_to(
    recording: str, session: str
) -> None:
    events = list(Log(archive.read_sessions()[recording]).events(session))
    cuts = {1, *(len(events) * part // CUTS for part in range(1, CUTS + 1))} - {0}
    whole, going_on = SessionState(), list[SessionState]()
    for event in events:
        for state in (whole, *going_on):
            state.apply(event)
        if event.seq in cuts:
            going_on.append(restore(whole))
            assert plain(going_on[-1]) == plain(whole)
    for state in going_on:
        assert plain(state) == plain(whole)


def fold(*texts: str) -> SessionState:
    """Return the state of a session in which something was said."""
    state = SessionState()
    for event in seal(*texts):
        state.apply(event)
    return state


def seal(*texts: str) -> list[Event]:
    """Return the events of a session with texts of the user."""
    from foregate.schemas.event import GENESIS, Draft
    from foregate.schemas.event_body import TaskStarted

    drafts = [began(), Draft(TaskStarted(task=1, depth=0), "foregate"), *map(said, texts)]
    return [event for event, _ in seal_drafts(drafts, session="s", after=0, prev=GENESIS, policy="p", time=NOW)]


def test_a_large_number_and_a_text_in_two_places_come_back_as_they_were() -> None:
    state = fold("hello")
    assert state.task is not None
    state.task.runs = {"digest": 2**80}
    state.task.stuck = state.task.question = "the same long words " * 10
    back = restore(state)
    assert back.task is not None
    assert back.task.runs == {"digest": 2**80}
    assert back.task.stuck is back.task.question


class Called(Exception):
    """Something that bytes named was called."""


def call() -> None:
    """Say that it was called."""
    raise Called


class Calling:
    """What calls something where it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return call, ()


def forge(change: str) -> bytes:
    """Return the bytes of a state of which somebody changed what they name."""
    data = encode_state(fold("hello"))
    classes, root = msgspec.msgpack.decode(data[32:], type=tuple[list[tuple[str, list[str]]], Any])
    match change:
        case "a function":
            classes[0] = ("os.system", [])
            root = [11, 0, ["true"]]
        case "another class":
            classes[0] = ("subprocess.Popen", ["args"])
        case "a special field":
            classes[0] = (classes[0][0], [*classes[0][1][:-1], "__class__"])
        case "a field too many":
            at = next(at for at, (name, _) in enumerate(classes) if name.endswith("Said"))
            classes[at] = (classes[at][0], [*classes[at][1], "more"])
        case "a missing place":
            root = [0, 10**6]
        case "another root":
            root = [3, []]
    changed = msgspec.msgpack.encode([classes, root])
    return sha256(changed).digest() + changed


@pytest.mark.parametrize(
    "change",
    ["a function", "another class", "a special field", "a field too many", "a missing place", "another root"],
)
def test_bytes_that_name_anything_else_are_no_snapshot(change: str) -> None:
    state = fold("hello")
    with pytest.raises(UnreadableSnapshot):
        decode_state(forge(change), "s", state.seq, state.hash)


def test_bytes_that_would_call_something_call_nothing() -> None:
    data = pickle.dumps(Calling())
    with pytest.raises(Called):
        pickle.loads(data)
    with pytest.raises(UnreadableSnapshot):
        decode_state(data, "s", 1, "")


def test_any_cut_or_changed_byte_is_found() -> None:
    state = fold("hello")
    data = encode_state(state)
    for at in range(0, len(data), 7):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]):
            with pytest.raises(UnreadableSnapshot, match="it is damaged"):
                decode_state(damaged, "s", state.seq, state.hash)


def test_whatever_else_such_bytes_could_hold_leads_to_a_refusal_and_to_nothing_else() -> None:
    state = fold("hello")
    data = encode_state(state)[32:]
    for at in range(0, len(data), 7):
        changed = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        with suppress(UnreadableSnapshot):
            assert decode_state(sha256(changed).digest() + changed, "s", state.seq, state.hash).session == "s"


@pytest.mark.parametrize(("session", "seq"), [("t", 0), ("s", 1)])
def test_a_snapshot_of_another_session_or_event_is_refused(session: str, seq: int) -> None:
    state = fold("hello")
    with pytest.raises(UnreadableSnapshot, match="it is not of this event"):
        decode_state(encode_state(state), session, state.seq + seq, state.hash)


def test_a_state_that_holds_what_no_state_should_is_not_written() -> None:
    state = fold("hello")
    state.heard = {1: Calling()}  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"test_snapshot\.Calling` is no part of a state"):
        encode_state(state)


def test_the_version_names_the_code_that_folds() -> None:
    from foregate.schemas.version import __version__

    assert find_version().startswith(f"{__version__} ")
