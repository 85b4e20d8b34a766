"""What the rehearsal model reads out of a conversation: the request in hand, and what came of its calls since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.message import Message
from foregate.schemas.tool_call import ToolCall


class CallAnswer(Struct, frozen=True):
    """What came of one call, or what Foregate said besides; of Foregate speaks only the entry `foregate` at the top.

    `code` is empty when the call ran; `ok` then says whether it worked. `remedy` is the call a hold asks for,
    `observed` what it showed where it was made already. `task` is the task of a plan that is to be filled in.
    """

    ok: bool = False
    output: str = ""
    exit_code: int | None = None
    left_out_bytes: int = 0
    code: str = ""
    message: str = ""
    notice: str = ""
    remedy: dict[str, Any] | None = None
    observed: dict[str, Any] | None = None
    task: dict[str, Any] = field(default_factory=dict)

    @property
    def cure(self) -> ToolCall | None:
        """The call a hold asks for, where nobody made it yet."""
        wanted = self.remedy or {}
        made = self.observed is not None or not wanted.get("tool")
        return None if made else ToolCall.of(wanted["tool"], wanted.get("arguments", {}))

    @property
    def why(self) -> str:
        """Why the call did not do what it should, as the end of a sentence."""
        if self.code:
            return f"{self.message.rstrip('.') or 'no reason was given'} ({self.code})"
        first = next(iter(self.output.strip().splitlines()), "")
        status = f"exit code {self.exit_code}" if self.exit_code is not None else ""
        return ": ".join(filter(None, (status, first[:300]))) or "it failed"


class Exchange(Struct, frozen=True):
    """One response of the model after the request: its calls with their answers, and a notice that followed."""

    calls: tuple[ToolCall, ...]
    answers: tuple[CallAnswer, ...]
    notice: str = ""


class RehearsalConversation(Struct, frozen=True):
    """The newest request of the person, the vague one it makes clear ("" when none), and the exchanges since.

    `task` is the task of a plan that is to be filled in, an empty object where none is.
    """

    request: str = ""
    clarifies: str = ""
    exchanges: Sequence[Exchange] = ()
    task: dict[str, Any] = field(default_factory=dict)


def read_conversation(messages: Sequence[Message]) -> RehearsalConversation:
    """Return the conversation as the rehearsal model understands it; pure."""
    asked = [index for index, message in enumerate(messages) if message.role == "user" and not read_notice(message)]
    if not asked:
        return RehearsalConversation()
    last = asked[-1]
    between = messages[asked[-2] + 1 : last] if len(asked) > 1 else ()
    held = any(m.role == "tool" and read_answer(m.text).code == "uncertainty_clarification" for m in between)
    is_asked_back = held and between[-1].role == "assistant" and not between[-1].calls
    task = read_answer(messages[-1].text).task if read_notice(messages[-1]) else {}
    since = split_exchanges(messages[last + 1 :])
    return RehearsalConversation(messages[last].text, messages[asked[-2]].text if is_asked_back else "", since, task)


def split_exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Return each response with the answers to its calls; a call without an answer is left as not run."""
    answers = {message.call: read_answer(message.text) for message in messages if message.role == "tool"}
    lost = CallAnswer(code="not_run_cancelled", message="no answer came")
    result: list[Exchange] = []
    for message in messages:
        if message.role == "assistant":
            result.append(Exchange(message.calls, tuple(answers.get(call.id, lost) for call in message.calls)))
        elif (notice := read_notice(message)) and result:
            result[-1] = replace(result[-1], notice=f"{result[-1].notice} {notice}".strip())
    return result


def read_notice(message: Message) -> str:
    """Return Foregate's own words in a message that stands for a person's, "" when it is a person's."""
    is_ours = message.role == "user" and message.text.startswith('{"foregate"')
    return read_answer(message.text).notice if is_ours else ""


def read_answer(text: str) -> CallAnswer:
    """Return what a message of Foregate says; any other text is an output."""
    body = read_object(text) or {"output": text}
    try:
        return strict_json.load(CallAnswer, {**body, **body["foregate"]} if "foregate" in body else body)
    except (InvalidJson, TypeError):
        return CallAnswer(output=text)


def read_object(text: str) -> dict[str, Any]:
    """Return the object a text holds, an empty one when it is none."""
    try:
        value = strict_json.parse(text)
    except InvalidJson:
        return {}
    return value if isinstance(value, dict) else {}
