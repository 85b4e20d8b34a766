"""What a model thought aloud in its text, apart from what it said: thoughts are never read as a call or an answer."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.schemas.model_response import ModelResponse

_OPEN, _CLOSE = "<think>", "</think>"


def split_thoughts(text: str) -> tuple[str, str]:
    """Return the thoughts at the beginning of a text, and the rest.

    A thought that does not end is all there is; some templates leave its opening out. What stands further on is a
    text about such a mark, not a thought.
    """
    thoughts: list[str] = []
    before, close, rest = text.partition(_CLOSE)
    if close and _OPEN not in before:
        thoughts, text = [before], rest.lstrip()
    while text.lstrip().startswith(_OPEN):
        before, _, rest = text.partition(_CLOSE)
        thoughts, text = [*thoughts, before.lstrip().removeprefix(_OPEN)], rest.lstrip()
    return "\n".join(thought.strip() for thought in thoughts if thought.strip()), text


def strip_thoughts(response: ModelResponse) -> ModelResponse:
    """Return a response whose text begins with what it says, and not with what it thought."""
    thoughts, text = split_thoughts(response.text)
    if not thoughts:
        return response
    return replace(response, text=text, reasoning=f"{response.reasoning}\n{thoughts}".strip())
