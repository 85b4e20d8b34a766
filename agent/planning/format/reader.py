"""Reading a plan somebody wrote: JSON or YAML, bare or in one code fence, in any of the shapes in use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard, get_args

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.planning.format import aliases
from foregate.agent.planning.format.condition import find_named_tasks
from foregate.agent.planning.format.notebook import Findings
from foregate.policy.source import strict_yaml
from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.task_plan import OnFailure, PlanDefect, PlannedCall, PlanTask, TaskPlan
from foregate.schemas.tool_spec import Catalogue

_PLAN = aliases.keys_of(TaskPlan, id=("plan_id",), query=("user_query",), tasks=("steps",))
_TASK = aliases.keys_of(
    PlanTask,
    id=("step_number", "step"),
    reason=("description",),
    calls=("actions",),
    tool=("tool", "tool_name"),
    arguments=("args", "arguments"),
)
_CALL = aliases.keys_of(PlannedCall, tool=("tool_name",), arguments=("args",), description=("reasoning",))
_ANALYSIS = "analyze_error"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DURATION = re.compile(r"\s*(\d{1,6})\s*(s|sec|seconds?|m|min|minutes?|h|hours?)\s*\.?", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_LARGEST = 1_000_000
"""The largest number of a task, and of seconds, that is taken for one."""
_MOST_PARTS = 20_000
"""Tasks and calls of one plan that are read: far more than any policy allows, and few enough to name what is wrong."""
_MOST_KEYS = 20
"""Keys nobody knows that are named in one mapping."""


class Reading(Struct, frozen=True):
    """What reading a plan gave: the plan as far as it could be read, what was filled in, and what is wrong.

    `plan` is None where the text holds none at all; `notes` are sentences about what was filled in or resolved.
    """

    plan: TaskPlan | None
    notes: tuple[str, ...] = ()
    defects: tuple[PlanDefect, ...] = ()


def read_plan(text: str, *, query: str = "", catalogue: Catalogue | None = None) -> Reading:
    """Return the plan `text` holds; never raise for what it says.

    `query` is the request the plan is for, used where the text names none. Foreign names of tools and parameters are
    resolved by the table of aliases, unless `catalogue` has a tool of that very name. The defects are those of form;
    `validate` finds the others, so that both together are everything that is wrong.
    """
    try:
        value, notes = parse_plan_text(text)
    except InvalidJson as error:
        return build_unreadable(str(error))
    if isinstance(value, list):
        value = {"tasks": value}
    if not isinstance(value, dict):
        return build_unreadable("the text holds no plan")
    reader = _PlanReader(Findings(), catalogue)
    for note in notes:
        reader.book.add_note(note)
    plan = reader.plan(value, query)
    return Reading(plan, reader.book.notes, tuple(reader.book.defects))


def build_unreadable(problem: str) -> Reading:
    """Return the reading of a text that holds no plan."""
    remedy = "write one object with `goal` and `tasks`, as JSON or YAML and nothing else"
    return Reading(None, (), (PlanDefect(0, "plan", escape_text(problem, 400), remedy),))


def add_own_id(plan: TaskPlan) -> TaskPlan:
    """Return the plan under an id made of what it says, so that the same plan has the same id."""
    return replace(plan, id=f"plan-{replace(plan, id='').digest[:12]}")


class _PlanReader:
    """Reads one plan; whatever cannot be read is a defect and stands at its default."""

    def __init__(self, book: Findings, catalogue: Catalogue | None) -> None:
        self.book = book
        self.catalogue = catalogue
        self.room = _MOST_PARTS

    def within(self, task: int, where: str, listed: list[Json]) -> list[Json]:
        """Return the tasks or calls of a list that are still read; a defect where that leaves some out."""
        room, self.room = self.room, max(0, self.room - len(listed))
        if len(listed) > room:
            problem = f"the plan is too long: only its first {_MOST_PARTS} tasks and calls are read"
            self.book.add_defect(task, where, problem, "do less, or make plans that follow each other")
        return listed[:room]

    def plan(self, value: Mapping[str, Json], query: str) -> TaskPlan:
        """Return the whole plan."""
        given = self.fields(0, "", value, _PLAN)
        tasks = self.tasks(given.get("tasks"))
        asked, goal = self.text(0, "query", given.get("query")) or scrub(query), self.text(0, "goal", given.get("goal"))
        if not goal:
            goal = asked or next((task.reason for task in tasks if task.reason), "")
            self.book.add_note("the goal was missing; it is the request" if asked else "the goal was missing")
        if given.get("version") not in (None, 1) or isinstance(given.get("version"), bool):
            self.book.add_defect(0, "version", "the plan is of another version", "write `version: 1`, or leave it out")
        on_failure = given.get("on_failure")
        choices: tuple[OnFailure, ...] = get_args(OnFailure)
        chosen = next((choice for choice in choices if choice == on_failure), None)
        if on_failure is not None and chosen is None:
            allowed = ", ".join(f"`{choice}`" for choice in choices)
            self.book.add_defect(
                0, "on_failure", f"`{escape_text(on_failure, 40)}` is no way to go on", f"write one of {allowed}"
            )
        plan = TaskPlan(
            id="",
            query=asked,
            goal=goal,
            tasks=tasks,
            estimated_duration=self.duration(given.get("estimated_duration")),
            requires_confirmation=self.read_flag(
                0, "requires_confirmation", given.get("requires_confirmation"), default=True
            ),
            on_failure=chosen or "continue_independent",
            metadata=self.mapping(0, "metadata", given.get("metadata")),
        )
        named = self.text(0, "id", given.get("id"))
        if _ID.fullmatch(named):
            return replace(plan, id=named)
        if named:
            self.book.add_note("the plan's id held characters an id cannot have, or too many; it has a new one")
        return add_own_id(plan)

    def tasks(self, value: Json) -> tuple[PlanTask, ...]:
        """Return the tasks in the order they are written."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self.book.add_defect(0, "tasks", "the tasks are not a list", "write a list of tasks")
            return ()
        found = []
        for place, item in enumerate(self.within(0, "tasks", value), 1):
            if isinstance(item, dict):
                found.append(self.task(place, item))
            else:
                self.book.add_defect(
                    place, "task", "the task is not a mapping", "write a mapping with `action` or `calls`"
                )
                found.append(PlanTask(place))
        return self.mark_expected_failures(found, value)

    def mark_expected_failures(self, tasks: list[PlanTask], value: list[Json]) -> tuple[PlanTask, ...]:
        """Return the tasks, where one that says nothing of it may fail if a later one is there to look at its failure.

        That is one that depends on it and analyses an error, or whose condition asks how its command ended.
        """
        silent = {
            task.id
            for task, item in zip(tasks, value, strict=False)
            if not (isinstance(item, dict) and item.get("may_fail") is not None)
        }
        looked_at = set[int]()
        for task in tasks:
            if _ANALYSIS in (task.action, *(call.tool for call in task.calls)):
                looked_at |= set(task.depends_on)
            looked_at |= find_named_tasks(task.when, "exit_code")
        for number in sorted(looked_at & silent):
            self.book.add_note("a command of it may end with an error, which a later task looks at", number)
        return tuple(replace(task, may_fail=True) if task.id in looked_at & silent else task for task in tasks)

    def task(self, place: int, value: Mapping[str, Json]) -> PlanTask:
        """Return one task; without a number it has that of its place."""
        number = self.number(place, value)
        given = self.fields(number, "", value, _TASK)
        calls = self.calls(number, given)
        reason = self.text(number, "reason", given.get("reason"))
        action = self.text(number, "action", given.get("action")).strip()
        target = self.text(number, "target", given.get("target"))
        ours = aliases.find_tool_name(action, self.catalogue)
        if ours != action:
            self.book.add_note(f"the action `{action}` is our `{ours}`", number)
        if not reason:
            said = next((call.description for call in calls if call.description), "")
            reason = said or " ".join(filter(None, (ours or ", ".join(call.tool for call in calls), target)))
            self.book.add_note(
                "the reason was missing; it is the first call's description" if said else "the reason was missing",
                number,
            )
        return PlanTask(
            number,
            ours,
            target,
            reason,
            self.text(number, "expected_outcome", given.get("expected_outcome")),
            self.dependencies(number, given.get("depends_on")),
            self.mapping(number, "params", given.get("params")),
            calls,
            self.mapping(number, "when", given.get("when")) or None,
            self.read_flag(number, "may_fail", given.get("may_fail")),
        )

    def read_flag(self, number: int, where: str, value: Json, *, default: bool = False) -> bool:
        """Return a flag, the default where it is missing; anything else is a defect."""
        if value is not None and not isinstance(value, bool):
            self.book.add_defect(number, where, "it is neither true nor false", "write true or false")
        return value if isinstance(value, bool) else default

    def number(self, place: int, value: Mapping[str, Json]) -> int:
        """Return a task's number."""
        number = next((value[key] for key, ours in _TASK.items() if ours == "id" and value.get(key) is not None), None)
        if number is None:
            self.book.add_note("the number was missing; it is the place in the list", place)
            return place
        if is_number(number) and number > 0:
            return number
        self.book.add_defect(
            place, "id", f"`{escape_text(number, 40)}` is no number of a task", f"number the task {place}"
        )
        return place

    def dependencies(self, task: int, value: Json) -> tuple[int, ...]:
        """Return the numbers of the tasks a task depends on: none, one, or a list of them."""
        listed = [] if value is None else value if isinstance(value, list) else [value]
        for item in listed:
            if not is_number(item):
                problem = f"`{escape_text(item, 40)}` is no number of a task"
                self.book.add_defect(task, "depends_on", problem, "list numbers of earlier tasks")
        return tuple(item for item in listed if is_number(item))

    def calls(self, task: int, given: Mapping[str, Json]) -> tuple[PlannedCall, ...]:
        """Return the calls a task lists: in a list, as one mapping, or as the task's own `tool` and `args`."""
        value = given.get("calls")
        single = {key: given[key] for key in ("tool", "arguments") if given.get(key) is not None}
        if single:
            if value:
                problem = "the task names a tool of its own and lists calls as well"
                self.book.add_defect(task, "calls", problem, "keep the list of calls and take the other out")
            else:
                value = [{**single, "description": given.get("reason")}]
        if isinstance(value, dict):
            value = [value]
        if value is not None and not isinstance(value, list):
            self.book.add_defect(task, "calls", "the calls are not a list", "write a list of calls")
        listed = self.within(task, "calls", value) if isinstance(value, list) else []
        return tuple(self.call(task, place, item) for place, item in enumerate(listed, 1))

    def call(self, task: int, place: int, value: Json) -> PlannedCall:
        """Return one call under our names of tool and parameters."""
        where = f"calls.{place}"
        if not isinstance(value, dict):
            self.book.add_defect(
                task, where, "the call is not a mapping", "write `tool`, `arguments` and `description`"
            )
            return PlannedCall("")
        given = self.fields(task, f"{where}.", value, _CALL)
        named = self.text(task, f"{where}.tool", given.get("tool")).strip()
        tool = aliases.find_tool_name(named, self.catalogue)
        if tool != named:
            self.book.add_note(f"the tool `{named}` is our `{tool}`", task)
        arguments, said = aliases.rename_arguments(
            named, tool, self.mapping(task, f"{where}.arguments", given.get("arguments")), self.catalogue
        )
        for sentence in said:
            self.book.add_note(sentence, task)
        return PlannedCall(tool, arguments, self.text(task, f"{where}.description", given.get("description")))

    def fields(self, task: int, where: str, value: Mapping[str, Json], ours: Mapping[str, str]) -> dict[str, Json]:
        """Return what a mapping gives under our names of its keys; a key nobody knows is a defect, not passed over."""
        given: dict[str, Json] = {}
        unknown = 0
        for key, inner in value.items():
            name = ours.get(key)
            if name is None:
                unknown += 1
                if unknown <= _MOST_KEYS:
                    remedy = self.book.suggest_nearest(key, ours, "take it out")
                    self.book.add_defect(task, where + escape_text(key, 40), "nobody knows this key", remedy)
            elif name not in given or given[name] is None:
                given[name] = inner
            elif inner is not None:
                problem = f"`{name}` is given twice, under different names"
                self.book.add_defect(task, where + key, problem, "keep one of them")
        return given

    def text(self, task: int, where: str, value: Json) -> str:
        """Return a text, "" for null."""
        if value is None or isinstance(value, str):
            return value or ""
        self.book.add_defect(task, where, f"`{escape_text(value, 40)}` is not text", "write text")
        return ""

    def mapping(self, task: int, where: str, value: Json) -> dict[str, Json]:
        """Return a mapping that may be written as JSON text."""
        try:
            return read_mapping(value)
        except InvalidJson as error:
            self.book.add_defect(task, where, escape_text(error, 200), "write an object, or an object as JSON text")
            return {}

    def duration(self, value: Json) -> int:
        """Return seconds, 0 for unknown: a number, or a text such as `5 seconds`."""
        if value is None or (is_number(value) and value >= 0):
            return value or 0
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is not None:
            return min(int(match[1]) * _SECONDS[match[2][0].lower()], _LARGEST)
        self.book.add_note("the estimated duration cannot be read as seconds; it counts as unknown")
        return 0


def is_number(value: Json) -> TypeGuard[int]:
    """Whether a value may be the number of a task; which numbers a plan has is for the validator to say."""
    return isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


_FENCE = "```"
_JSON = "{["
_OPENING, _CLOSING = ("{", "["), ("}", "]")
_LEFT_OUT = "the text around the plan was left out"
_MOST_YAML = 96 * 1024
"""Bytes of YAML that are read: its parser is some hundred times slower than that of JSON."""
_DEEPEST = 56
_DEEPEST_INSIDE = 32
"""Less than strict JSON allows by itself, so that a plan that was read can be written and read again."""


def parse_plan_text(text: str) -> tuple[Json, tuple[str, ...]]:
    """Return the values in `text` and notes about what was left out; raise InvalidJson where there are none."""
    text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.startswith(_FENCE)]
    if not fences or text.lstrip()[0] in _JSON:
        return _parse_unfenced(text, lines)
    if len(fences) != 2:
        raise InvalidJson(f"the text holds {len(fences)} marks of code blocks; put the plan into one block")
    first, last = fences
    around = [line for line in (*lines[:first], *lines[last + 1 :]) if line.strip()]
    notes = (_LEFT_OUT,) if around else ()
    return _parse_document("\n".join((*lines[first + 1 : last], ""))), notes


def _parse_unfenced(text: str, lines: list[str]) -> tuple[Json, tuple[str, ...]]:
    """Return what a text without a code block holds, or the one JSON value among lines that are none."""
    try:
        value = _parse_document(text)
        if isinstance(value, (dict, list)):
            return value, ()
    except InvalidJson:
        if (inner := _find_json_among(lines)) is None:
            raise
        return inner, (_LEFT_OUT,)
    inner = _find_json_among(lines)
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


def read_mapping(value: Json) -> dict[str, Json]:
    """Return what should be a mapping and may be null, or JSON text of one; raise InvalidJson for anything else."""
    if isinstance(value, str):
        value = strict_json.parse(value, max_depth=_DEEPEST_INSIDE) if value.strip() else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidJson("it is not a mapping")
    return value


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
