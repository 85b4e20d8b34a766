"""A response whose calls name results of earlier ones: which of its calls can go next, and with which arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from foregate.evidence.ledger import find_strings
from foregate.evidence.state.task import CallResult
from foregate.schemas import strict_json
from foregate.schemas.codes import NotRunCode
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import RecordedDataflow
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, ToolCall, record_calls

_PATH = r"(?:\.[A-Za-z_][A-Za-z0-9_]*+|\[[0-9]{1,6}\])*+"
_PLACE = re.compile(rf"\$result_of_step_([0-9]{{1,9}})(?![A-Za-z0-9_])({_PATH})(\[|\.[0-9])?")
"""The third group is what cannot be read as more of a path."""
_PART = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]{1,6})\]")
_LONGEST = 4_000_000
"""Bytes of arguments with the results put in, at most."""


def find_steps(value: Json) -> set[int]:
    """Return the numbers of the steps whose results `value` names in its strings, keys aside."""
    match value:
        case str():
            return {int(match[1]) for match in _PLACE.finditer(value)}
        case list():
            return set[int]().union(*(find_steps(item) for item in value))
        case dict():
            return set[int]().union(*(find_steps(item) for item in value.values()))
    return set()


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
    """Yield the number of each step `value` names and each text that `filled` takes from its result, once a place."""
    read, places = (
        _Results(results),
        {match[0]: match for text in find_strings(value) for match in _PLACE.finditer(text)},
    )
    for match in places.values():
        found = read.look_up(match).value
        yield from ((int(match[1]), text) for text in [*find_strings(found)] or [_format_value(found)])


class _Found(Struct, frozen=True):
    """What a place stands for, and the bytes of it as JSON."""

    value: Json
    size: int


class _Results:
    """Results by the number of their step. Each place is looked up once, and what was taken so far is counted."""

    def __init__(self, results: Mapping[int, str]) -> None:
        self._results = results
        self._parsed: dict[int, Json] = {}
        self._found: dict[str, _Found] = {}
        self._taken = 0

    def insert(self, match: re.Match[str]) -> Json:
        """Return what a place stands for, to be put in; raise InvalidJson where too much was."""
        found = self.look_up(match)
        self._taken += found.size
        if self._taken > _LONGEST:
            raise _build_size_error()
        return found.value

    def look_up(self, match: re.Match[str]) -> _Found:
        """Return what a place stands for; raise InvalidJson where that is nothing."""
        if match[0] not in self._found:
            value = self._look_up_path(match)
            self._found[match[0]] = _Found(value, len(strict_json.canonical(value)))
        return self._found[match[0]]

    def _look_up_path(self, match: re.Match[str]) -> Json:
        step, path, more = int(match[1]), match[2], match[3]
        if more:
            raise InvalidJson(f"`{match[0][:200]}` cannot be read from `{more}` on; a path is written `.key` and `[0]`")
        if step not in self._results:
            raise InvalidJson(
                f"`{match[0][:200]}` names step {step}, which has no result here; name an earlier step of the block, "
                "counted from 1"
            )
        return _follow_path(self._parse_result(step, match[0]), path, match[0]) if path else self._results[step]

    def _parse_result(self, step: int, place: str) -> Json:
        text = self._results[step]
        if step not in self._parsed:
            try:
                self._parsed[step] = strict_json.parse(text, max_bytes=len(text) * 4 + 1)
            except InvalidJson:
                raise InvalidJson(
                    f"`{place[:200]}` names a part of step {step}, whose result is no JSON; name the whole"
                ) from None
        return self._parsed[step]


def _fill(value: Json, results: _Results) -> Json:
    match value:
        case str():
            whole = _PLACE.fullmatch(value)
            if whole is not None:
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
    """Return what a path leads to."""
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
    """Return what could have been named instead."""
    if isinstance(value, dict):
        return f"there are the keys {', '.join(sorted(value)[:8])[:200]}" if value else "the object is empty"
    if isinstance(value, list):
        return f"there are {len(value)} items, counted from 0"
    return "there is nothing below this value"


def _format_value(value: Json) -> str:
    return value if isinstance(value, str) else strict_json.canonical(value).decode()


AFTER_FAILURE = "an earlier step of its sequence was not done; send it again if it is still wanted"
TOO_MANY = "too many calls in one response; send this one again"
DRY = "a dry run: the result it names was not made"


class DataflowStage(Struct, frozen=True):
    """The places of the calls that can go now, and why those cannot that never will: code and message by place."""

    places: tuple[int, ...]
    dead: Mapping[int, tuple[NotRunCode, str]]


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
    unanswered: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.unanswered = {call.id: place for place, call in enumerate(self.calls)}

    @classmethod
    def of(cls, response: ModelResponse, seq: int) -> Dataflow | None:
        """Return the program of a stamped response, None where all its calls can be judged at once."""
        if not response.deferred or response.finish_reason == "length":
            return None
        return cls(seq, response.calls, response.order, frozenset(response.deferred))

    @classmethod
    def from_record(cls, seq: int, recorded: RecordedDataflow) -> Dataflow:
        """Return the program a `model_response` holds, its first stage given to the judge."""
        calls = tuple(one.call for one in recorded.calls)
        order = Block.from_json(recorded.order).fit_to(len(calls)) if recorded.order is not None else None
        return cls(seq, calls, order, frozenset(recorded.deferred), set(recorded.places))

    def to_record(self, places: Sequence[int]) -> RecordedDataflow:
        """Return the form in which the event of the first stage, with the calls in `places`, holds the whole."""
        return RecordedDataflow(
            calls=record_calls(self.calls),
            deferred=tuple(sorted(self.deferred)),
            places=tuple(places),
            order=self.order.to_json() if self.order is not None else None,
        )

    def find_waiting(self) -> list[int]:
        """Return the places of the calls that were neither given to the judge nor answered."""
        return [place for place in self.unanswered.values() if place not in self.staged]

    def record_result(self, call: str, result: CallResult) -> None:
        """Take in what came of a call."""
        self.results[self.unanswered.pop(call)] = result

    def find_next_stage(self, limit: int) -> DataflowStage:
        """Return what can go now; of the calls only the first `limit` ever can, unless that is 0."""
        found = _Walk(self, limit)
        for place in self.find_unblocked():
            found.visit_call(place, "done")
        if self.order is not None:
            found.visit_item(self.order, "done")
        return DataflowStage(tuple(sorted(found.places)), found.dead)

    def find_unblocked(self) -> list[int]:
        """Return the places of the calls in no block, which go before all others."""
        inside = set(self.order.find_places()) if self.order is not None else set[int]()
        return [place for place in range(len(self.calls)) if place not in inside]

    def build_response(self, places: Sequence[int]) -> ModelResponse:
        """Return the calls in `places`, results put in, as a response without words."""
        calls = tuple(self.fill_call(place) for place in places)
        order = self.order.restrict_to(places) if self.order is not None else None
        return ModelResponse("", calls, order=order, finish_reason="tool_calls", model="foregate")

    def fill_call(self, place: int) -> ToolCall:
        """Return a call with the results put in that it names; where one cannot be, it is broken and says why."""
        call = self.calls[place]
        if place not in self.deferred or call.arguments is None:
            return call
        try:
            raw = strict_json.canonical(fill_placeholders(dict(call.arguments), self.results_by_step(place))).decode()
        except InvalidJson as error:
            return ToolCall.from_defect(call.name, call.raw, str(error), id=call.id, wire_id=call.wire_id)
        return ToolCall.parse(call.name, raw, id=call.id, wire_id=call.wire_id)

    def results_by_step(self, place: int) -> dict[int, str]:
        """Return the results a call names, as text, by the number of the step."""
        found: dict[int, str] = {}
        for number in sorted(find_steps(dict(self.calls[place].arguments or {}))):
            item = self.order.find_step(place, number) if self.order is not None else None
            if item is not None and all(self.has_content(inner) for inner in _find_places(item)):
                value = self.read_content(item)
                found[number] = value if isinstance(value, str) else strict_json.canonical(value).decode()
        return found

    def has_content(self, place: int) -> bool:
        """Whether a call ran and said something."""
        return place in self.results and self.results[place].content is not None

    def read_content(self, item: int | Block) -> Json:
        """Return the content of a call, or the list of those of a block."""
        return (
            self.results[item].content if isinstance(item, int) else [self.read_content(inner) for inner in item.items]
        )

    def find_taken_texts(self, place: int) -> Iterator[tuple[str, CallResult]]:
        """Yield the texts a call takes from results, each with the least trusted of the results it came from."""
        steps = self.results_by_step(place)
        for number, text in find_placeholder_texts(dict(self.calls[place].arguments or {}), steps):
            item = self.order.find_step(place, number) if self.order is not None else None
            sources = [self.results[inner] for inner in _find_places(item)] if item is not None else []
            if sources:
                worst = max(sources, key=lambda result: _TRUST[result.origin])
                yield text, replace(worst, told=any(source.told for source in sources))


_TRUST = {origin: rank for rank, origin in enumerate(Origin)}
_ORDER = ("done", "going", "blocked", "failed")
"""How an item stands: all done, some of it still to be done in this stage, in a later one, or failed."""


class _Walk:
    """One walk over a program, in the order in which its calls are meant to run."""

    def __init__(self, program: Dataflow, limit: int) -> None:
        self._program, self._limit = program, limit or len(program.calls)
        self.places: list[int] = []
        self.dead: dict[int, tuple[NotRunCode, str]] = {}

    def visit_item(self, item: int | Block, before: str) -> str:
        """Take in an item that stands behind what stands as `before`; return how it stands itself."""
        if isinstance(item, int):
            return self.visit_call(item, before)
        stands = "done"
        for inner in item.items:
            ahead = _pick_worst(before, stands) if item.kind == "sequential" else before
            stands = _pick_worst(stands, self.visit_item(inner, ahead))
        return stands

    def visit_call(self, place: int, before: str) -> str:
        """Take in a call."""
        program = self._program
        if (result := program.results.get(place)) is not None:
            return "done" if result.ok else "failed"
        if place in program.staged:
            return "going"
        if place >= self._limit:
            return self.rule_out(place, "not_run_too_many", TOO_MANY)
        if before == "failed":
            return self.rule_out(place, "not_run_after_failure", AFTER_FAILURE)
        waits = place in program.deferred and before == "going"
        if before == "blocked" or waits:
            return "blocked"
        if place in program.deferred and self.has_missing_result(place):
            self.rule_out(place, "not_run_dry_run", DRY)
            return "done"
        self.places.append(place)
        return "going"

    def has_missing_result(self, place: int) -> bool:
        """Whether a call names the result of one that did not run, which is as good as done in a dry run only."""
        program = self._program
        arguments = dict(program.calls[place].arguments or {})
        items = (program.order.find_step(place, number) for number in find_steps(arguments)) if program.order else ()
        return any(not program.has_content(inner) for item in items if item is not None for inner in _find_places(item))

    def rule_out(self, place: int, code: NotRunCode, message: str) -> str:
        """Note that a call never runs."""
        self.dead[place] = code, message
        return "failed"


def _pick_worst(first: str, second: str) -> str:
    return max(first, second, key=_ORDER.index)


def _find_places(item: int | Block) -> Iterator[int]:
    return iter((item,)) if isinstance(item, int) else item.find_places()
