"""A snapshot of a session's state: folding goes on from it as from the events, and bytes that are none are refused."""

from __future__ import annotations

import ast
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace
from pydantic import BaseModel

from foregate.evidence.ledger import Ledger
from foregate.evidence.state.plan_in_force import CallUses
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import decode_state, encode_state, find_version, is_same_state
from foregate.schemas.errors import UnreadableSnapshot
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Grant
from foregate.schemas.message import Message
from foregate.schemas.review import ReviewBody
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.log.chain import seal_drafts
from tests.agent.session.test_state_from_log import plain
from tests.corpus import archive
from tests.corpus.log import Log
from tests.telemetry.log.test_parts import began
from tests.telemetry.made import NOW, said


def list_sessions() -> list[tuple[str, str]]:
    """Return the recordings and the sessions in each."""
    return [(name, session) for name, found in archive.read_sessions().items() for session in found.sessions]


def restore(state: SessionState) -> SessionState:
    """Return a state after it was bytes."""
    return decode_state(encode_state(state), state.session, state.seq, state.hash)


@pytest.mark.parametrize(("recording", "session"), list_sessions())
def test_a_state_that_is_written_and_read_after_every_event_is_the_one_that_all_events_lead_to(
    recording: str, session: str
) -> None:
    whole, cut = SessionState(), SessionState()
    for event in Log(archive.read_sessions()[recording]).events(session):
        whole.apply(event)
        cut.apply(event)
        cut = restore(cut)
        assert is_same_state(cut, whole), event.kind


def test_the_recordings_have_every_kind_of_event() -> None:
    logs = {name: Log(found) for name, found in archive.read_sessions().items()}
    met = {event.kind for name, session in list_sessions() for event in logs[name].events(session)}
    of_reviews = {one.__struct_config__.tag for one in ReviewBody.__subclasses__()}
    assert met == set(get_args(Kind)) - of_reviews


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


def test_an_integer_of_any_size_in_the_arguments_of_a_call_comes_back() -> None:
    state = fold("hello")
    call = ToolCall.parse("sum", '{"of": [1, {"more": 1208925819614629174706176}, -18446744073709551617]}')
    state.conversation.add_message(Message("assistant", "", (call,)))
    assert state.task is not None
    state.task.uses.taken["c1"] = CallUses(("n:1",), (), call.arguments or {})
    back = restore(state)
    assert back.conversation.messages[-1].calls[0].arguments == call.arguments
    assert is_same_state(back, state)


class Called(Exception):
    """Something that bytes named was called."""


def call() -> None:
    """Say that it was called."""
    raise Called


class Calling:
    """What calls something where it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return call, ()


@pytest.mark.parametrize(
    "change", [{"seq": "1"}, {"task": []}, {"by": {"user": 1}}, {"grants": [{"gate": "g"}]}, {"atoms": "Calling"}]
)
def test_bytes_that_hold_what_no_state_does_are_no_snapshot(change: dict[str, object]) -> None:
    state = fold("hello")
    found = msgspec.msgpack.decode(encode_state(state))
    for forged in (found | change, [found]):
        with pytest.raises(UnreadableSnapshot, match="Error: "):
            decode_state(msgspec.msgpack.encode(forged), "s", state.seq, state.hash)


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
    with pytest.raises(ValueError, match="`Calling` is no part of a state"):
        encode_state(state)


def walk_types(kind: Any, seen: dict[Any, None]) -> dict[Any, None]:
    """Note every type that a value of a type can hold, down to the last."""
    if kind in seen:
        return seen
    seen[kind] = None
    for inner in get_args(kind) if get_origin(kind) is not Literal else ():
        walk_types(inner, seen)
    if isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, msgspec.Struct | BaseModel | tuple)):
        for inner in get_type_hints(kind).values():
            walk_types(inner, seen)
    return seen


PLAIN = (str, int, float, bool, type(None), Any, Ellipsis)
CONTAINERS = (list, tuple, dict, set, frozenset, Counter, OrderedDict, Mapping, Sequence, Literal, Union, UnionType)
TYPES = list(walk_types(SessionState, {}))


def is_noun(kind: Any) -> bool:
    """Whether a type is a class with fields that say what it holds, or names its values."""
    named = msgspec.Struct | Enum | BaseModel
    return isinstance(kind, type) and (issubclass(kind, named) or is_dataclass(kind) or hasattr(kind, "_fields"))


def test_all_that_a_state_can_hold_is_of_a_kind_that_a_snapshot_has() -> None:
    assert [
        kind for kind in TYPES if not (kind in PLAIN or (get_origin(kind) or kind) in CONTAINERS or is_noun(kind))
    ] == []
    assert {Identity, Ledger, ToolCall, CallUses} <= set(TYPES)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if is_dataclass(kind)])
def test_a_class_of_the_state_holds_no_more_than_its_fields_say(kind: Any) -> None:
    source = Path(sys.modules[kind.__module__].__file__ or "").read_text()
    classes = (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.ClassDef))
    body = next(one for one in classes if one.name == kind.__name__)
    stored = (one for one in ast.walk(body) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store))
    names = {one.name for one in fields(kind)}
    assert {one.attr for one in stored if ast.unparse(one.value) == "self"} <= names
    made = {one.name for one in body.body if isinstance(one, ast.FunctionDef)}
    assert not made & {"__init__", "__post_init__"}, "msgspec calls the latter, with the fields set already"


EXAMPLES: dict[Any, Any] = {str: "a word", int: 7, bool: True, float: 0.5, type(None): None, Any: {"a": [1, None, "b"]}}


def build(kind: Any, depth: int = 0) -> Any:
    """Return a value of a type in which all is set that can be; what holds itself ends at some depth."""
    made, inner = get_origin(kind) or kind, get_args(kind)
    if made in (Union, UnionType):
        options = [one for one in inner if one is not type(None)]
        return build(options[-1] if depth < 12 else inner[0], depth + 1)
    if made is Literal:
        return inner[-1]
    if made is Counter:
        return Counter({build(inner[0]): 2})
    if made in (dict, Mapping, OrderedDict):
        found = {build(inner[0], depth + 1): build(inner[1], depth + 1)}
        return OrderedDict(found) if made is OrderedDict else found
    if made is tuple and inner and inner[1:] != (...,):
        return tuple(build(one, depth + 1) for one in inner)
    if made in (list, set, frozenset, tuple, Sequence):
        return (list if made is Sequence else made)([build(inner[0], depth + 1)])
    if made in EXAMPLES:
        return EXAMPLES[made]
    if issubclass(made, Enum):
        return list(made)[-1]
    return made(**{name: build(one, depth + 1) for name, one in get_type_hints(made).items() if name in _names(made)})


def _names(kind: Any) -> Sequence[str]:
    """Return the fields of a class."""
    if issubclass(kind, BaseModel):
        return list(kind.model_fields)
    return list(get_type_hints(kind)) if not is_dataclass(kind) else [one.name for one in fields(kind)]


def test_a_state_in_which_everything_is_set_comes_back_as_it_was() -> None:
    state: SessionState = build(SessionState)
    assert state.task is not None
    assert state.program is not None
    assert is_same_state(restore(state), state)


def test_the_version_names_the_code_that_folds() -> None:
    from foregate.schemas.version import __version__

    assert find_version().startswith(f"{__version__} ")
