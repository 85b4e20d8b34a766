"""How the rehearsal model plans: each thing it understood as a few tasks with their calls, from the request alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from foregate.agent.models.rehearsal.advice import listed, newest, text
from foregate.agent.models.rehearsal.conversation import parsed
from foregate.agent.models.rehearsal.grammar import understand
from foregate.agent.models.rehearsal.wish import Wish
from foregate.agent.models.rehearsal.wishes import file_of, matches
from foregate.agent.models.rehearsal.words import described, excerpt, short
from foregate.schemas.json_object import get_int
from foregate.schemas.message import Message
from foregate.schemas.strict_json import Json

Call = tuple[str, Mapping[str, Json]]

LOOKS = ("git_diff", "git_log", "git_status", "http_request", "list_files", "read_file", "search_text")
"""Tools that are there to look."""
SHOWN = (*LOOKS, "run_command", "run_shell")
"""Tools whose output is what the person wanted to see."""


def task_plan(messages: Sequence[Message]) -> str:
    """Return a plan for the newest request as JSON text, "" where a part of it is not understood."""
    request = newest(messages)
    wishes = understand(text(request, "request")).wishes
    files = [name for line in text(request, "workspace").splitlines() if (name := file_of(line))]
    steps = [(wish, stages_of(wish, files)) for wish in wishes]
    if not steps or not all(stages for _, stages in steps):
        return ""
    done = done_already(request)
    steps = [(wish, stages) for wish, stages in steps if not stages[-1][1] or not all(c in done for c in stages[-1][1])]
    tasks: list[dict[str, Json]] = []
    for wish, stages in steps:
        rests = lasting(tasks, wish)
        for number, (why, calls) in enumerate(stages):
            tasks.append(task(len(tasks) + 1, why, calls, [len(tasks)] if number else rests))
    goal = short("; ".join(described(wish) for wish, _ in steps), 400)
    plan = {
        "goal": f"{goal[:1].upper()}{goal[1:]}",
        "tasks": tasks,
        "estimated_duration": None,
        "requires_confirmation": True,
        "metadata": None,
    }
    return json.dumps(plan, ensure_ascii=False)


def done_already(request: Mapping[str, Json]) -> list[Call]:
    """Return the changes that were made before somebody thought of a plan: they need no task."""
    before = request.get("already")
    made = listed(before.get("done")) if isinstance(before, dict) else ()
    return [(text(call, "tool"), parsed(text(call, "arguments"))) for call in made if isinstance(call, dict)]


def lasting(tasks: Sequence[Mapping[str, Json]], wish: Wish) -> list[int]:
    """Return the tasks a wish rests on: what is run or committed rests on every change before it."""
    if wish.verb not in ("commit", "run", "shell"):
        return []
    return [get_int(before, "id") for before in tasks]


def task(number: int, why: str, calls: Sequence[Call], after: Sequence[int]) -> dict[str, Json]:
    """Return a task as it travels."""
    return {
        "id": number,
        "action": calls[0][0],
        "target": None,
        "reason": f"{why[:1].upper()}{why[1:]}.",
        "expected_outcome": None,
        "depends_on": list(after),
        "params": None,
        "calls": [
            {"tool": tool, "arguments": json.dumps(arguments, ensure_ascii=False), "description": None}
            for tool, arguments in calls
        ],
        "when": None,
    }


def stages_of(wish: Wish, files: Sequence[str]) -> list[tuple[str, list[Call]]]:
    """Return reason and calls of each task one wish takes, none where it cannot be planned before looking."""
    says = described(wish)
    match wish.verb:
        case "read" | "explain":
            return [(says, reads(wish.words or (wish.target,)))]
        case "overview":
            return [(says, [("list_files", {"path": "."}), *reads([name for name in files if name == "README.md"])])]
        case "list":
            return [(says, [("list_files", {"path": wish.target})])]
        case "search":
            return [(says, [("search_text", {"pattern": wish.text, "path": wish.target})])]
        case "status" | "diff" | "log":
            return [(f"see what git {wish.verb} says", [(f"git_{wish.verb}", {})])]
        case "replace":
            edit = ("edit_file", {"path": wish.target, "old": wish.text, "new": wish.other})
            return [looked(wish.target), (says, [edit])]
        case "write":
            return [(says, [("write_file", {"path": wish.target, "content": wish.text})])] if wish.text else []
        case "create_directory":
            return [(says, [("create_directory", {"path": wish.target})])]
        case "move":
            return [looked(wish.target), (says, [("move_path", {"source": wish.target, "destination": wish.other})])]
        case "delete":
            return [("look before anything is deleted", reads(wish.words)), gone(says, wish.words)]
        case "sweep":
            folder = wish.target.rstrip("/") or "."
            prefix = "" if folder == "." else f"{folder}/"
            found = [name for name in files if matches(name, prefix, wish.text)]
            return [(f"look before anything in {folder} is deleted", reads(found)), gone(says, found)] if found else []
        case "run":
            return [(says, [("run_command", {"argv": list(wish.words)})])]
        case "shell":
            return [(says, [("run_shell", {"command": wish.text})])]
        case "commit":
            add, keep = ("git_add", {"paths": list(wish.words or (".",))}), ("git_commit", {"message": wish.text})
            return [("see what has changed", [("git_status", {})]), (says, [add, keep])]
        case "fetch":
            return [(says, [("http_request", {"method": "GET", "url": wish.target})])]
        case _:
            return []


def looked(path: str) -> tuple[str, list[Call]]:
    """Return the task that reads a file before it is changed."""
    return f"read {path} before it is changed", reads([path])


def gone(says: str, paths: Sequence[str]) -> tuple[str, list[Call]]:
    """Return the task that deletes files one by one."""
    return says, [("delete_path", {"path": path}) for path in paths]


def reads(paths: Sequence[str]) -> list[Call]:
    """Return the calls that read files."""
    return [("read_file", {"path": path}) for path in paths]


def plan_results(messages: Sequence[Message]) -> str:
    """Return the answer to a plan's results as JSON text: what came of each task, and never a further plan."""
    request = newest(messages)
    results = [entry for entry in listed(request.get("results")) if isinstance(entry, dict)]
    changing = [place for place, entry in enumerate(results) if not only_looks(entry)]
    told = [entry for place, entry in enumerate(results) if place in changing or place > max(changing, default=-1)]
    done = [shown_of(entry) for entry in told if entry.get("status") == "done"]
    open_ = [
        f"Not done: {text(entry, 'asked').rstrip('.')} ({short(text(entry, 'why')) or text(entry, 'status')})."
        for entry in results
        if entry.get("status") != "done"
    ]
    said = "\n\n".join(part for part in [*done, *open_] if part)
    answer: dict[str, Json] = {"answer": said or "There was nothing to do."}
    if request.get("plans_left"):
        answer["plan"] = None
    return json.dumps(answer, ensure_ascii=False)


def only_looks(entry: Mapping[str, Json]) -> bool:
    """Whether a task called nothing but tools that are there to look; such ones before a change only prepare it."""
    return all(isinstance(call, dict) and text(call, "tool") in LOOKS for call in listed(entry.get("calls")))


def shown_of(entry: Mapping[str, Json]) -> str:
    """Return what a task that is done has to show: its output where it only looked, else that it is done."""
    calls = [call for call in listed(entry.get("calls")) if isinstance(call, dict)]
    outputs = [text(call, "result") for call in calls if text(call, "tool") in SHOWN]
    said = f"Done: {text(entry, 'asked').rstrip('.')}."
    return "\n".join([said, *(excerpt(output) for output in outputs if output)])
