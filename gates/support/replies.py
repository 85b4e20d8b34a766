"""What may answer a question to a person, and whether a reply does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foregate.gates.support.declaring import read_declared
from foregate.gates.support.permitting import NARROW, WIDER, list_permits
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.judgement import YES, Need
from foregate.schemas.protocols import Reply
from foregate.schemas.sources import explain_naming, explain_source, is_named_by, list_to_name
from foregate.schemas.strict_json import Json, as_object, as_texts, get_list, get_object, get_text

_SHOWN = 40
_NEED_WORDS = ("more", "edit")
"""The choices that say nothing without words."""


def list_choices(need: Need) -> list[str]:
    """Return the words that answer a question; one about a plan names them itself."""
    if need.gate == "task_plan":
        return list(as_texts(get_list(need.request, "answers"), "answers"))
    if need.gate == "loop":
        return [*(["anyway"] if need.request.get("can_override") else []), "stop", "more"]
    lasting = ["grant"] if need.request.get("grants") else []
    return ["yes", *lasting, *list_permits(list(_list_calls(need).values())), "no"]


def check_reply(need: Need, reply: Reply) -> None:
    """Raise UsageError, one sentence, for a reply that does not answer this question."""
    choices = list_choices(need)
    if reply.choice not in choices:
        raise UsageError(f"`{reply.choice[:_SHOWN]}` is no answer here; answer with {', '.join(choices)}")
    if reply.choice in _NEED_WORDS and not reply.text:
        raise UsageError(f"`{reply.choice}` needs a text")
    check_calls(need, reply)


def build_reply(need: Need, word: str, text: str, calls: Sequence[str], named: Sequence[str], by: str) -> Reply:
    """Return the reply that a command line or a form says; a yes where `word` says none.

    `calls` answer single calls by their numbers, as in `2=no`; `named` are values that were typed. Raises UsageError,
    one sentence, for what cannot answer this question.
    """
    choices = list_choices(need)
    if word == "no" and "no" not in choices:
        word = "stop"
    if word:
        return Reply(word, text, by)
    if need.gate != "approval":
        choice = next((one for one in ("yes", "anyway") if one in choices), "")
        if not choice or calls or named:
            ways = f"answer it with a word: `foregate approvals answer`, one of {', '.join(choices)}"
            raise UsageError(f"this question is no approval of calls that a yes answers so; {ways}")
        return Reply(choice, text, by)
    answers = {**dict.fromkeys(need.calls, "yes"), **_read_calls(need, calls)}
    granted = [call for call, answer in answers.items() if answer == "yes"]
    mixed = len({*answers.values()}) > 1
    choice = "yes" if len(granted) == len(answers) else "no"
    return Reply(choice, text, by, answers if mixed else {}, name_values(need, granted, named))


def _read_calls(need: Need, calls: Sequence[str]) -> dict[str, str]:
    """Return the answers to single calls, by their ids."""
    found = {}
    for said in calls:
        number, _, answer = said.replace(" ", "=").partition("=")
        if not (number.isascii() and number.isdigit() and 0 < int(number[:6]) <= len(need.calls)):
            raise UsageError(f"`{said[:40]}` names no call; this question has {len(need.calls)}, numbered from 1")
        if answer not in ("yes", "no"):
            raise UsageError(f"`{said[:40]}` answers no call; say {number}=yes or {number}=no")
        found[need.calls[int(number) - 1]] = answer
    return found


def name_values(need: Need, granted: Sequence[str], typed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the typed values by the calls with a yes whose values they name, as a Reply has them.

    Raises UsageError for one that names nothing of these calls.
    """
    wanted = {call: list(list_to_name(about)) for call, about in _list_calls(need).items() if call in granted}
    found = {
        call: tuple(text for text in typed if any(is_named_by(text, value) for value in values))
        for call, values in wanted.items()
    }
    for text in typed:
        if not any(text in texts for texts in found.values()):
            raise UsageError(f"`{text[:_SHOWN]}` is no value that this question wants named; nothing was decided")
    return {call: texts for call, texts in found.items() if texts}


def check_named(need: Need, reply: Reply) -> None:
    """Raise UsageError for a yes to a call without the values that a person has to type before it may run."""
    for call, about in _list_calls(need).items() if need.gate == "approval" else ():
        if reply.calls.get(call, reply.choice) not in YES:
            continue
        for value in list_to_name(about):
            if not any(is_named_by(text, value) for text in reply.named.get(call, ())):
                path, text = get_text(value, "path", "value"), get_text(value, "text", "")
                what = f"{explain_naming(value, path)}, `{text[:_SHOWN]}`: {explain_source(value)}"
                raise UsageError(f"a yes alone does not release `{call}`; name {what[:400]}")


def _list_calls(need: Need) -> dict[str, Mapping[str, Json]]:
    calls = map(as_object, get_list(need.request, "calls") if "calls" in need.request else ())
    return {get_text(call, "call", ""): call for call in calls}


def check_calls(need: Need, reply: Reply) -> None:
    """Raise UsageError for a reply about single calls, or about tools, that the question is not about."""
    try:
        read_declared({"declared": dict(reply.declared)}, need.request, "")
    except (UsageError, InvalidJson) as error:
        raise UsageError(f"{error}; nothing was decided") from None
    ids = {**reply.calls, **reply.named}
    if ids and need.gate != "approval":
        raise UsageError("`calls` and `named` are for approvals; this question is another, and nothing was decided")
    if unknown := [call for call in ids if call not in need.calls]:
        known = ", ".join(need.calls)
        why = f"`{unknown[0][:_SHOWN]}` is no call of this question, which has {known}"
        raise UsageError(f"{why}; nothing was decided")
    if wrong := [answer for answer in reply.calls.values() if answer not in ("no", *YES)]:
        raise UsageError(f"`{str(wrong[0])[:_SHOWN]}` answers no call; say yes or no")
    for name, call in _list_calls(need).items() if need.gate == "approval" else ():
        choice = reply.calls.get(name, "")
        is_offered = choice in get_object(call, "permits") or choice not in (NARROW, WIDER)
        if not is_offered or (choice == "grant" and ("to_name" in call or not need.request.get("grants"))):
            raise UsageError(f"`{choice}` is not offered for `{name[:_SHOWN]}`; nothing was decided")
