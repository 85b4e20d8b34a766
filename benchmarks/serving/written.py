"""Calls as models write them into their text where the server reads none of it: the tokens of each family."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from serving.mind import Calls

Arguments = Mapping[str, Any]


def write_json(calls: Calls) -> str:
    """Return calls in the dialect that Foregate teaches where an endpoint takes no tools."""
    said = [{"tool": name, "args": arguments} for name, arguments in calls]
    return f"```json\n{json.dumps(said[0] if len(said) == 1 else said)}\n```"


def _hermes(name: str, arguments: Arguments) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def _llama(name: str, arguments: Arguments) -> str:
    return f"<|python_tag|>{json.dumps({'name': name, 'parameters': arguments})}"


def _deepseek(name: str, arguments: Arguments) -> str:
    call = (
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{json.dumps(arguments)}\n```<｜tool▁call▁end｜>"  # noqa: RUF001
    )
    return f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>"  # noqa: RUF001


def _kimi(name: str, arguments: Arguments) -> str:
    call = f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{json.dumps(arguments)}<|tool_call_end|>"
    return f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"


def _glm(name: str, arguments: Arguments) -> str:
    pairs = "\n".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>" for key, value in arguments.items())
    return f"<tool_call>{name}\n{pairs}\n</tool_call>"


def _mistral(name: str, arguments: Arguments) -> str:
    return f"[TOOL_CALLS][{json.dumps({'name': name, 'arguments': arguments})}]"


_FORMS: Mapping[str, Callable[[str, Arguments], str]] = {
    "hermes": _hermes,
    "llama": _llama,
    "deepseek": _deepseek,
    "kimi": _kimi,
    "glm": _glm,
    "mistral": _mistral,
}


def write_calls(form: str, calls: Calls) -> str:
    """Return calls in the tokens of a family, one behind the other."""
    return "\n".join(_FORMS[form](name, arguments) for name, arguments in calls)
