"""Reading a plan somebody wrote: JSON or YAML, bare or in one code fence, in any of the shapes in use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard, get_args

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.dialects.foreign_calls import take_arguments
from foregate.agent.planning.condition import find_named_tasks
from foregate.agent.planning.findings import Findings
from foregate.policy.source import strict_yaml
from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.task_plan import OnFailure, PlanDefect, PlannedCall, PlanTask, TaskPlan
from foregate.schemas.thoughts import cut_thoughts
from foregate.schemas.tool_spec import Catalogue


def list_keys(shape: type[Struct], **foreign: tuple[str, ...]) -> Mapping[str, str]:
    """Return our name of every key of a shape, by itself and by the names others use for it."""
    theirs = {name: ours for ours, every in foreign.items() for name in every}
    return {name: name for name in shape.__struct_fields__} | theirs


_PLAN = list_keys(TaskPlan, id=("plan_id",), query=("user_query",), tasks=("steps",))
_TASK = list_keys(
    PlanTask,
    id=("step_number", "step"),
    reason=("description",),
    calls=("actions",),
    tool=("tool", "tool_name"),
    arguments=("args", "arguments"),
)
_CALL = list_keys(PlannedCall, tool=("tool_name",), arguments=("args",), description=("reasoning",))
_ANALYSIS, _TESTS = "analyze_error", "run_tests"
_MENDING = frozenset(["edit_file", "write_file", "apply_patch"])
_ID = compile_late(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DURATION = compile_late(r"\s*(\d{1,6})\s*(s|sec|seconds?|m|min|minutes?|h|hours?)\s*\.?", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_LARGEST = 1_000_000
"""The largest number of a task, and of seconds, that is taken for one."""
_MOST_PARTS = 20_000
"""Tasks and calls of one plan that are read: far more than any policy allows, and few enough to name what is wrong."""
_MOST_KEYS = 20
"""Unknown keys that are named in one mapping."""
_FENCE = "```"
_JSON = "{["
_OPENING, _CLOSING = ("{", "["), ("}", "]")
_LEFT_OUT = "the text around the plan was left out"
_MOST_YAML = 96 * 1024
"""Bytes of YAML that are read: its parser is some hundred times slower than that of JSON."""
_DEEPEST = 56
_DEEPEST_INSIDE = 32
"""Less than strict JSON allows by itself, so that a plan that was read can be written and read again."""


class Reading(Struct, frozen=True):
    """What reading a plan gave: the plan as far as it could be read, what was filled in, and what is wrong.

    `plan` is None where the text holds none at all; `notes` are sentences about what was filled in or resolved. Where a
    plan has run, there may be an `answer` in words beside a further plan, or alone.
    """

    plan: TaskPlan | None
    notes: tuple[str, ...] = ()
    defects: tuple[PlanDefect, ...] = ()
    answer: str = ""


def read_plan(text: str, *, query: str = "", catalogue: Catalogue | None = None) -> Reading:
    """Return the plan `text` holds; never raise for what it says.

    `query` is the request the plan is for, used where the text names none. Foreign names of tools and parameters are
    resolved by the table of aliases, unless `catalogue` has a tool of that very name. The defects are those of form;
    `validate` finds the others, so that both together are everything that is wrong.
    """
    try:
        value, notes = parse_plan_text(text)
        if not isinstance(value, (list, dict)):
            raise InvalidJson("the text holds no plan")
    except InvalidJson as error:
        remedy = "write one object with `goal` and `tasks`, as JSON or YAML and nothing else"
        return Reading(None, (), (PlanDefect(0, "plan", escape_text(error, 400), remedy),))
    reader = _PlanReader(catalogue)
    for note in notes:
        reader.book.add_note(note)
    plan = reader.read_plan({"tasks": value} if isinstance(value, list) else value, query)
    return Reading(plan, reader.book.notes, tuple(reader.book.defects))


def add_own_id(plan: TaskPlan) -> TaskPlan:
    """Return the plan under an id made of what it says, so that the same plan has the same id."""
    return replace(plan, id=f"plan-{replace(plan, id='').digest[:12]}")


class _MappingReader:
    """One mapping: the plan, a task, or a call of one; `given` is what it says under our names of its keys.

    Whatever cannot be read is a defect and stands at its default; so is an unknown key, which is not passed over.
    """

    def __init__(
        self, book: Findings, task: int, where: str, value: Mapping[str, Json], ours: Mapping[str, str]
    ) -> None:
        self.book, self.task, self.where = book, task, where
        self.given: dict[str, Json] = {}
        unknown = 0
        for key, inner in value.items():
            name = ours.get(key)
            if name is None:
                unknown += 1
                if unknown <= _MOST_KEYS:
                    self.add_defect(escape_text(key, 40), "this key is unknown", book.suggest_nearest(key, ours))
            elif self.given.get(name) is None:
                self.given[name] = inner
            elif inner is not None:
                self.add_defect(key, f"`{name}` is given twice, under different names", "keep one of them")

    def add_defect(self, name: str, problem: str, remedy: str) -> None:
        self.book.add_defect(self.task, self.where + name, problem, remedy)

    def read_text(self, name: str) -> str:
        """Return a text, "" for null."""
        value = self.given.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self.add_defect(name, f"`{escape_text(value, 40)}` is not text", "write text")
        return ""

    def read_flag(self, name: str, *, default: bool = False) -> bool:
        value = self.given.get(name)
        if value is not None and not isinstance(value, bool):
            self.add_defect(name, "it is neither true nor false", "write true or false")
        return value if isinstance(value, bool) else default

    def read_mapping(self, name: str) -> dict[str, Json]:
        """Return a mapping that may be null, or written as JSON text."""
        value = self.given.get(name)
        try:
            if isinstance(value, str):
                value = strict_json.parse(value, max_depth=_DEEPEST_INSIDE) if value.strip() else None
            if value is not None and not isinstance(value, dict):
                raise InvalidJson("it is not a mapping")
        except InvalidJson as error:
            self.add_defect(name, escape_text(error, 200), "write an object, or an object as JSON text")
            return {}
        return value or {}


def find_tests_before_edits(tasks: Sequence[PlanTask]) -> set[int]:
    """Return the tasks that run tests which a later one runs again, after one in between has edited a file."""
    found, again, mended = set[int](), False, False
    for task in reversed(tasks):
        tools = {task.action, *(call.tool for call in task.calls)}
        if _TESTS in tools:
            found |= {task.id} if mended else set()
            again = True
        mended |= again and not _MENDING.isdisjoint(tools)
    return found


class _PlanReader:
    """Reads one plan; `room` is how many tasks and calls of it are still read."""

    def __init__(self, catalogue: Catalogue | None) -> None:
        self.book, self.catalogue, self.room = Findings(), catalogue, _MOST_PARTS

    def fit(self, part: _MappingReader, name: str, listed: list[Json]) -> list[Json]:
        """Return the tasks or calls of a list that are still read; a defect where that leaves some out."""
        room, self.room = self.room, max(0, self.room - len(listed))
        if len(listed) > room:
            problem = f"the plan is too long: only its first {_MOST_PARTS} tasks and calls are read"
            part.add_defect(name, problem, "do less, or make plans that follow each other")
        return listed[:room]

    def read_plan(self, value: Mapping[str, Json], query: str) -> TaskPlan:
        part = _MappingReader(self.book, 0, "", value, _PLAN)
        given, tasks = part.given, self.read_tasks(part)
        asked, goal = part.read_text("query") or scrub(query), part.read_text("goal")
        if not goal:
            goal = asked or next((task.reason for task in tasks if task.reason), "")
            self.book.add_note("the goal was missing; it is the request" if asked else "the goal was missing")
        if given.get("version") not in (None, 1) or isinstance(given.get("version"), bool):
            part.add_defect("version", "the plan is of another version", "write `version: 1`, or leave it out")
        on_failure, choices = given.get("on_failure"), get_args(OnFailure)
        if on_failure is not None and on_failure not in choices:
            allowed = ", ".join(f"`{choice}`" for choice in choices)
            problem = f"`{escape_text(on_failure, 40)}` is no way to go on"
            part.add_defect("on_failure", problem, f"write one of {allowed}")
        plan = TaskPlan(
            id="",
            query=asked,
            goal=goal,
            tasks=tasks,
            estimated_duration=self.read_duration(given.get("estimated_duration")),
            requires_confirmation=part.read_flag("requires_confirmation", default=True),
            on_failure=next((choice for choice in choices if choice == on_failure), "continue_independent"),
            metadata=part.read_mapping("metadata"),
        )
        named = part.read_text("id")
        if _ID.fullmatch(named):
            return replace(plan, id=named)
        if named:
            self.book.add_note("the plan's id held characters an id cannot have, or too many; it has a new one")
        return add_own_id(plan)

    def read_tasks(self, part: _MappingReader) -> tuple[PlanTask, ...]:
        """Return the tasks in the order they are written; one may fail if a later one is there to look at its failure.

        That is a task that says nothing of it itself, and on which one depends that analyses an error, or about which
        a condition asks how its command ended; and tests that are run again after files were edited.
        """
        value = part.given.get("tasks")
        if value is not None and not isinstance(value, list):
            part.add_defect("tasks", "the tasks are not a list", "write a list of tasks")
        listed = self.fit(part, "tasks", value) if isinstance(value, list) else []
        tasks = [self.read_task(place, item) for place, item in enumerate(listed, 1)]
        silent = {
            task.id
            for task, item in zip(tasks, listed, strict=True)
            if not (isinstance(item, dict) and item.get("may_fail") is not None)
        }
        looked_at = set[int]()
        for task in tasks:
            if _ANALYSIS in (task.action, *(call.tool for call in task.calls)):
                looked_at |= set(task.depends_on)
            looked_at |= find_named_tasks(task.when, "exit_code")
        looked_at |= find_tests_before_edits(tasks)
        for number in sorted(looked_at & silent):
            self.book.add_note("a command of it may end with an error, which a later task looks at", number)
        return tuple(replace(task, may_fail=True) if task.id in looked_at & silent else task for task in tasks)

    def read_task(self, place: int, value: Json) -> PlanTask:
        if not isinstance(value, dict):
            remedy = "write a mapping with `action` or `calls`"
            self.book.add_defect(place, "task", "the task is not a mapping", remedy)
            return PlanTask(place)
        number = self.read_number(place, value)
        part = _MappingReader(self.book, number, "", value, _TASK)
        calls = self.read_calls(part)
        reason, action, target = part.read_text("reason"), part.read_text("action").strip(), part.read_text("target")
        taken = take_arguments(action, {}, self.catalogue)
        ours = taken.tool if taken is not None else action
        if ours != action:
            self.book.add_note(f"the action `{action}` is our `{ours}`", number)
        if not reason:
            said = next((call.description for call in calls if call.description), "")
            reason = said or " ".join(filter(None, (ours or ", ".join(call.tool for call in calls), target)))
            more = "; it is the first call's description" if said else ""
            self.book.add_note(f"the reason was missing{more}", number)
        return PlanTask(
            number,
            ours,
            target,
            reason,
            part.read_text("expected_outcome"),
            self.read_dependencies(part),
            part.read_mapping("params"),
            calls,
            part.read_mapping("when") or None,
            part.read_flag("may_fail"),
        )

    def read_number(self, place: int, value: Mapping[str, Json]) -> int:
        number = next((value[key] for key, ours in _TASK.items() if ours == "id" and value.get(key) is not None), None)
        if number is None:
            self.book.add_note("the number was missing; it is the place in the list", place)
        elif _is_number(number) and number > 0:
            return number
        else:
            self.book.add_defect(place, "id", _say_no_number(number), f"number the task {place}")
        return place

    def read_dependencies(self, part: _MappingReader) -> tuple[int, ...]:
        value = part.given.get("depends_on")
        listed = [] if value is None else value if isinstance(value, list) else [value]
        for item in listed:
            if not _is_number(item):
                part.add_defect("depends_on", _say_no_number(item), "list numbers of earlier tasks")
        return tuple(item for item in listed if _is_number(item))

    def read_calls(self, part: _MappingReader) -> tuple[PlannedCall, ...]:
        value = part.given.get("calls")
        single = {key: part.given[key] for key in ("tool", "arguments") if part.given.get(key) is not None}
        if single and value:
            problem = "the task names a tool of its own and lists calls as well"
            part.add_defect("calls", problem, "keep the list of calls and take the other out")
        elif single:
            value = {**single, "description": part.given.get("reason")}
        if isinstance(value, dict):
            value = [value]
        if value is not None and not isinstance(value, list):
            part.add_defect("calls", "the calls are not a list", "write a list of calls")
        listed = self.fit(part, "calls", value) if isinstance(value, list) else []
        return tuple(self.read_call(part.task, f"calls.{place}", item) for place, item in enumerate(listed, 1))

    def read_call(self, task: int, where: str, value: Json) -> PlannedCall:
        if not isinstance(value, dict):
            remedy = "write `tool`, `arguments` and `description`"
            self.book.add_defect(task, where, "the call is not a mapping", remedy)
            return PlannedCall("")
        part = _MappingReader(self.book, task, f"{where}.", value, _CALL)
        named = part.read_text("tool").strip()
        arguments, description = part.read_mapping("arguments"), part.read_text("description")
        taken = take_arguments(named, arguments, self.catalogue)
        if taken is None:
            return PlannedCall(named, arguments, description)
        if taken.tool != named:
            self.book.add_note(f"the tool `{named}` is our `{taken.tool}`", task)
        for sentence in taken.notes:
            self.book.add_note(sentence, task)
        return PlannedCall(taken.tool, taken.arguments, description)

    def read_duration(self, value: Json) -> int:
        """Return seconds, 0 for unknown: a number, or a text such as `5 seconds`."""
        if value is None or (_is_number(value) and value >= 0):
            return value or 0
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is not None:
            return min(int(match[1]) * _SECONDS[match[2][0].lower()], _LARGEST)
        self.book.add_note("the estimated duration cannot be read as seconds; it counts as unknown")
        return 0


def _is_number(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _say_no_number(value: Json) -> str:
    return f"`{escape_text(value, 40)}` is no number of a task"


def parse_plan_text(text: str) -> tuple[Json, tuple[str, ...]]:
    """Return the values in `text` and notes about what was left out; raise InvalidJson where there are none."""
    whole = text.removeprefix("\ufeff")
    if (text := cut_thoughts(whole)) != whole:
        value, _ = parse_plan_text(text)
        return value, (_LEFT_OUT,)
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.startswith(_FENCE)]
    if not fences or text.lstrip()[0] in _JSON:
        return _parse_unfenced(text, lines)
    if len(fences) != 2:
        raise InvalidJson(f"the text holds {len(fences)} marks of code blocks; put the plan into one block")
    first, last = fences
    around = any(line.strip() for line in (*lines[:first], *lines[last + 1 :]))
    return _parse_document("\n".join((*lines[first + 1 : last], ""))), (_LEFT_OUT,) if around else ()


def _parse_unfenced(text: str, lines: list[str]) -> tuple[Json, tuple[str, ...]]:
    """Return what a text without a code block holds, or the one JSON value among lines that are none."""
    value, wrong = None, None
    try:
        value = _parse_document(text)
    except InvalidJson as error:
        wrong = error
    inner = None if isinstance(value, (dict, list)) else _find_json_among(lines)
    if inner is None and wrong is not None:
        raise wrong
    return (value, ()) if inner is None else (inner, (_LEFT_OUT,))


def _find_json_among(lines: list[str]) -> Json:
    """Return the JSON from the first line that opens a bracket to the last that closes one, None where that is none."""
    first = next((at for at, line in enumerate(lines) if line.strip()[:1] in _OPENING), None)
    last = next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip()[-1:] in _CLOSING), 0)
    if first is None or any(line.strip()[:1] in _OPENING for line in lines[last:]):
        return None
    try:
        return strict_json.parse("\n".join(lines[first:last]).strip(), max_depth=_DEEPEST)
    except InvalidJson:
        return None


def _parse_document(text: str) -> Json:
    """Return what one JSON text or YAML document holds; a YAML text counts to its last line break."""
    bare = text.strip()
    if not bare:
        raise InvalidJson("the text is empty; write a plan")
    if bare[0] in _JSON:
        return strict_json.parse(bare, max_depth=_DEEPEST)
    if len(text) > _MOST_YAML:
        raise InvalidJson(f"a plan in YAML has at most {_MOST_YAML} characters; write it as JSON")
    try:
        value: Json = strict_yaml.parse_yaml(text, "the plan", decimals=True)[0]
    except PolicyError as error:
        raise InvalidJson(str(error)) from None
    return value
