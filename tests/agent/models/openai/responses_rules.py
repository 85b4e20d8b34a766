"""What the Responses API refuses, so that a test fails where production would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

KEYS = {"model", "input", "tools", "tool_choice", "store", "include", "stream", "text", "temperature"}
KEYS |= {"max_output_tokens", "parallel_tool_calls", "reasoning", "instructions"}
TOOL = {"type", "name", "description", "parameters", "strict"}


def responses_refusals(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the body of a request."""
    yield from (f"Unknown parameter: '{key}'." for key in body.keys() - KEYS)
    if body.get("store") is not False:
        yield "Items are not persisted for zero data retention organizations"
    for tool in body.get("tools", []):
        yield from (f"Unknown parameter: 'tools[0].{key}'." for key in tool.keys() - TOOL)
        if tool.get("type") != "function" or not tool.get("name"):
            yield "Missing required parameter: 'tools[0].name'."
    yield from _refuse_items(body.get("input", []))


def _refuse_items(items: list[dict[str, Any]]) -> Iterator[str]:
    called: set[str] = set()
    answered: set[str] = set()
    for at, item in enumerate(items):
        match item.get("type", "message"):
            case "message" if item.get("role") not in ("system", "developer", "user", "assistant"):
                yield f"Invalid value: 'input[{at}].role'"
            case "function_call":
                if item["call_id"] in called:
                    yield f"Duplicate item found with call_id {item['call_id']}."
                called.add(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in called:
                    yield f"No tool call found for function call output with call_id {item['call_id']}."
                answered.add(item["call_id"])
            case "reasoning":
                following = items[at + 1].get("type") if at + 1 < len(items) else None
                if not item.get("encrypted_content"):
                    yield f"Item with id '{item['id']}' not found: items are not persisted when `store` is false."
                if following not in ("message", "function_call", "reasoning"):
                    yield f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            case "message":
                pass
            case kind:
                yield f"Invalid value: '{kind}'."
    yield from (f"No tool output found for function call {call}." for call in called - answered)
