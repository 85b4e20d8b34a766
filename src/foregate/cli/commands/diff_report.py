"""What `foregate audit diff` prints for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foregate.views.terminal.layout import make_visible, pluralise, shorten_text

if TYPE_CHECKING:
    from foregate.audit.session_diff import CallPair, ComparedCall, ComparedTask, GateRuling, SessionDiff
    from foregate.schemas.strict_json import Json

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
        same = a is not None and b is not None and a.asked == b.asked
        if same and a is not None and b is not None:
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
    if pair.a is not None and pair.b is not None:
        yield _indent(_name_call(pair.a), width)
        yield _indent(f"A  event {pair.a.seq}: {_describe_ruling(one)}; in the end {_describe_verdict(pair.a)}", width)
        yield _indent(
            f"B  event {pair.b.seq}: {_describe_ruling(other)}; in the end {_describe_verdict(pair.b)}", width
        )


def _describe_ruling(ruling: GateRuling | None) -> str:
    return f"{ruling.standing} ({ruling.code})" if ruling is not None else "nothing to say"


def _describe_verdict(call: ComparedCall) -> str:
    return f"{call.standing} by {call.gate} ({call.code})"


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
    both = sum(pair.a is not None and pair.b is not None for pair in found.calls)
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
    if pair.a is not None and pair.b is not None:
        if pair.has_same_verdict:
            return f"=  {_name_call(pair.a)}: {pair.a.standing}"
        return f"!  {_name_call(pair.a)}: A {_describe_verdict(pair.a)}, B {_describe_verdict(pair.b)}"
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
        if pair.a is not None and pair.b is not None:
            yield _indent(_name_call(pair.a), width)
            for side, line in zip("AB", _find_other_lines(pair.a, pair.b), strict=True):
                yield _indent(f"   {side}  {line}", width)


def _find_other_lines(a: ComparedCall, b: ComparedCall) -> tuple[str, str]:
    """Return how each ended, and the first line in which their results differ."""
    ended = [_describe_end(call) for call in (a, b)]
    lines = [call.content.split("\n") for call in (a, b)]
    for number, (one, other) in enumerate(zip(*lines, strict=False), start=1):
        if one != other:
            return f"{ended[0]}, line {number}: {one}", f"{ended[1]}, line {number}: {other}"
    counts = [pluralise(len(content), "line") for content in lines]
    return f"{ended[0]}, {counts[0]}", f"{ended[1]}, {counts[1]}"


def _describe_end(call: ComparedCall) -> str:
    code = f", exit code {call.exit_code}" if call.exit_code is not None else ""
    return f"{'ok' if call.ok else 'failed'}{code}"


def _indent(text: str, width: int) -> str:
    return "  " + shorten_text(text, max(8, width - 2))
