"""Texts of nothing but one tag, or tags and names of results: no answer, as the model is told."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from foregate.agent.dialects.dialect import GENERIC, MARKUP, RESULT
from foregate.schemas.foreign_tools import is_foreign_name, is_offered_elsewhere
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall

_SHOWN = 60
_NAME = r"[^\W\d][\w.:-]*+"
# "</answer>", "`$result_of_step_1.path`".
_TOKEN = compile_late(
    rf"(?P<between>[\s\"'.,;]++)|</?(?P<tag>{_NAME})(?:\s[^<>]*+)?/?>"
    r"|`?\$(?P<result>result_of_step_[0-9]{1,9})(?:\.[A-Za-z_]\w*+|\[[0-9]{1,6}\])*+(?!\w)`?"
)
# "</ans", "$result_of".
_BEGUN = compile_late(rf"</?(?:{_NAME}(?:\s[^<>]*+|/)?+)?+|`?(?:\$\w*+)?+|\[[0-9]*+")
"""What may become a tag or the name of a result."""
# "<answer>".
_OPENING = compile_late(rf"<(?P<tag>{_NAME})(?:\s[^<>]*+)?>")
_ANSWERS = frozenset(
    ["answer", "final", "final_answer", "finalanswer", "output", "reply", "response", "summary", "message"]
)
"""Tags in which models put what they answer, so that what stands in them are words."""
_WORDS = MARKUP | _ANSWERS
_CALLS = frozenset([GENERIC, "function_call", "function_calls", "invoke", "tool_call", "tool_calls", "tool_use"])
"""Tags in which models put a call, whatever the tool."""
# "read_file".
_WORD = compile_late(_NAME)
_CALLED = compile_late(rf"[\"'](?P<quoted>{_NAME})[\"']|[<=](?P<tag>{_NAME})")
"""Where a call has the name of its tool: `"name": "Bash"`, `<bash>`, `<function=bash>`."""
_NAMED = "a result has a name only in the arguments of a call, so make that call or answer in words"
_TAGGED = "call a tool that is offered, or answer in words, with markup in a code block"


def refuse_bare_markup(response: ModelResponse, known: AbstractSet[str] | None = None) -> ModelResponse:
    """Return a response that says nothing as one with a call that cannot be read, whose defect says what to do.

    `known` is as in `find_bare_markup`.
    """
    text = response.text.strip()
    if response.calls or not (name := find_bare_markup(text, known)):
        return response
    why = (
        f"`{text[:_SHOWN]}` alone is neither a call nor an answer; {_NAMED if '$result_of_step_' in text else _TAGGED}"
    )
    finish = "tool_calls" if response.finish_reason == "stop" else response.finish_reason
    return replace(response, text="", calls=(ToolCall.from_defect(name, text, why),), finish_reason=finish)


def find_bare_markup(text: str, known: AbstractSet[str] | None = None) -> str:
    """Return the first name in a text that is one tag with what it holds, or holds no word; "" for any other.

    Tags of HTML are as good as words, and so are those for an answer. Where a model does not write its calls in tags,
    `known` are the names of the tools: a tag that neither is nor names one is an answer, too.

    >>> find_bare_markup("<note>Rain.</note>"), find_bare_markup("<note>Rain.</note>", {"read_file"})
    ('note', '')
    """
    if (lone := find_lone_tag(text.strip(), known)) and re.search(rf"</{re.escape(lone)}\s*+>\s*+\Z", text):
        inside = text.strip()[len(lone) + 1 :]
        if known is None or is_tool_name(lone, known) or lone.lower() in _CALLS or has_tool_name(inside, known):
            return lone
    name, at = "", 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or (token["tag"] or "").lower() in MARKUP:
            return ""
        at, name = token.end(), name or token["tag"] or token["result"] or ""
    return name


def is_tool_name(name: str, known: AbstractSet[str]) -> bool:
    """Whether a name is that of an offered tool, in other letters or without its server's too, or of other agents'."""
    return is_offered_elsewhere(name, known) or is_foreign_name(name)


def has_tool_name(text: str, known: AbstractSet[str]) -> bool:
    """Whether a text names a tool: an offered one anywhere, one of other agents where a call has its name."""
    if not known.isdisjoint(_WORD.findall(text)):
        return True
    return any(is_foreign_name(called["quoted"] or called["tag"]) for called in _CALLED.finditer(text))


def find_lone_tag(text: str, known: AbstractSet[str] | None = None) -> str:
    """Return the name of the tag that a text begins with where nothing but blanks stands behind its end, else ""."""
    opening = _OPENING.match(text)
    if opening is None or opening["tag"].lower() in _WORDS:
        return ""
    if known is not None and opening["tag"].lower() == RESULT and not is_tool_name(opening["tag"], known):
        # An answer, whatever it names.
        return ""
    end = re.search(rf"</{re.escape(opening['tag'])}\s*+>", text)
    return "" if end is not None and text[end.end() :].strip() else opening["tag"]


def may_be_bare(text: str, known: AbstractSet[str] | None = None) -> bool:
    """Whether a text that goes on may still come to be one tag with what it holds, or to hold no word."""
    if find_lone_tag(text, known):
        return True
    at = 0
    while at < len(text):
        if (token := _TOKEN.match(text, at)) is None:
            return _BEGUN.fullmatch(text, at) is not None
        at = token.end()
    return True
