"""A strict checker of OpenAI's fine-tuning formats, after their documentation and the types of the client.

An example of the supervised format has `messages`, perhaps `tools` and `parallel_tool_calls`, and nothing else; one of
the preference format has `input` (of the same parts, ending before the answer), `preferred_output` and
`non_preferred_output`, each one message of the assistant. Only the assistant's messages have a `weight`, 0 or 1; the
last message is the assistant's; each call is answered right behind the message that made it, unless that is the last.
"""

from __future__ import annotations

import json
import re
from typing import Any

from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import TypeAdapter

MESSAGE: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
TOOL: TypeAdapter[Any] = TypeAdapter(ChatCompletionFunctionToolParam)
KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "weight"},
    "tool": {"role", "content", "tool_call_id"},
}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_example(line: str) -> dict[str, Any]:
    """Return an example of the supervised format; raise AssertionError or ValidationError where it is none."""
    example = parsed(line)
    assert set(example) <= {"messages", "tools", "parallel_tool_calls"}
    check_tools(example.get("tools", []))
    check_messages(example["messages"], weighted=True)
    assert example["messages"][-1]["role"] == "assistant"
    assert any(message.get("weight", 1) for message in example["messages"] if message["role"] == "assistant")
    return example


def check_pair(line: str) -> dict[str, Any]:
    """Return an example of the preference format; raise AssertionError or ValidationError where it is none."""
    example = parsed(line)
    assert set(example) == {"input", "preferred_output", "non_preferred_output"}
    assert set(example["input"]) <= {"messages", "tools", "parallel_tool_calls"}
    check_tools(example["input"].get("tools", []))
    check_messages(example["input"]["messages"], weighted=False)
    assert example["input"]["messages"][-1]["role"] in ("user", "tool")
    for output in (example["preferred_output"], example["non_preferred_output"]):
        (message,) = output
        assert message["role"] == "assistant"
        check_message(message, weighted=False)
    assert example["preferred_output"] != example["non_preferred_output"]
    return example


def parsed(line: str) -> dict[str, Any]:
    """Return the object on a line."""
    assert "\n" not in line
    example = json.loads(line)
    assert isinstance(example, dict)
    return example


def check_tools(tools: list[Any]) -> None:
    """Check definitions of functions."""
    for tool in tools:
        TOOL.validate_python(tool, strict=True)
        assert set(tool) == {"type", "function"}
        assert set(tool["function"]) <= {"name", "description", "parameters", "strict"}
        assert NAME.fullmatch(tool["function"]["name"])
        assert tool["function"]["parameters"]["type"] == "object"
    names = [tool["function"]["name"] for tool in tools]
    assert len(names) == len(set(names))


def check_messages(messages: list[Any], *, weighted: bool) -> None:
    """Check a conversation: each message, and that calls and answers fit each other."""
    assert messages
    open_calls: list[str] = []
    for message in messages:
        check_message(message, weighted=weighted)
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls
            open_calls.remove(message["tool_call_id"])
        else:
            assert open_calls == []
            open_calls = [call["id"] for call in message.get("tool_calls", [])]
    assert open_calls == [] or messages[-1].get("tool_calls")


def check_message(message: Any, *, weighted: bool) -> None:
    """Check one message."""
    assert set(message) <= KEYS[message["role"]] - (set() if weighted else {"weight"})
    assert message.get("weight", 1) in (0, 1)
    MESSAGE.validate_python({key: value for key, value in message.items() if key != "weight"})
    if message["role"] == "assistant":
        assert isinstance(message.get("content"), str) or message["tool_calls"]
    else:
        assert isinstance(message["content"], str)
    for call in message.get("tool_calls", []):
        assert set(call) == {"id", "type", "function"}
        assert set(call["function"]) == {"name", "arguments"}
        assert NAME.fullmatch(call["function"]["name"])
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
