"""A response whose calls name results of earlier ones: which of its calls can go next, and with which arguments.

The result of an earlier step is put into a place of the arguments as data, which is never read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from foregate.evidence.ledger import find_strings
from foregate.evidence.state.task import CallResult
from foregate.schemas import strict_json
from foregate.schemas.codes import NotRunCode
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import RecordedDataflow
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import Block, ModelResponse, record_calls
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, ToolCall

AFTER_FAILURE = "an earlier step of its sequence was not done; send it again if it is still wanted"
TOO_MANY = "too many calls in one response; send this one again"
_DRY = "a dry run: the result it names was not made"

_PATH = r"(?:\.[A-Za-z_][A-Za-z0-9_]*+|\[[0-9]{1,6}\])*+"
# "$result_of_step_1.items[0]".
_PLACE = compile_late(rf"\$result_of_step_([0-9]{{1,9}})(?![A-Za-z0-9_])({_PATH})(\[|\.[0-9])?")
"""The third group is what cannot be read as more of a path."""
# ".price", "[0]".
_PART = compile_late(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]{1,6})\]")
_LONGEST = 4_000_000
"""Bytes of arguments with the results put in, at most."""
_TRUST = {origin: rank for rank, origin in enumerate(Origin)}
_ORDER = ("done", "going", "blocked", "failed")
"""How an item stands: all done, some of it still to be done in this stage, in a later one, or failed."""


def find_steps(value: Json) -> set[int]:
    """Return the numbers of the steps whose results `value` names in its strings, keys aside."""
    return {int(match[1]) for text in find_strings(value) for match in _PLACE.finditer(text)}


def fill_placeholders(value: Json, results: Mapping[int, str]) -> Json:
    """Return `value` with each place taken by the text of a step's result, or by what its path leads to in it.

    A string that is nothing but one place with a path takes the value found there, of whatever type; elsewhere it is
    written as text, what is no text as JSON. What was put in is not searched for places. Raises InvalidJson with a
    sentence that says which step or path there is not, or that the whole became too long.
    """
    result = _fill(value, _Results(results))
    if len(strict_json.canonical(result)) > _LONGEST:
        raise _build_size_error()
    return result


def find_placeholder_texts(value: Json, results: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Yield the number of each step `value` names and each text taken from its result, once a place."""
    known = _Results(results)
    for match in {match[0]: match for text in find_strings(value) for match in _PLACE.finditer(text)}.values():
        found, _ = known.look_up(match)
        yield from ((int(match[1]), text) for text in [*find_strings(found)] or [_format_value(found)])


class _Results:
    """Results by the number of their step. Each place is looked up once, and what was taken so far is counted."""

    def __init__(self, results: Mapping[int, str]) -> None:
        self._results = results
        self._parsed: dict[int, Json] = {}
        self._found: dict[str, tuple[Json, int]] = {}
        self._taken = 0

    def insert(self, match: re.Match[str]) -> Json:
        """Return what a place stands for, to be put in; raise InvalidJson where too much was."""
        value, size = self.look_up(match)
        self._taken += size
        if self._taken > _LONGEST:
            raise _build_size_error()
        return value

    def look_up(self, match: re.Match[str]) -> tuple[Json, int]:
        """Return what a place stands for and the bytes of it as JSON; raise InvalidJson where that is nothing."""
        if match[0] not in self._found:
            value = self._look_up_path(match)
            self._found[match[0]] = value, len(strict_json.canonical(value))
        return self._found[match[0]]

    def _look_up_path(self, match: re.Match[str]) -> Json:
        place, step, path, more = match[0], int(match[1]), match[2], match[3]
        if more:
            raise InvalidJson(f"`{place[:200]}` cannot be read from `{more}` on; a path is written `.key` and `[0]`")
        if step not in self._results:
            why = "which has no result here; name an earlier step of the block, counted from 1"
            raise InvalidJson(f"`{place[:200]}` names step {step}, {why}")
        text = self._results[step]
        if path and step not in self._parsed:
            try:
                # The result was bounded before: it is not refused for its size.
                self._parsed[step] = strict_json.parse(text, max_bytes=len(text) * 4 + 1)
            except InvalidJson:
                why = "whose result is no JSON; name the whole"
                raise InvalidJson(f"`{place[:200]}` names a part of step {step}, {why}") from None
        return _follow_path(self._parsed[step], path, place) if path else text


def _fill(value: Json, results: _Results) -> Json:
    match value:
        case str():
            if (whole := _PLACE.fullmatch(value)) is not None:
                return results.insert(whole)
            return _PLACE.sub(lambda match: _format_value(results.insert(match)), value)
        case list():
            return [_fill(item, results) for item in value]
        case dict():
            return {key: _fill(item, results) for key, item in value.items()}
    return value


def _build_size_error() -> InvalidJson:
    return InvalidJson(f"with the results put in, the arguments are longer than {_LONGEST} bytes; pass on less")


def _follow_path(value: Json, path: str, place: str) -> Json:
    for part in _PART.finditer(path):
        key, index = part[1], part[2]
        if key is not None and isinstance(value, dict) and key in value:
            value = value[key]
        elif index is not None and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            raise InvalidJson(f"`{place[:200]}` leads nowhere at `{part[0]}`; {_list_alternatives(value)}")
    return value


def _list_alternatives(value: Json) -> str:
    if isinstance(value, dict):
        return f"there are the keys {', '.join(sorted(value)[:8])[:200]}" if value else "the object is empty"
    if isinstance(value, list):
        return f"there are {len(value)} items, counted from 0"
    return "there is nothing below this value"


def _format_value(value: Json) -> str:
    return value if isinstance(value, str) else strict_json.canonical(value).decode()


@dataclass(slots=True)
class DataflowStage:
    """The places of the calls that can go now, and why those cannot that never will: code and message by place."""

    places: list[int] = field(default_factory=list)
    dead: dict[int, tuple[NotRunCode, str]] = field(default_factory=dict)

    def rule_out(self, place: int, code: NotRunCode, message: str) -> str:
        """Note that a call never runs; return how it stands by that."""
        self.dead[place] = code, message
        return "failed"


@dataclass(slots=True)
class Dataflow:
    """All calls of the response at event `seq`, as sent. Mutated only by the fold.

    `staged` are the places of those that were given to the judge, `unanswered` the places by id.
    """

    seq: int
    calls: tuple[ToolCall, ...]
    order: Block | None
    deferred: frozenset[int]
    staged: set[int] = field(default_factory=set)
    results: dict[int, CallResult] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, response: ModelResponse, seq: int) -> Dataflow | None:
        """Return the program of a stamped response, None where all its calls can be judged at once."""
        if not response.deferred or response.finish_reason == "length":
            return None
        return cls._of_calls(seq, response.calls, response.order, response.deferred)

    @classmethod
    def from_record(cls, seq: int, recorded: RecordedDataflow) -> Dataflow:
        """Return the program a `model_response` holds, its first stage given to the judge."""
        calls = tuple(one.call for one in recorded.calls)
        order = Block.from_json(recorded.order).fit_to(len(calls)) if recorded.order is not None else None
        return cls._of_calls(seq, calls, order, recorded.deferred, recorded.places)

    @classmethod
    def _of_calls(
        cls,
        seq: int,
        calls: tuple[ToolCall, ...],
        order: Block | None,
        deferred: Sequence[int],
        staged: Sequence[int] = (),
    ) -> Dataflow:
        unanswered = {call.id: place for place, call in enumerate(calls)}
        return cls(seq, calls, order, frozenset(deferred), set(staged), unanswered=unanswered)

    def to_record(self, places: Sequence[int]) -> RecordedDataflow:
        """Return the form in which the event of the first stage, with the calls in `places`, holds the whole."""
        order = self.order.to_json() if self.order is not None else None
        deferred = tuple(sorted(self.deferred))
        return RecordedDataflow(calls=record_calls(self.calls), deferred=deferred, places=tuple(places), order=order)

    def find_waiting(self) -> list[int]:
        """Return the places of the calls that were neither given to the judge nor answered."""
        return [place for place in self.unanswered.values() if place not in self.staged]

    def record_result(self, call: str, result: CallResult) -> None:
        """Take in the outcome of a call."""
        self.results[self.unanswered.pop(call)] = result

    def find_next_stage(self, limit: int) -> DataflowStage:
        """Return what can go now; of the calls only the first `limit` ever can, unless that is 0. The calls in no block
        go before all others; the rest are looked at in the order in which they are meant to run."""
        stage, limit = DataflowStage(), limit or len(self.calls)
        inside = set(self.order.find_places()) if self.order is not None else set[int]()
        for place in range(len(self.calls)):
            if place not in inside:
                self._visit_call(stage, limit, place, "done")
        if self.order is not None:
            self._visit_item(stage, limit, self.order, "done")
        stage.places.sort()
        return stage

    def _visit_item(self, stage: DataflowStage, limit: int, item: int | Block, before: str) -> str:
        """Take an item that stands behind what stands as `before` into the stage; return how it stands itself."""
        if isinstance(item, int):
            return self._visit_call(stage, limit, item, before)
        stands = "done"
        for inner in item.items:
            ahead = max(before, stands, key=_ORDER.index) if item.kind == "sequential" else before
            stands = max(stands, self._visit_item(stage, limit, inner, ahead), key=_ORDER.index)
        return stands

    def _visit_call(self, stage: DataflowStage, limit: int, place: int, before: str) -> str:
        if (result := self.results.get(place)) is not None:
            return "done" if result.ok else "failed"
        if place in self.staged:
            return "going"
        if place >= limit:
            return stage.rule_out(place, "not_run_too_many", TOO_MANY)
        if before == "failed":
            return stage.rule_out(place, "not_run_after_failure", AFTER_FAILURE)
        if before == "blocked" or (place in self.deferred and before == "going"):
            return "blocked"
        if place in self.deferred and not all(
            self._has_content(inner)
            for item in self._find_items(place).values()
            for inner in _find_places(item)
            # What it names did not run, which is as good as done in a dry run only.
        ):
            stage.rule_out(place, "not_run_dry_run", _DRY)
            return "done"
        stage.places.append(place)
        return "going"

    def build_response(self, places: Sequence[int]) -> ModelResponse:
        """Return the calls in `places`, results put in, as a response without words."""
        calls = tuple(self._fill_call(place) for place in places)
        order = self.order.restrict_to(places) if self.order is not None else None
        return ModelResponse("", calls, order=order, finish_reason="tool_calls", model="foregate")

    def _fill_call(self, place: int) -> ToolCall:
        """Return a call with the results put in that it names; where one cannot be, it is broken and says why."""
        call = self.calls[place]
        if place not in self.deferred or call.arguments is None:
            return call
        try:
            raw = _format_value(fill_placeholders(dict(call.arguments), self._read_results(place)))
        except InvalidJson as error:
            found = ToolCall.from_defect(call.name, call.raw, str(error), id=call.id, wire_id=call.wire_id)
        else:
            found = ToolCall.parse(call.name, raw, id=call.id, wire_id=call.wire_id)
        return replace(found, sent=call.sent)

    def _find_items(self, place: int) -> dict[int, int | Block]:
        """Return the items whose results a call names, by the number of the step."""
        if self.order is None:
            return {}
        steps = sorted(find_steps(dict(self.calls[place].arguments or {})))
        return {step: item for step in steps if (item := self.order.find_step(place, step)) is not None}

    def _read_results(self, place: int) -> dict[int, str]:
        return {
            step: _format_value(self._read_content(item))
            for step, item in self._find_items(place).items()
            if all(map(self._has_content, _find_places(item)))
        }

    def _has_content(self, place: int) -> bool:
        return place in self.results and self.results[place].content is not None

    def _read_content(self, item: int | Block) -> Json:
        if isinstance(item, int):
            return self.results[item].content
        return [self._read_content(inner) for inner in item.items]

    def find_taken_texts(self, place: int) -> Iterator[tuple[str, CallResult]]:
        """Yield the texts a call takes from results, each with the least trusted of the results it came from."""
        items = self._find_items(place)
        for step, text in find_placeholder_texts(dict(self.calls[place].arguments or {}), self._read_results(place)):
            if sources := [self.results[inner] for inner in _find_places(items[step])]:
                worst = max(sources, key=lambda result: _TRUST[result.origin])
                yield text, replace(worst, told=any(source.told for source in sources))


def _find_places(item: int | Block) -> Iterator[int]:
    return iter((item,)) if isinstance(item, int) else item.find_places()
