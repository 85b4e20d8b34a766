"""What the rehearsal model reads out of a conversation: the request in hand, and what came of its calls since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.message import Message
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What came of one call. `code` is empty when the call ran; `ok` then says whether it worked.

    `remedy` is the call a hold asks for, None where there is none or where it was made already.
    """

    ok: bool = False
    output: str = ""
    exit_code: int | None = None
    left_out: int = 0
    code: str = ""
    message: str = ""
    remedy: ToolCall | None = None

    @property
    def why(self) -> str:
        """Why the call did not do what it should, as the end of a sentence."""
        if self.code:
            return f"{self.message.rstrip('.') or 'no reason was given'} ({self.code})"
        first = next(iter(self.output.strip().splitlines()), "")
        status = f"exit code {self.exit_code}" if self.exit_code is not None else ""
        return ": ".join(part for part in (status, first[:300]) if part) or "it failed"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One response of the model after the request: its calls with their answers, and a notice that followed."""

    calls: tuple[ToolCall, ...]
    answers: tuple[CallAnswer, ...]
    notice: str = ""


@dataclass(frozen=True, slots=True)
class RehearsalConversation:
    """The newest request of the person, the vague one it makes clear ("" when none), and the exchanges since.

    `task` is the task of a plan that is to be filled in, an empty object where none is.
    """

    request: str
    clarifies: str
    exchanges: tuple[Exchange, ...]
    task: Mapping[str, Json]


def read_conversation(messages: Sequence[Message]) -> RehearsalConversation:
    """Return the conversation as the rehearsal model understands it; pure."""
    asked = [index for index, message in enumerate(messages) if message.role == "user" and not read_notice(message)]
    if not asked:
        return RehearsalConversation("", "", (), {})
    last = asked[-1]
    between = messages[asked[-2] + 1 : last] if len(asked) > 1 else ()
    clarifies = messages[asked[-2]].text if is_asked_back(between) else ""
    since = tuple(split_exchanges(messages[last + 1 :]))
    task = object_at(parse_object(messages[-1].text), "task") if read_notice(messages[-1]) else {}
    return RehearsalConversation(messages[last].text, clarifies, since, task)


def is_asked_back(between: Sequence[Message]) -> bool:
    """Whether what lies between two requests ends with a question about the first one."""
    asked = any(read_answer(m).code == "uncertainty_clarification" for m in between if m.role == "tool")
    return asked and between[-1].role == "assistant" and not between[-1].calls


def split_exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Return each response with the answers to its calls; a call without an answer is left as not run."""
    answers = {message.call: read_answer(message) for message in messages if message.role == "tool"}
    lost = CallAnswer(code="not_run_cancelled", message="no answer came")
    result: list[Exchange] = []
    for message in messages:
        if message.role == "assistant":
            result.append(Exchange(message.calls, tuple(answers.get(call.id, lost) for call in message.calls)))
        elif (notice := read_notice(message)) and result:
            result[-1] = Exchange(result[-1].calls, result[-1].answers, f"{result[-1].notice} {notice}".strip())
    return result


def read_notice(message: Message) -> str:
    """Return Foregate's own words in a message that stands for a person's, "" when it is a person's."""
    if message.role != "user" or not message.text.startswith('{"foregate"'):
        return ""
    return read_text(object_at(parse_object(message.text), "foregate"), "notice")


def read_answer(message: Message) -> CallAnswer:
    """Return what a tool message says; only the `foregate` entry at the top speaks for Foregate."""
    body = parse_object(message.text)
    if not body:
        return CallAnswer(output=message.text)
    entry = object_at(body, "foregate")
    remedy, exit_code, left_out = object_at(entry, "remedy"), body.get("exit_code"), body.get("left_out_bytes")
    wanted = (
        ToolCall.of(read_text(remedy, "tool"), object_at(remedy, "arguments")) if read_text(remedy, "tool") else None
    )
    return CallAnswer(
        ok=body.get("ok") is True,
        output=read_text(body, "output"),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        left_out=left_out if isinstance(left_out, int) else 0,
        code=read_text(entry, "code"),
        message=read_text(entry, "message"),
        remedy=None if isinstance(body.get("observed"), dict) else wanted,
    )


def parse_object(text: str) -> Mapping[str, Json]:
    """Return the object a text holds, an empty one when it is none."""
    try:
        value = strict_json.parse(text)
    except InvalidJson:
        return {}
    return value if isinstance(value, dict) else {}


def object_at(body: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    """Return an object under `key`, an empty one when there is none."""
    value = body.get(key)
    return value if isinstance(value, dict) else {}


def read_text(body: Mapping[str, Json], key: str) -> str:
    """Return a text under `key`, "" when there is none."""
    value = body.get(key)
    return value if isinstance(value, str) else ""


def objects_at(body: Mapping[str, Json], key: str) -> list[Mapping[str, Json]]:
    """Return the objects in a list under `key`, none when there is no list."""
    value = body.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
