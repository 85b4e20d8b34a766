"""Calls as JSON in a text: one object or a list, bare, in a code fence, or the first balanced object among words."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.agent.dialects.json.reader import FENCE, JsonReader, parse_text
from foregate.agent.dialects.text.dialect import Reader
from foregate.schemas import strict_json
from foregate.schemas.message import Message
from foregate.schemas.model_response import Block
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

_SECTION = """\
To use a tool, write one JSON object in a code block and nothing after it:

```json
{{"tool": "<name>", "args": {{...}}, "reasoning": "<why>"}}
```

Several calls go into one list. `{{"parallel": [...]}}` around calls that do not need each other runs them at once, \
`{{"sequential": [...]}}` in turn, up to the first that fails; inside it the string `$result_of_step_N` stands for the \
result of its Nth item, `$result_of_step_N.key[0]` for a part of it. Results come back as JSON in the next message. To \
answer, write words without any such JSON.

The tools, each with the JSON Schema of its `args`:
{tools}"""


class JsonDialect:
    """The dialect for models that only write text."""

    name = "json"
    stop: tuple[str, ...] = ()

    def build_section(self, tools: Sequence[ToolSpec]) -> str:
        """Return what teaches the dialect, with each tool as a line."""
        return _SECTION.format(tools="\n".join(_render_tool(spec) for spec in tools))

    def build_reader(self, tools: Sequence[ToolSpec]) -> Reader:
        """Return a reader; an unknown tool is a call like any other, which the judge refuses."""
        return JsonReader(frozenset(spec.name for spec in tools))

    def render_message(self, message: Message) -> str:
        """Return words and calls; the calls stand first where the words would hide them."""
        if not message.calls:
            return message.text
        block = f"{FENCE}json\n{render_calls(message)}\n{FENCE}"
        if not message.text.strip():
            return block
        after = f"{message.text.strip()}\n\n{block}"
        known = frozenset(call.name for call in message.calls)
        return after if parse_text(after, known).text == message.text.strip() else f"{block}\n\n{message.text.strip()}"

    def render_answers(self, answers: Sequence[tuple[str, str]]) -> str:
        """Return the answers as one JSON object; what tools gave stands in it as strings."""
        told: Json = [{"tool": name, "answer": strict_json.parse(text)} for name, text in answers]
        return strict_json.canonical({"results": told}).decode()


def render_calls(message: Message) -> str:
    """Return the calls of a message as JSON: one object, or a list, or blocks."""
    entries = [_build_entry(call) for call in message.calls]
    if message.order is not None:
        return _render_json(_lay_out(message.order, entries))
    return _render_json(entries[0] if len(entries) == 1 else entries)


def _build_entry(call: ToolCall) -> Json:
    return {"tool": call.name, "args": dict(call.arguments) if call.arguments is not None else call.raw}


def _lay_out(block: Block, entries: Sequence[Json]) -> Json:
    items = [entries[item] if isinstance(item, int) else _lay_out(item, entries) for item in block.items]
    return {block.kind: items}


def _render_json(value: Json) -> str:
    return strict_json.canonical(value).decode()


def _render_tool(spec: ToolSpec) -> str:
    return f"- {_render_json(spec.name)}: {' '.join(spec.description.split())} {_render_json(dict(spec.parameters))}"
