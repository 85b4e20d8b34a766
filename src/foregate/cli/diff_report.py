"""What `foregate audit diff` prints for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foregate.views.terminal.layout import make_visible, pluralise, shorten_text

if TYPE_CHECKING:
    from foregate.schemas.event_body import ToolFinished
    from foregate.schemas.strict_json import Json
    from foregate.tuning.session_diff import CallPair, ComparedCall, ComparedTask, GateRuling, SessionDiff

_VALUE = 60
_SHOWN = 200
"""Calls that are shown to a person; all are in the JSON form."""


def format_diff(found: SessionDiff, width: int) -> Iterator[str]:
    """Yield the lines: both sessions, tasks, where they part, policy, calls and results, each at most `width` wide."""
    yield f"A  {make_visible(found.a)}"
    yield f"B  {make_visible(found.b)}"
    yield from _format_tasks(found, width)
    yield from _format_first(found, width)
    yield from _format_policy(found, width)
    yield from _format_calls(found, width)
    yield from _format_results(found, width)


def _format_tasks(found: SessionDiff, width: int) -> Iterator[str]:
    yield ""
    yield "tasks"
    for number, (a, b) in enumerate(found.tasks, start=1):
        if a is not None and b is not None and a.asked == b.asked:
            ended = a.status if a.status == b.status else f"A {a.status}, B {b.status}"
            yield _indent(f"{number}  {ended}: {a.asked}", width)
            continue
        for side, task in (("A", a), ("B", b)):
            yield _indent(f"{number}  {side} {_describe_task(task)}", width)


def _describe_task(task: ComparedTask | None) -> str:
    return "has none" if task is None else f"{task.status}: {task.asked}"


def _format_first(found: SessionDiff, width: int) -> Iterator[str]:
    yield ""
    if found.first is None:
        yield "No call that both made was judged differently."
        return
    pair = found.calls[found.first]
    one, other = pair.find_gates()
    gate = one or other
    where = f" by the gate `{make_visible(gate.gate)}`" if gate is not None else ""
    yield f"First judged differently{where}:"
    for side, call, ruling in zip("AB", pair.both or (), (one, other), strict=False):
        if side == "A":
            yield _indent(_name_call(call), width)
        said = f"{_describe_ruling(ruling)}; in the end {_describe_verdict(call)}"
        yield _indent(f"{side}  event {call.seq}: {said}", width)


def _describe_ruling(ruling: GateRuling | None) -> str:
    return f"{ruling.standing} ({ruling.code})" if ruling is not None else "nothing to say"


def _describe_verdict(call: ComparedCall) -> str:
    gate, standing, code = call.ruling
    return f"{standing} by {gate} ({code})"


def _format_policy(found: SessionDiff, width: int) -> Iterator[str]:
    yield ""
    if not found.policy:
        yield "The policies are the same."
        return
    yield f"policy: {'one key differs' if len(found.policy) == 1 else f'{len(found.policy)} keys differ'}"
    for key, (a, b) in found.policy.items():
        yield _indent(f"{key}: {_format_value(a)} -> {_format_value(b)}", width)


def _format_value(value: Json) -> str:
    return "none" if value is None else shorten_text(json.dumps(value, ensure_ascii=False), _VALUE)


def _format_calls(found: SessionDiff, width: int) -> Iterator[str]:
    both = sum(pair.both is not None for pair in found.calls)
    only_a = sum(pair.b is None for pair in found.calls)
    yield ""
    yield f"calls: {both} in both, {only_a} only in A, {len(found.calls) - both - only_a} only in B"
    for pair in found.calls[:_SHOWN]:
        yield _indent(_describe_pair(pair), width)
    if (left := len(found.calls) - _SHOWN) > 0:
        yield f"  ... and {left} more; --json lists them all"
    if found.cut:
        yield "  ... and more, which were not matched"


def _describe_pair(pair: CallPair) -> str:
    if pair.both is not None:
        a, b = pair.both
        if pair.has_same_verdict:
            return f"=  {_name_call(a)}: {a.ruling.standing}"
        return f"!  {_name_call(a)}: A {_describe_verdict(a)}, B {_describe_verdict(b)}"
    side, call = ("A", pair.a) if pair.a is not None else ("B", pair.b)
    return f"{side}  {_name_call(call)}: {_describe_verdict(call)}" if call is not None else ""


def _name_call(call: ComparedCall) -> str:
    return f"{call.tool} {call.target}".strip()


def _format_results(found: SessionDiff, width: int) -> Iterator[str]:
    other = [pair for pair in found.calls if pair.has_other_result]
    if not other:
        return
    yield ""
    yield f"{pluralise(len(other), 'result')} differ:" if len(other) > 1 else "One result differs:"
    for pair in other[:_SHOWN]:
        calls = [call for call in pair if call is not None]
        yield _indent(_name_call(calls[0]), width)
        ends = [call.end for call in calls if call.end is not None]
        for side, line in zip("AB", _find_other_lines(*ends), strict=True):
            yield _indent(f"   {side}  {line}", width)


def _find_other_lines(a: ToolFinished, b: ToolFinished) -> tuple[str, str]:
    """Return how each ended, and the first line in which their results differ."""
    ended = [_describe_end(end) for end in (a, b)]
    lines = [end.content.split("\n") for end in (a, b)]
    for number, (one, other) in enumerate(zip(*lines, strict=False), start=1):
        if one != other:
            return f"{ended[0]}, line {number}: {one}", f"{ended[1]}, line {number}: {other}"
    counts = [pluralise(len(content), "line") for content in lines]
    return f"{ended[0]}, {counts[0]}", f"{ended[1]}, {counts[1]}"


def _describe_end(end: ToolFinished) -> str:
    code = f", exit code {end.exit_code}" if end.exit_code is not None else ""
    return f"{'ok' if end.ok else 'failed'}{code}"


def _indent(text: str, width: int) -> str:
    return "  " + shorten_text(text, max(8, width - 2))
