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
class Observed:
    """What the remedy of a hold already showed: the tool, whether it worked, and its output."""

    tool: str
    ok: bool
    output: str


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What came of one call. `code` is empty when the call ran; `ok` then says whether it worked."""

    ok: bool = False
    output: str = ""
    exit_code: int | None = None
    left_out: int = 0
    code: str = ""
    message: str = ""
    remedy: tuple[str, Mapping[str, Json]] | None = None
    observed: Observed | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One response of the model after the request: its calls with their answers, and a notice that followed."""

    calls: tuple[ToolCall, ...]
    answers: tuple[CallAnswer, ...]
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The newest request of the person, the vague one it makes clear ("" when none), and the exchanges since."""

    request: str
    clarifies: str
    exchanges: tuple[Exchange, ...]


def read(messages: Sequence[Message]) -> Conversation:
    """Return the conversation as the rehearsal model understands it; pure."""
    asked = [index for index, message in enumerate(messages) if message.role == "user" and not notice_of(message)]
    if not asked:
        return Conversation("", "", ())
    last = asked[-1]
    clarifies = ""
    if len(asked) > 1 and was_asked_back(messages[asked[-2] + 1 : last]):
        clarifies = messages[asked[-2]].text
    return Conversation(messages[last].text, clarifies, tuple(exchanges(messages[last + 1 :])))


def was_asked_back(between: Sequence[Message]) -> bool:
    """Whether what lies between two requests ends with a question about the first one."""
    answers = [answer_of(message) for message in between if message.role == "tool"]
    asked = any(answer.code == "uncertainty_clarification" for answer in answers)
    return asked and bool(between) and between[-1].role == "assistant" and not between[-1].calls


def exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Return each response with the answers to its calls; a call without an answer is left as not run."""
    answers = {message.call: answer_of(message) for message in messages if message.role == "tool"}
    lost = CallAnswer(code="not_run_cancelled", message="no answer came")
    result: list[Exchange] = []
    for message in messages:
        if message.role == "assistant":
            result.append(Exchange(message.calls, tuple(answers.get(call.id, lost) for call in message.calls)))
        elif (notice := notice_of(message)) and result:
            said = f"{result[-1].notice} {notice}".strip()
            result[-1] = Exchange(result[-1].calls, result[-1].answers, said)
    return result


def notice_of(message: Message) -> str:
    """Return Foregate's own words in a message that stands for a person's, "" when it is a person's."""
    if message.role != "user" or not message.text.startswith('{"foregate"'):
        return ""
    entry = entry_of(parsed(message.text))
    return text_of(entry, "notice")


def answer_of(message: Message) -> CallAnswer:
    """Return what a tool message says; only the `foregate` entry at the top speaks for Foregate."""
    body = parsed(message.text)
    if not body:
        return CallAnswer(output=message.text)
    entry = entry_of(body)
    remedy, observed = entry.get("remedy"), body.get("observed")
    exit_code, left_out = body.get("exit_code"), body.get("left_out_bytes")
    return CallAnswer(
        ok=body.get("ok") is True,
        output=text_of(body, "output"),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        left_out=left_out if isinstance(left_out, int) else 0,
        code=text_of(entry, "code"),
        message=text_of(entry, "message"),
        remedy=remedy_of(remedy) if isinstance(remedy, dict) else None,
        observed=Observed(text_of(observed, "tool"), observed.get("ok") is True, text_of(observed, "output"))
        if isinstance(observed, dict)
        else None,
    )


def remedy_of(remedy: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]] | None:
    """Return tool and arguments of a remedy, or None when it names none."""
    tool, arguments = remedy.get("tool"), remedy.get("arguments")
    return (tool, arguments) if isinstance(tool, str) and isinstance(arguments, dict) else None


def parsed(text: str) -> Mapping[str, Json]:
    """Return the object a text holds, an empty one when it is none."""
    try:
        value = strict_json.parse(text)
    except InvalidJson:
        return {}
    return value if isinstance(value, dict) else {}


def entry_of(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the `foregate` entry of an object, an empty one when there is none."""
    entry = body.get("foregate")
    return entry if isinstance(entry, dict) else {}


def text_of(body: Mapping[str, Json], key: str) -> str:
    """Return a text under `key`, "" when there is none."""
    value = body.get(key)
    return value if isinstance(value, str) else ""
