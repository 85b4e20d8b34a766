"""The calls found in a text, listed before any of them is judged."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from rich.text import Text

from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect, ToolSpec
from foregate.views.terminal.layout import CARE, format_labelled, pluralise

LONGEST_PART = 200
"""Characters of a target or a reason that are shown; what runs is shown whole where it is asked about."""
SHORT = 40
"""Characters up to which a text a call carries stands there itself, and not its size."""
_DOES = {Effect.OBSERVATION: "reads", Effect.UNKNOWN: "could do anything"}
"""What is said of an effect that its own word does not say."""
MOST = 100
"""Calls that are listed; further ones are counted."""


def format_detected_calls(response: ModelResponse, specs: Mapping[str, ToolSpec], width: int) -> Iterator[Text]:
    """Yield the lines that list the calls of a text, none for a response without such.

    One call a row: number, tool, target and what else it carries, or the size of that; one that cannot be read says
    why. Below stands the order the model asked for, where it asked for one.
    """
    if not any(call.wire_id in ("", call.id) for call in response.calls):
        return
    count, broken = len(response.calls), sum(call.arguments is None for call in response.calls)
    unread = f", {broken} of them cannot be read" if broken else ""
    yield from format_labelled("detected", f"{pluralise(count, 'call')} in the text{unread}", width, "bold")
    for number, call in enumerate(response.calls[:MOST], start=1):
        what = _describe_call(call, specs.get(call.name))
        what += ", with results of calls before it" if number - 1 in response.deferred else ""
        yield from format_labelled(str(number), what, width, "" if call.arguments is not None else CARE)
    if count > MOST:
        yield from format_labelled("", f"and {count - MOST} more", width, CARE)
    if response.order is not None:
        yield from format_labelled("order", _cut_text(describe_order(response.order)), width)


def _describe_call(call: ToolCall, spec: ToolSpec | None) -> str:
    """Return a call on a line: its tool, what it is about, and what text it carries; or why it cannot be read."""
    if call.arguments is None:
        return f"{_cut_text(call.name)} cannot be read: {_cut_text(call.defect)}"
    about = [target.parameter for target in spec.targets] if spec is not None else []
    shown = [name for name in dict.fromkeys((*about, "argv")) if name in call.arguments]
    target = " ".join(_join_words(call.arguments[name]) for name in shown)
    carried = ", ".join(
        f"{name}: {value}" if len(value) <= SHORT and value.isprintable() else f"{name}: {len(value)} characters"
        for name, value in call.arguments.items()
        if isinstance(value, str) and name not in shown
    )
    what = f"{_cut_text(call.name)} {_cut_text(target)}".rstrip()
    does = _DOES.get(spec.effect, spec.effect.value) if spec is not None else ""
    more = ", ".join(filter(None, (does, _cut_text(carried))))
    return f"{what} ({more})" if more else what


def describe_texts(call: ToolCall, target: str) -> str:
    """Return the short texts a call carries beside its target, such as what it searches for; "" for none."""
    carried = [
        f"{name}: {value}"
        for name, value in (call.arguments or {}).items()
        if isinstance(value, str) and 0 < len(value) <= SHORT and value.isprintable() and value not in target
    ]
    return f" ({', '.join(carried)})" if carried else ""


def describe_order(block: Block, *, inside: bool = False) -> str:
    """Return the order of calls as a sentence names it, by their numbers from 1."""
    parts = [str(item + 1) if isinstance(item, int) else describe_order(item, inside=True) for item in block.items]
    if len(parts) < 2:
        return "".join(parts)
    words = " and ".join(parts) + " together" if block.kind == "parallel" else ", then ".join(parts)
    return f"({words})" if inside else words


def _join_words(value: object) -> str:
    if isinstance(value, list):
        return shlex.join(str(part) for part in value)
    return value if isinstance(value, str) else ""


def _cut_text(text: str) -> str:
    return text if len(text) <= LONGEST_PART else f"{text[:LONGEST_PART]}…"
