"""A task's `when`: a condition over the results of earlier tasks.

A condition is a mapping that names a `task` and what its result must be; every matcher given must fit:

- `status`: one of the statuses of a task, or a list of them;
- `exit_code`: how the task's last command ended: a whole number, or a list of them;
- `output_contains`: a text that stands in what the task's calls gave, upper and lower case told apart;
- `line`: a glob as in the rules, `*` and `?`, that fits the whole of one line of it;
- `lines_at_least`: how many lines that are not blank it has.

Or it is one of `all: [...]`, `any: [...]` and `not: {...}` over conditions. Whatever cannot be answered makes the whole
condition false, also under `not`: no result, an output of a task that did not run, a part of one that was left out, a
command's end where none ran. What is unknown never lets a task run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import get_args

from foregate.policy.risk.globs import matches_text
from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas.strict_json import Json, as_object, get_int, get_list, get_text
from foregate.schemas.task_plan import TaskResult, TaskStatus

MATCHERS = ("status", "exit_code", "output_contains", "line", "lines_at_least")
"""The questions a condition may ask about a task's result."""

_JOINED = ("all", "any", "not")
_STATUSES: tuple[str, ...] = get_args(TaskStatus)
_MOST = 64
_DEEPEST = 8


class Unanswerable(Exception):
    """Nobody can say whether a condition holds; the message says why."""


def find_problems(when: Json) -> Iterator[tuple[str, str]]:
    """Yield problem and remedy for everything in `when` that cannot be read."""
    stack: list[tuple[Json, int]] = [(when, 1)]
    seen = 0
    while stack:
        part, depth = stack.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST:
            yield "the condition has too many parts", f"ask at most {_MOST} things, nested {_DEEPEST} deep"
            return
        if not isinstance(part, Mapping) or not part:
            yield "a part of the condition is not a mapping", 'write one such as {"task": 1, "status": "done"}'
        elif joined := next((key for key in _JOINED if key in part), ""):
            inner = part[joined]
            if len(part) > 1:
                yield f"`{joined}` stands beside other keys", f"let `{joined}` stand alone"
            if joined == "not":
                stack.append((inner, depth + 1))
            elif isinstance(inner, list) and inner:
                stack.extend((one, depth + 1) for one in inner)
            else:
                yield f"`{joined}` is not a list of conditions", "write a list of at least one"
        else:
            yield from _problems_of_question(part)


def find_named_tasks(when: Json, asked: str = "task") -> set[int]:
    """Return the numbers of the tasks a condition asks about, with a matcher's name only those it is asked of."""
    found: set[int] = set()
    stack, seen = [when], 0
    while stack and seen <= _MOST:
        part, seen = stack.pop(), seen + 1
        if not isinstance(part, Mapping):
            continue
        task = part.get("task")
        if asked in part and type(task) is int:
            found.add(task)
        for key in _JOINED:
            inner = part.get(key)
            stack.extend(inner[:_MOST] if isinstance(inner, list) else (inner,))
    return found


def describe_condition(when: Mapping[str, Json]) -> str:
    """Return a condition that can be read in words: "task 1 gives at least 2 lines"."""
    if "not" in when:
        return f"not ({describe_condition(as_object(when['not']))})"
    for joined, word in (("all", " and "), ("any", " or ")):
        if joined in when:
            parts = [describe_condition(as_object(part)) for part in get_list(when, joined)]
            return parts[0] if len(parts) == 1 else word.join(f"({part})" for part in parts)
    asked = " and ".join(_describe_question(key, when[key]) for key in MATCHERS if key in when)
    return f"task {get_int(when, 'task')} {asked}"


def _describe_question(key: str, wanted: Json) -> str:
    """Return what a matcher asks of a task, after its name; a text stands as JSON, so that it ends where it ends."""
    either = " or ".join(map(str, _as_list(wanted)))
    said = {"status": f"is {either}", "exit_code": f"ends its command with exit code {either}"}
    said |= {"lines_at_least": f"gives at least {either} {'line' if wanted == 1 else 'lines'}"}
    text = json.dumps(wanted, ensure_ascii=False)
    return (said | {"output_contains": f"says {text}", "line": f"has a line like {text}"})[key]


def evaluate(when: Mapping[str, Json] | None, results: Mapping[int, TaskResult]) -> tuple[bool, str]:
    """Return whether a condition holds over the results by task, and why; one nobody can answer does not, None does."""
    if when is None:
        return True, "the task has no condition"
    wrong = next(find_problems(when), None)
    if wrong is not None:
        return False, f"the condition cannot be read: {wrong[0]}"
    try:
        return _evaluate(when, results)
    except Unanswerable as unknown:
        return False, f"the condition cannot be answered: {unknown}"


def _problems_of_question(part: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for key in part:
        if key != "task" and key not in MATCHERS:
            near = get_close_matches(str(key)[:64], ("task", *MATCHERS, *_JOINED), n=1)
            allowed = ", ".join(f"`{name}`" for name in MATCHERS)
            yield f"`{escape_text(key, 40)}` is unknown", f"did you mean `{near[0]}`?" if near else f"ask {allowed}"
    task, line, least = part.get("task"), part.get("line"), part.get("lines_at_least")
    if type(task) is not int or task < 1:
        yield "the condition names no task", "write the number of an earlier task as `task`"
    if not any(key in part for key in MATCHERS):
        yield "the condition asks nothing of the task", 'ask something, such as "status": "done"'
    if "status" in part and not all(one in _STATUSES for one in _as_list(part["status"])):
        yield f"`{escape_text(part['status'], 60)}` is no status", f"use {', '.join(_STATUSES)}"
    if "exit_code" in part and not all(type(one) is int for one in _as_list(part["exit_code"])):
        yield "`exit_code` is not a whole number", "write one such as 0, or a list of them"
    for key in ("output_contains", "line"):
        if key in part and not (isinstance(part[key], str) and part[key]):
            yield f"`{key}` is not a text", "write the text to look for"
    if isinstance(line, str):
        try:
            matches_text(line, "")
        except ValueError:
            yield "the glob of `line` is too long", "shorten it"
    if "lines_at_least" in part and not (type(least) is int and least >= 0):
        yield "`lines_at_least` is not a whole number", "write one such as 1"


def _evaluate(when: Mapping[str, Json], results: Mapping[int, TaskResult]) -> tuple[bool, str]:
    """Answer a condition known to be readable. Every part is answered, so that nothing unknown is passed by."""
    if "not" in when:
        held, why = _evaluate(as_object(when["not"]), results)
        return not held, why
    for joined, want in (("all", False), ("any", True)):
        if joined in when:
            answers = [_evaluate(as_object(part), results) for part in get_list(when, joined)]
            deciding = next((why for held, why in answers if held is want), None)
            return (want, deciding) if deciding is not None else (not want, "; ".join(why for _, why in answers)[:400])
    task = get_int(when, "task")
    result = results.get(task)
    if result is None:
        raise Unanswerable(f"task {task} has no result")
    answers = [_matcher(key, when, result) for key in MATCHERS if key in when]
    failed = next((why for held, why in answers if not held), None)
    return failed is None, failed or " and ".join(why for _, why in answers)


def _matcher(key: str, when: Mapping[str, Json], result: TaskResult) -> tuple[bool, str]:
    task = f"task {result.task}"
    if key == "status":
        return result.status in _as_list(when[key]), f"{task} is {result.status}"
    if result.status not in ("done", "failed"):
        raise Unanswerable(f"{task} is {result.status} and has no output")
    if key == "exit_code":
        code = next((one.exit_code for one in reversed(result.responses) if one.exit_code is not None), None)
        if code is None:
            raise Unanswerable(f"{task} ran no command that ended by itself")
        return code in _as_list(when[key]), f"the command of {task} ended with {code}"
    found, said = _output(key, when, "\n".join(response.data for response in result.responses))
    if not found and any(response.dropped for response in result.responses):
        raise Unanswerable(f"a part of the output of {task} was left out")
    return found, f"the output of {task} {said}"


def _output(key: str, when: Mapping[str, Json], output: str) -> tuple[bool, str]:
    lines = [line for line in output.split("\n") if line.strip()]
    if key == "lines_at_least":
        return len(lines) >= get_int(when, key), f"has {len(lines)} {'line' if len(lines) == 1 else 'lines'}"
    wanted = get_text(when, key)
    found, what = wanted in output, "the text"
    if key == "line":
        found, what = any(matches_text(wanted, line) for line in lines), "a line that fits"
    return found, f"{'has' if found else 'does not have'} {what} `{escape_text(wanted, 60)}`"


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]
