"""A snapshot of a session's state: folding goes on from it as from the events, and bytes that are none are refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from foregate.evidence.ledger import Ledger
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import decode_state, encode_state, find_version, is_same_state
from foregate.schemas.errors import UnreadableSnapshot
from foregate.schemas.event import Event
from foregate.schemas.judgement import Grant
from foregate.telemetry.log.chain import seal_drafts
from tests.agent.session.test_state_from_log import plain
from tests.corpus import archive
from tests.corpus.log import Log
from tests.telemetry.log.test_parts import began
from tests.telemetry.made import NOW, said

CUTS = 3
"""Into how many pieces each recorded session is cut."""


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
    cuts = {len(events) * part // CUTS for part in range(1, CUTS + 1)}
    whole, going_on = SessionState(), list[SessionState]()
    for event in events:
        for state in (whole, *going_on):
            state.apply(event)
        if event.seq in cuts:
            going_on.append(restore(whole))
    for state in going_on:
        assert is_same_state(state, whole)


def change_grant(state: SessionState) -> None:
    """Give leave that nobody gave."""
    state.grants.append(Grant("allowlist", "unknown_target", "changes"))


def change_word(state: SessionState) -> None:
    """Change a word that the user said."""
    assert state.task is not None
    state.task.messages[0] = replace(state.task.messages[0], text="good bye")


def change_order(state: SessionState) -> None:
    """Put what is spent into another order."""
    state.spent = dict(reversed(state.spent.items()))


def change_kind(state: SessionState) -> None:
    """Make a number of what is true or false."""
    state.auto = 0  # type: ignore[assignment]


def change_tried(state: SessionState) -> None:
    """Say that a tool has run."""
    state.tried.add("run_shell")


def change_ledger(state: SessionState) -> None:
    """Leave out what was seen."""
    state.ledger = Ledger()


CHANGES = (change_grant, change_word, change_order, change_kind, change_tried, change_ledger)


@pytest.mark.parametrize("change", CHANGES)
def test_two_states_are_told_apart_by_a_change_deep_inside(change: Callable[[SessionState], None]) -> None:
    one, other = rich_state(), rich_state()
    assert is_same_state(one, other)
    assert plain(one) == plain(other)
    change(other)
    assert not is_same_state(one, other)
    assert not is_same_state(other, one)


def rich_state() -> SessionState:
    """Return the state of a recorded session in the middle of a task that has done much."""
    found = archive.read_sessions()
    _, name, session = max((len(found[name].sessions[one]), name, one) for name, one in list_sessions())
    state = SessionState()
    for event in list(Log(found[name]).events(session))[:-1]:
        if event.kind == "task_ended":
            break
        state.apply(event)
    return state


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
    classes, root = msgspec.msgpack.decode(data, type=tuple[list[tuple[str, list[str]]], Any])
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
    return msgspec.msgpack.encode([classes, root])


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


def test_whatever_else_such_bytes_could_hold_leads_to_a_refusal_and_to_nothing_else() -> None:
    state = fold("hello")
    data = encode_state(state)
    for at in range(0, len(data), 7):
        for changed in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]):
            with suppress(UnreadableSnapshot):
                assert decode_state(changed, "s", state.seq, state.hash).session == "s"


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
