"""The events of a session in an ATIF document: taken out of their bodies, put back, and read again.

Everything stands once: the words, calls, answers and tokens of a session where ATIF has a place for them, the decisions
under `decisions`, and the rest of each event under `events`. So any ATIF reader sees the session, and a reader that
knows Foregate's keys has the events again, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from foregate.evidence.state.recorded_turns import RecordedTurn, read_judged_turns
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.event import FORMAT, GENESIS, Event
from foregate.schemas.strict_json import Json, as_object, get_int, get_list, get_object, get_text
from foregate.telemetry.log import chain

MAX_BYTES = 256 * 1024 * 1024
"""Of one document."""
_UNREADABLE = (LookupError, ValueError, InvalidJson, RecursionError)


class RestoredSession(Struct, frozen=True):
    """A session as a document holds it: its events, and the numbers of those that are not what was recorded.

    An event is `altered` when its bytes do not have the recorded hash: something in it was masked at the export, or
    somebody changed the document. With none altered and `whole` true the events are those of the log, byte by byte.
    """

    session: str
    events: tuple[Event, ...]
    altered: tuple[int, ...]
    whole: bool

    @property
    def is_same(self) -> bool:
        """Whether the session is as it was recorded, and nothing of it is missing."""
        return self.whole and not self.altered

    def read_turns(self) -> Iterator[RecordedTurn]:
        """Yield the judged turns, as they would be read from the log; raise UsageError where that cannot be done."""
        try:
            yield from read_judged_turns(self.events)
        except _UNREADABLE as error:
            why = f"the turns of session `{self.session}` cannot be read"
            raise UsageError(f"{why} ({_describe_error(error)})") from None


def parse_document(line: str) -> dict[str, Json]:
    """Return the document a line of JSON holds; raise UsageError for what is none."""
    try:
        found = strict_json.parse(line, max_bytes=MAX_BYTES, max_depth=strict_json.MAX_RECORD_DEPTH)
    except InvalidJson as error:
        raise UsageError(f"it holds no ATIF document ({error})") from None
    if not isinstance(found, dict):
        raise UsageError("it holds no ATIF document (a JSON object is wanted on each line)")
    return found


def restore_sessions(document: Mapping[str, Json]) -> Iterator[RestoredSession]:
    """Yield the session of a document, then those of its subagents.

    Raises UsageError for one that another program wrote, or that was exported without content: neither holds turns.
    """
    yield _restore_session(document)
    try:
        children = [as_object(child) for child in get_list(document, "subagent_trajectories")]
    except InvalidJson as error:
        raise UsageError(f"its subagents cannot be read ({error}); export the session again") from None
    for child in children:
        yield from restore_sessions(child)


def _restore_session(document: Mapping[str, Json]) -> RestoredSession:
    try:
        own = get_own_part(document)
    except InvalidJson:
        own = {}
    if "layout" not in own or "content" not in own:
        why = "it holds nothing under `extra.foregate`"
        raise UsageError(f"{why}: only what `foregate trajectories export` wrote can be read back")
    if own["layout"] != LAYOUT or own.get("format") != FORMAT:
        why = f"it was exported in layout {own['layout']}, which this version does not read"
        raise UsageError(f"{why}; use the newer one")
    if own["content"] is not True:
        raise UsageError("it was exported with `--content off` and holds no turns; export again with content")
    try:
        return _read_events(document, own)
    except _UNREADABLE as error:
        raise UsageError(f"its events cannot be read ({_describe_error(error)}); export the session again") from None


def _read_events(document: Mapping[str, Json], own: Mapping[str, Json]) -> RestoredSession:
    steps = [as_object(step) for step in _get_required_list(document, "steps")]
    rows = [(as_object(rest), step) for step in steps for rest in _get_required_list(get_own_part(step), "events")]
    rows.sort(key=lambda row: get_int(row[0], "seq"))
    session, wrote = get_text(document, "session_id"), get_text(get_object(document, "agent"), "version")
    events: list[Event] = []
    altered: list[int] = []
    prev = GENESIS
    for rest, step in rows:
        content: dict[str, Json] = {
            "v": FORMAT,
            "foregate": rest.get("foregate", wrote),
            **{name: rest.get(name) for name in ("seq", "time", "kind", "actor", "policy")},
            "session": session,
            "prev": prev,
            "body": restore_body(rest, step, document),
        }
        event = chain.read_event(content, get_text(rest, "hash"))
        if not chain.is_unchanged(event):
            altered.append(event.seq)
        events.append(event)
        prev = event.hash
    numbered = [event.seq for event in events] == list(range(1, len(events) + 1))
    whole = numbered and own.get("head") == f"{len(events)}:{prev}"
    return RestoredSession(session, tuple(events), tuple(altered), whole)


def _get_required_list(value: Mapping[str, Json], key: str) -> Sequence[Json]:
    if key not in value:
        raise InvalidJson(f"`{key}` is missing")
    return get_list(value, key)


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


LAYOUT = 1
"""Version of what stands under `foregate`."""
MESSAGES = {"session_started": "system", "user_message": "text", "task_paused": "question"}
"""Per kind the field that is the step's message; `task_paused` has it only when it asks something."""
ANSWERS = {"tool_finished": "content", "call_answered": "message", "outcome_unknown": "reason"}
"""Per kind the field that is an observation's content."""
OFFERED = ("name", "description", "parameters")
"""What stands of a tool under `tool_definitions`."""


def dump_sorted(noun: Struct) -> dict[str, Json]:
    """Return a noun as the log holds it, its keys in the order of their names."""
    found: dict[str, Json] = msgspec.to_builtins(strict_json.dump(noun), order="deterministic")
    return found


def strip_shown_parts(event: Event, shown: Mapping[str, str]) -> dict[str, Json]:
    """Return what an ATIF document has no other place for: the event with the rest of its body, without its chain.

    `shown` is what the step shows for each call. A look that a process died in is taken again, and then it shows the
    last one only.
    """
    body, kind = dump_sorted(event.body), event.kind
    if kind in MESSAGES:
        body.pop(MESSAGES[kind], None)
    if kind in ANSWERS and shown.get(get_text(body, "call")) == body[ANSWERS[kind]]:
        body.pop(ANSWERS[kind])
    if kind == "session_started":
        body["catalogue"] = [_leave_out(as_object(spec), OFFERED) for spec in get_list(body, "catalogue")]
    if kind == "model_response" and "continues" not in body:
        for name in ("text", "reasoning", "model"):
            body.pop(name)
        if "program" in body:
            body["program"] = _leave_out(get_object(body, "program"), ("calls",))
        else:
            body.pop("calls")
        if "places" not in body:
            body.pop("usage")
    if kind == "turn_judged":
        body["judgement"] = _leave_out(get_object(body, "judgement"), ("decisions",))
    return {**{name: getattr(event, name) for name in ("seq", "kind", "actor", "time", "policy", "hash")}, "body": body}


def restore_body(rest: Mapping[str, Json], step: Mapping[str, Json], document: Mapping[str, Json]) -> dict[str, Json]:
    """Return the body an event had before it was exported; raise InvalidJson for a document that lacks a part."""
    body, kind = dict(get_object(rest, "body")), get_text(rest, "kind")
    if kind in MESSAGES and (kind != "task_paused" or body.get("reason") == "needs_input"):
        body[MESSAGES[kind]] = get_text(step, "message")
    if kind in ANSWERS and ANSWERS[kind] not in body:
        body[ANSWERS[kind]] = _find_content(step, get_text(body, "call"))
    if kind == "session_started":
        body["catalogue"] = _read_catalogue(body, get_object(document, "agent"))
    if kind == "model_response" and "continues" not in body:
        body["text"], body["reasoning"] = get_text(step, "message"), get_text(step, "reasoning_content", "")
        calls = [build_recorded_call(call) for call in get_list(step, "tool_calls")]
        if "program" in body:
            body["program"] = {**get_object(body, "program"), "calls": calls}
        else:
            body["calls"] = calls
        body["model"] = get_text(step, "model_name", "")
        if "places" not in body:
            metrics = get_object(step, "metrics")
            body["usage"] = {
                "input_tokens": get_int(metrics, "prompt_tokens"),
                "output_tokens": get_int(metrics, "completion_tokens"),
                "cost": get_int(get_object(metrics, "extra"), "cost_micro_units", 0),
            }
    if kind == "turn_judged":
        mark = f"{get_int(rest, 'seq')}."
        rows = get_list(get_own_part(step), "decisions")
        found = [_leave_out(as_object(row), ("address",)) for row in rows if get_text(row, "address").startswith(mark)]
        body["judgement"] = {**get_object(body, "judgement"), "decisions": found}
    return body


def get_own_part(value: Json) -> Mapping[str, Json]:
    """Return what stands of Foregate's own in an ATIF object, nothing where it has none."""
    return get_object(get_object(value, "extra"), "foregate")


def is_canonical(raw: str, arguments: Mapping[str, Json]) -> bool:
    """Whether writing the arguments that were read of a text gives that text again."""
    try:
        return strict_json.canonical(arguments).decode() == raw
    except InvalidJson:
        return False


def build_recorded_call(call: Json) -> dict[str, Json]:
    """Return a call of an ATIF step as an event holds it."""
    own, name = get_own_part(call), get_text(call, "tool_call_id")
    raw = own.get("raw")
    return {
        "id": name,
        "wire_id": own.get("wire_id", name),
        "name": get_text(call, "function_name"),
        "arguments": strict_json.canonical(get_object(call, "arguments")).decode() if raw is None else raw,
        **get_object(own, "more"),
    }


def _read_catalogue(body: Mapping[str, Json], agent: Mapping[str, Json]) -> list[Json]:
    specs, definitions = get_list(body, "catalogue"), get_list(agent, "tool_definitions")
    if len(specs) != len(definitions):
        raise InvalidJson(f"there are {len(definitions)} definitions of {len(specs)} tools")
    offered = [get_object(definition, "function") for definition in definitions]
    return [
        {**as_object(spec), **{name: tool[name] for name in OFFERED if name in tool}}
        for spec, tool in zip(specs, offered, strict=True)
    ]


def _find_content(step: Mapping[str, Json], call: str) -> str:
    for result in get_list(get_object(step, "observation"), "results"):
        if get_text(result, "source_call_id") == call:
            return get_text(result, "content", "")
    raise InvalidJson(f"there is no result of `{call}`")


def _leave_out(body: Mapping[str, Json], names: tuple[str, ...]) -> dict[str, Json]:
    return {name: value for name, value in body.items() if name not in names}
