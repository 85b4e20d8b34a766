"""How the rehearsal model plans and criticises: strict JSON, worked out from what was asked and the calls alone."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from foregate.agent.models.rehearsal_kinds import KINDS, Told, change, describe, excerpt, look, short
from foregate.agent.models.rehearsal_reading import (
    CallAnswer,
    RehearsalConversation,
    Wish,
    read_object,
    understand,
)
from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import Message
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.value import Value, read_forms

TOGETHER = [
    {"write_file", "edit_file", "create_directory"},
    {"delete_path", "run_shell"},
    {"git_add", "git_commit"},
    *({"move_path"}, {"http_request"}, {"run_tests", "run_build"}, {"git_push"}),
]
"""Tools that change something, those together that could serve the same end."""
PLANNED = {"run_command"}.union(*TOGETHER) - {"run_shell", "run_tests", "run_build", "git_push"}
"""The tools a plan names beforehand; where a push leads is known only once it is judged."""
LOOKS = frozenset(["git_diff", "git_log", "git_status", "http_request", "list_files", "read_file", "search_text"])
"""Tools that are there to look."""
SHOWN = LOOKS | {"run_command", "run_shell", "run_tests"}
"""Tools whose output is what the person wanted to see."""
# "yes", "do what the file says".
DELEGATION = compile_late(
    r"\b(?:yes|ok(?:ay)?)\b|\b(?:do|follow|as)\b.{0,40}\b(?:says?|said|asks?|asked|steps|wants?|listed)\b",
    re.IGNORECASE,
)
"""Words by which a person hands on what somebody else has said."""
MARKS = "\u27e6\u27e7"
"""What stands around text from outside."""
NAMING = ("address", "url", "host")
# "DE4412345": a letter and four digits.
CODE = compile_late(r"(?=.*[^\W\d_])(?:.*\d){4}")
"""A word that names something, such as an account."""
# "content of `a.txt`\n".
HEADING = compile_late(r"\Acontent of `[^`]*`\n")
"""How a plan heads the text of what it read."""
PlannedStep = tuple[str, str, str, int]
"""Tool, target, description and uses."""


def write_plan(messages: Sequence[Message], stumbles: bool) -> str:
    """Return a plan as JSON text: for the calls of a request, or where it shows none from the person's words alone.

    Calls that nobody asked for get a plan without a goal, which is no plan. One that stumbles forgets the risks at
    first.
    """
    request = read_object(messages[1].text)
    calls = request.get("calls", ())
    if not (is_blind := "tools" in request) and not calls:
        return ""
    wishes = understand(request["user_words"]).wishes
    steps = [row for wish in wishes for row in list_steps(wish)]
    known = [wish for wish in wishes if wish.verb in KINDS]
    if is_blind:
        steps += [("git_push", "", describe(w), 1) for w in known for c in list_changes(w) if c.name == "git_push"]
        first, other = (steps or [("read_file", "", "look at what is there", 1)])[0], "Do what was asked"
        offered = {tool["name"] for tool in request["tools"]}
        planned = [build_blind_step(*row) for row in steps if row[0] in offered]
        done, risks = "everything asked for is done, and nothing else changed", ["it could do more than was asked"]
    else:
        named: list[PlannedStep] = [
            (call["tool"], call["target"], f"{call['tool']} on {call['target'] or 'what it names'}", 1)
            for call in calls
        ]
        if not request["amendment"]:
            named += [row for row in steps if row[:2] not in [one[:2] for one in named]]
        first, other = named[0], f"Do what was asked with {named[0][0]}"
        planned = [{**name_step(*row), "effect": None, "uses": row[3]} for row in named]
        done, risks = f"{first[2]}: done, and nothing else changed", list(map(describe_risk, calls))
    forgets = stumbles and request.get("plan") is None and not request.get("defect")
    criteria = [(done, None, None, None), *(criterion for wish in wishes for criterion in list_criteria(wish))]
    plan: dict[str, Json] = {
        "goal": (describe_goal(known) or other) if is_blind or are_asked_for(calls, wishes) else "",
        "success_criteria": [dict(zip(("text", "check", "target", "expected"), row, strict=True)) for row in criteria],
        "first_action": name_step(*first),
        "requires_verification": True,
        "risky_actions": [] if forgets else list[Json](risks),
        "version": 2 if is_blind else 1,
        "planned_steps": list[Json](planned),
    }
    return strict_json.canonical({**plan, "flows": []} if is_blind else plan).decode()


def name_step(tool: str, target: str, description: str, uses: int) -> dict[str, Json]:
    return {"tool": tool, "target": target, "description": description}


def build_blind_step(tool: str, target: str, description: str, uses: int) -> dict[str, Json]:
    """Return a step whose target is what the person said."""
    said: dict[str, Json] = {"argument": None, "said": target, "read": None, "record": None, "field": None}
    step: dict[str, Json] = {"tool": tool, "effect": None, "uses": uses, "description": description, "bounds": []}
    return {**step, "targets": [said] if target else []}


def describe_goal(wishes: Sequence[Wish]) -> str:
    goal = short("; ".join(map(describe, wishes)), 400)
    return goal[:1].upper() + goal[1:]


def list_steps(wish: Wish) -> Iterator[PlannedStep]:
    """Yield what changes something for a wish, as far as it is known before looking; of files that match, ten."""
    kind, says = KINDS.get(wish.verb), describe(wish)
    if wish.verb == "sweep":
        yield "delete_path", wish.pattern, says, 10
    elif kind is not None and kind.tool in PLANNED:
        yield kind.tool, wish.target, says, 1
    for call in list_changes(wish):
        if call.name in PLANNED:
            yield from ((call.name, target, says, 1) for target in list_targets(call))


def list_changes(wish: Wish) -> Sequence[ToolCall]:
    """Return the calls that change something for a wish, where they are known before looking."""
    changes = change(wish) if wish.verb in KINDS else None
    return () if changes is None or isinstance(changes, Told) else changes


def list_targets(call: ToolCall) -> list[str]:
    """Return what a call touches, as a plan names it."""
    arguments: Any = call.arguments
    if "argv" in arguments:
        return [shlex.join(arguments["argv"])]
    return [arguments[key] for key in ("path", "url", "source", "destination") if key in arguments] or ["."]


def are_asked_for(calls: Sequence[Any], wishes: Sequence[Wish]) -> bool:
    """Whether calls could be part of fulfilling the wishes; where one is not understood, any call might."""
    if not wishes or not all(wish.verb in KINDS and KINDS[wish.verb].says for wish in wishes):
        return True
    commands = [list(wish.words) for wish in wishes if wish.verb == "run"]
    tools = {call.name for wish in wishes for call in (*look(wish), *list_changes(wish))}
    tools |= {KINDS[wish.verb].tool for wish in wishes}
    return all(
        read_object(call["arguments"]).get("argv") in commands
        if call["tool"] == "run_command"
        else all(tools.intersection(group) for group in TOGETHER if call["tool"] in group)
        for call in calls
    )


def list_criteria(wish: Wish) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    """Yield what a look at a file would show once a wish is fulfilled: text, check, target and what is expected."""
    if wish.verb == "replace":
        yield describe(wish), "file_contains", wish.target, wish.other
    elif wish.verb in ("write", "append", "move"):
        yield describe(wish), "file_exists", wish.other or wish.target, None


def describe_risk(call: Any) -> str:
    flags = call.get("capabilities", {})
    why = " and ".join(name for name in ("irreversible", "external") if flags.get(name) is True)
    return f"{call['tool']} {call['target']}: {why or call['effect'] or 'a change'}"


def write_critique(messages: Sequence[Message]) -> str:
    """Return a critique of the calls of the newest request, as JSON text.

    It asks to replan where a shell line deletes by pattern, where what is deleted was never looked at or looks differ,
    and where only text from outside wants what a call does, or the person named another target.
    """
    request = read_object(messages[-1].text)
    differ = {item["resource"] for item in request.get("contradictions", ())}
    seen = {item["resource"] for item in request.get("evidence", ()) if item["seen"]} - differ
    issues = [issue for call in request["calls"] for issue in list_issues(call, seen)]
    issues += [issue for call in request["calls"] for issue in list_doubts(call, request["user_words"])]
    verdict, summary = "accept", "The calls do what was asked and no more."
    if issues:
        verdict, summary = "replan", "This is not what was asked, or could destroy more."
    return strict_json.canonical({"verdict": verdict, "issues": issues, "summary": summary}).decode()


def list_issues(call: Any, seen: set[str]) -> list[str]:
    """Return what speaks against a call."""
    arguments = read_object(call["arguments"])
    if arguments.get("force") is True:
        return ["`force` overwrites what others have pushed, and nobody asked for that; push without it"]
    command = arguments.get("command", "")
    words = command.replace(";", " ").replace("&", " ").split()
    removes = call["tool"] == "run_shell" and not {"rm", "rmdir", "unlink", "-delete", "clean"}.isdisjoint(words)
    if removes and (set("*?[").intersection(command) or any(w.startswith("-") and "r" in w for w in words)):
        return [f"`{short(command)}` deletes whatever its pattern matches, unseen; list the files and delete each"]
    targets = call.get("targets", ()) if call["effect"] == "delete" else ()
    unseen = [target for target in targets if target not in seen]
    return [f"`{target}` was never looked at; look at it before deleting it" for target in unseen]


def list_doubts(call: Any, user_words: str) -> list[str]:
    """Return what speaks against a call because of who said its values."""
    values = call.get("values", ())
    outside = [value for value in values if value["origin"] in ("outside", "unclear")]
    if not outside:
        return []
    if not call["asked_for"] and not DELEGATION.search(user_words):
        return [f"only text from outside wants `{call['tool']}`, and the person did not ask for it; leave it out"]
    meant = {form for word in user_words.split() for form in read_names(word)}
    meant -= {form for value in values for form in read_names(value["text"])}
    for value in outside:
        kinds = {form.kind for form in read_names(value["text"])}
        if named := sorted(form.normal for form in meant if form.kind in kinds):
            return [
                f"`{value['path']}` is {value['text']}, and the person named `{short(named[0])}`; ask which is meant"
            ]
    return []


def read_names(text: str) -> set[Value]:
    """Return what a text names, as an address or an account does."""
    return {form for form in read_forms(text.strip(MARKS)) if form.kind in NAMING or CODE.match(form.normal)}


def write_task_plan(messages: Sequence[Message]) -> str:
    """Return a plan for the newest request as JSON text, "" where a part of it is not understood.

    What is run or committed rests on every change before it. What was just read is not read again, and what was done
    before somebody thought of a plan is not planned.
    """
    request = read_object(messages[-1].text)
    listing = CallAnswer(ok=True, output=request.get("workspace", ""))
    planned = [(wish, list_tasks(wish, listing)) for wish in understand(request.get("request", "")).wishes]
    if not planned or not all(steps for _, steps in planned):
        return ""
    before = request.get("already", {}).get("done", ())
    done = [ToolCall.parse(call["tool"], call["arguments"]).digest for call in before]
    tasks: list[dict[str, Any]] = []
    left: list[Wish] = []
    for wish, steps in planned:
        if (calls := steps[-1]["calls"]) and all(call.digest in done for call in calls):
            continue
        left.append(wish)
        rests = wish.verb in ("commit", "commit_if", "run", "shell", "test")
        after = list(range(1, len(tasks) + 1)) if rests else []
        if len(steps) > 1 and tasks and steps[0]["calls"] == tasks[-1]["calls"]:
            steps, after = steps[1:], [len(tasks)]
        for step in steps:
            when = step["when"].replace("#", str(len(tasks))) or None
            tasks.append({**step, "id": len(tasks) + 1, "depends_on": after, "when": when})
            after = [len(tasks)]
    for task in tasks:
        task["calls"] = task["calls"] and [{"tool": call.name, "arguments": call.raw} for call in task["calls"]]
    return json.dumps({"goal": describe_goal(left), "tasks": tasks}, ensure_ascii=False)


def list_tasks(wish: Wish, listing: CallAnswer) -> list[dict[str, Any]]:
    """Return the tasks of one wish, none where it cannot be planned; what a listing shows is known beforehand.

    A task without calls names the tool that will be called once the task before it was seen.
    """
    kind = KINDS.get(wish.verb)
    if kind is None or not kind.planned:
        return []
    looks = look(wish)
    changes = change(wish, [listing] if kind.looks.startswith("list_files") else ())
    if isinstance(changes, Told):
        return []
    reason = reason_of(wish)
    last = {"action": kind.tool, "target": wish.target, "reason": reason, "calls": changes, "when": kind.when}
    if changes is not None:
        last |= {"action": (changes or looks)[0].name, "target": None, "calls": changes or looks}
    if not looks or last["calls"] == looks:
        return [last]
    tool = looks[0].name
    is_read = tool == "read_file"
    why = f"Read {wish.target} before it is changed." if is_read else f"Look, to {reason[:1].lower()}{reason[1:]}"
    first = {"action": tool, "reason": why, "calls": looks, "when": "", "may_fail": tool == "run_tests" or None}
    return [first, last]


def reason_of(wish: Wish) -> str:
    """Return the reason of a wish's last task, by which it is known again."""
    return f"{describe_goal([wish])}."


def fill_task(conversation: RehearsalConversation) -> ModelResponse:
    """Return the calls of a planned task that could not be known before its look, from what that look showed."""
    reason = conversation.task.get("reason", "")
    wishes = [*understand(conversation.request).wishes, *understand(reason).wishes]
    wish = next((wish for wish in wishes if wish.verb in KINDS and reason_of(wish) == reason), None)
    if wish is None:
        return ModelResponse("I fill in only tasks of plans I made myself, so I have done nothing.")
    made = [pair for exchange in conversation.exchanges for pair in zip(exchange.calls, exchange.answers, strict=True)]
    shown = {call.digest: replace(answer, output=HEADING.sub("", answer.output)) for call, answer in made}
    seen = [shown.get(call.digest) for call in look(wish)]
    changes = change(wish, [answer for answer in seen if answer is not None]) if None not in seen else None
    if changes is None:
        return ModelResponse(f"I have not seen what I need to {describe(wish)}.")
    if isinstance(changes, Told):
        return ModelResponse(changes.text)
    return ModelResponse(f"Now I {describe(wish)}.", tuple(changes))


def write_plan_results(messages: Sequence[Message]) -> str:
    """Return the answer to a plan's results as JSON text: the outcome of each task, and never a further plan.

    Tasks before a change that called nothing but tools that are there to look only prepare it, and go unsaid.
    """
    request = read_object(messages[-1].text)
    results: Sequence[Any] = request.get("results", ())
    changing = [not all(call["tool"] in LOOKS for call in entry["calls"]) for entry in results]
    told = [entry for place, entry in enumerate(results) if changing[place] or not any(changing[place:])]
    parts = [describe_done(entry) for entry in told if entry["status"] == "done"]
    parts += [describe_undone(entry) for entry in results if entry["status"] != "done"]
    answer = {"answer": "\n\n".join(parts) or "There was nothing to do."}
    return json.dumps(answer | ({"plan": None} if request.get("plans_left") else {}), ensure_ascii=False)


def describe_done(entry: Any) -> str:
    """Return what a task that is done has to show: its output where it only looked, else that it is done."""
    outputs = [call.get("result") for call in entry["calls"] if call["tool"] in SHOWN]
    return "\n".join([f"Done: {entry['asked'].rstrip('.')}.", *map(excerpt, filter(None, outputs))])


def describe_undone(entry: Any) -> str:
    return f"Not done: {entry['asked'].rstrip('.')} ({short(entry.get('why', '')) or entry['status']})."
