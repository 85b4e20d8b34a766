"""Texts of nothing but tags and names of results: neither an answer nor a call, and the model is told what to do."""

from __future__ import annotations

import re

from msgspec.structs import replace

from foregate.agent.dialects.text.dialect import MARKUP
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall

_SHOWN = 60
_NAME = r"[^\W\d][\w.:-]*+"
_TOKEN = re.compile(
    rf"(?P<between>[\s\"'.,;]++)|</?(?P<tag>{_NAME})(?:\s[^<>]*+)?/?>"
    r"|`?\$(?P<result>result_of_step_[0-9]{1,9})(?:\.[A-Za-z_]\w*+|\[[0-9]{1,6}\])*+(?!\w)`?"
)
_BEGUN = re.compile(rf"</?(?:{_NAME}(?:\s[^<>]*+|/)?+)?+|`?(?:\$\w*+)?+|\[[0-9]*+")
"""What may become a tag or the name of a result."""
_NAMED = "a result has a name only in the arguments of a call, so make that call or answer in words"
_TAGGED = "call a tool that is offered, or answer in words, with markup in a code block"


def refuse_bare_markup(response: ModelResponse) -> ModelResponse:
    """Return a response that says nothing as one with a call that cannot be read, whose defect says what to do."""
    text = response.text.strip()
    if response.calls or not (name := find_bare_markup(text)):
        return response
    why = (
        f"`{text[:_SHOWN]}` alone is neither a call nor an answer; {_NAMED if '$result_of_step_' in text else _TAGGED}"
    )
    finish = "tool_calls" if response.finish_reason == "stop" else response.finish_reason
    return replace(response, text="", calls=(ToolCall.from_defect(name, text, why),), finish_reason=finish)


def find_bare_markup(text: str) -> str:
    """Return the first name in a text that holds no word, "" for any other; tags of HTML are as good as words."""
    name, at = "", 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or (token["tag"] or "").lower() in MARKUP:
            return ""
        at, name = token.end(), name or token["tag"] or token["result"] or ""
    return name


def may_be_bare(text: str) -> bool:
    """Whether a text that goes on may still come to hold no word."""
    at = 0
    while at < len(text):
        if (token := _TOKEN.match(text, at)) is None:
            return _BEGUN.fullmatch(text, at) is not None
        at = token.end()
    return True
