"""Messages and tools in the form chat endpoints and their fine-tuning share."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.schemas.message import Message, WireNames, format_messages
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

Tools = Sequence[ToolSpec]


class ToolOffer:
    """The tools a model was offered: `names` spells theirs for endpoints, `definitions` has the form of a request."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.names = WireNames([tool.name for tool in tools])
        self.definitions = [_format_definition(tool, self.names) for tool in tools]


class ToolOffers:
    """Offers by their tools, each made once: the steps of a session share theirs."""

    def __init__(self) -> None:
        self._made: dict[int, ToolOffer] = {}

    def __call__(self, tools: Tools) -> ToolOffer:
        """Return the offer of these tools."""
        found = self._made.get(id(tools))
        if found is None or found.tools is not tools:
            found = self._made[id(tools)] = ToolOffer(tools)
        return found


def format_assistant(text: str, calls: tuple[ToolCall, ...], names: WireNames) -> dict[str, Json]:
    """Return one message of the model."""
    found = format_messages([Message("assistant", text, calls)], names)
    return found[0] if found else {"role": "assistant", "content": text}


def _format_definition(tool: ToolSpec, names: WireNames) -> dict[str, Json]:
    function: dict[str, Json] = {
        "name": names.to_wire(tool.name),
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}
