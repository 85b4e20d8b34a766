"""How the rehearsal model plans: each thing it understood as a few tasks with their calls, from the request alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foregate.agent.models.rehearsal.conversation import (
    CallAnswer,
    RehearsalConversation,
    object_at,
    objects_at,
    parse_object,
    read_text,
)
from foregate.agent.models.rehearsal.kinds import KINDS, Told, describe
from foregate.agent.models.rehearsal.sentences import understand
from foregate.agent.models.rehearsal.stage import Move
from foregate.agent.models.rehearsal.wish import Wish, excerpt, short
from foregate.schemas.message import Message
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

LOOKS = frozenset(["git_diff", "git_log", "git_status", "http_request", "list_files", "read_file", "search_text"])
"""Tools that are there to look."""
SHOWN = LOOKS | {"run_command", "run_shell", "run_tests"}
"""Tools whose output is what the person wanted to see."""


@dataclass(frozen=True, slots=True)
class Step:
    """One task of a wish: its calls, or None and the tool that will be called once an earlier task was seen."""

    reason: str
    calls: Sequence[ToolCall] | None
    tool: str
    target: str = ""
    may_fail: bool = False
    when: bool = False


def write_task_plan(messages: Sequence[Message]) -> str:
    """Return a plan for the newest request as JSON text, "" where a part of it is not understood."""
    request = parse_object(messages[-1].text) if messages else {}
    wishes = understand(read_text(request, "request")).wishes
    listing = CallAnswer(ok=True, output=read_text(request, "workspace"))
    planned = [(wish, steps_of(wish, listing)) for wish in wishes]
    if not planned or not all(steps for _, steps in planned):
        return ""
    before = objects_at(object_at(request, "already"), "done")
    done = {ToolCall.parse(read_text(call, "tool"), read_text(call, "arguments")).digest for call in before}
    left = [(wish, steps) for wish, steps in planned if not is_done(steps[-1], done)]
    tasks: list[dict[str, Json]] = []
    last: Sequence[ToolCall] | None = None
    for wish, steps in left:
        # What is run or committed rests on every change before it.
        rests = list(range(1, len(tasks) + 1)) if wish.verb in ("commit", "commit_if", "run", "shell", "test") else []
        if len(steps) > 1 and steps[0].calls == last:
            steps, rests = steps[1:], [len(tasks)]  # What was just read need not be read again.
        last = steps[-1].calls
        for number, step in enumerate(steps):
            tasks.append(task_of(wish, step, len(tasks) + 1, [len(tasks)] if number else rests))
    goal = short("; ".join(describe(wish) for wish, _ in left), 400)
    plan = {
        "goal": f"{goal[:1].upper()}{goal[1:]}",
        "tasks": tasks,
        "estimated_duration": None,
        "requires_confirmation": True,
        "metadata": None,
    }
    return json.dumps(plan, ensure_ascii=False)


def is_done(step: Step, done: set[str]) -> bool:
    """Whether every call of a task was made before somebody thought of a plan."""
    return bool(step.calls) and done.issuperset(call.digest for call in step.calls or ())


def task_of(wish: Wish, step: Step, number: int, after: list[int]) -> dict[str, Json]:
    """Return a task as it travels."""
    when = KINDS[wish.verb].when
    calls: Json = None
    if step.calls is not None:
        calls = [
            {"tool": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False), "description": None}
            for call in step.calls
        ]
    return {
        "id": number,
        "action": step.tool,
        "target": step.target or None,
        "reason": step.reason,
        "expected_outcome": None,
        "depends_on": [*after],
        "params": None,
        "calls": calls,
        "when": json.dumps(when(number - 1)) if when is not None and step.when else None,
        "may_fail": step.may_fail or None,
    }


def steps_of(wish: Wish, listing: CallAnswer) -> list[Step]:
    """Return the tasks of one wish, none where it cannot be planned; what a listing shows is known beforehand."""
    kind = KINDS.get(wish.verb)
    if kind is None or not kind.planned:
        return []
    looks = kind.looks(wish)
    lists = bool(looks) and looks[0].name == "list_files"
    changes = kind.changes(wish, [listing] if lists else None)
    if isinstance(changes, Told):
        return []
    reason = reason_of(wish)
    if changes is not None and not changes:
        return [Step(reason, looks, looks[0].name)]
    steps = []
    if looks:
        first = f"Read {wish.target} before it is changed." if looks[0].name == "read_file" else f"Look, to {reason}"
        steps = [Step(first, looks, looks[0].name, may_fail=looks[0].name == "run_tests")]
    tool, target = (kind.tool, wish.target) if changes is None else (changes[0].name, "")
    return [*steps, Step(reason, changes, tool, target, when=True)]


def reason_of(wish: Wish) -> str:
    """Return the reason of a wish's last task, by which it is known again."""
    said = describe(wish)
    return f"{said[:1].upper()}{said[1:]}."


def fill(conversation: RehearsalConversation) -> Move:
    """Return the calls of a planned task that could not be known before its look, from what that look showed."""
    reason = read_text(conversation.task, "reason")
    wishes = [*understand(conversation.request).wishes, *understand(reason).wishes]
    wish = next((wish for wish in wishes if wish.verb in KINDS and reason_of(wish) == reason), None)
    if wish is None:
        return Move("I fill in only tasks of plans I made myself, so I have done nothing.")
    kind = KINDS[wish.verb]
    shown = {
        call.digest: replace(
            answer, output=answer.output.removeprefix(f"content of `{read_text(call.arguments or {}, 'path')}`\n")
        )
        for exchange in conversation.exchanges
        for call, answer in zip(exchange.calls, exchange.answers, strict=True)
    }
    seen = [shown[call.digest] for call in kind.looks(wish) if call.digest in shown]
    changes = kind.changes(wish, seen) if len(seen) == len(kind.looks(wish)) else None
    if changes is None:
        return Move(f"I have not seen what I need to {describe(wish)}.")
    if isinstance(changes, Told):
        return Move(changes.text)
    return Move(f"Now I {describe(wish)}.", tuple(changes))


def write_plan_results(messages: Sequence[Message]) -> str:
    """Return the answer to a plan's results as JSON text: what came of each task, and never a further plan."""
    request = parse_object(messages[-1].text) if messages else {}
    results = objects_at(request, "results")
    changing = [place for place, entry in enumerate(results) if not is_reading_only(entry)]
    told = [entry for place, entry in enumerate(results) if place in changing or place > max(changing, default=-1)]
    done = [describe_done(entry) for entry in told if entry.get("status") == "done"]
    open_ = [
        f"Not done: {read_text(entry, 'asked').rstrip('.')} "
        f"({short(read_text(entry, 'why')) or read_text(entry, 'status')})."
        for entry in results
        if entry.get("status") != "done"
    ]
    answer: dict[str, Json] = {"answer": "\n\n".join([*done, *open_]) or "There was nothing to do."}
    if request.get("plans_left"):
        answer["plan"] = None
    return json.dumps(answer, ensure_ascii=False)


def is_reading_only(entry: Mapping[str, Json]) -> bool:
    """Whether a task called nothing but tools that are there to look; such ones before a change only prepare it."""
    return all(read_text(call, "tool") in LOOKS for call in objects_at(entry, "calls"))


def describe_done(entry: Mapping[str, Json]) -> str:
    """Return what a task that is done has to show: its output where it only looked, else that it is done."""
    calls = objects_at(entry, "calls")
    outputs = [read_text(call, "result") for call in calls if read_text(call, "tool") in SHOWN]
    return "\n".join([f"Done: {read_text(entry, 'asked').rstrip('.')}.", *map(excerpt, filter(None, outputs))])
