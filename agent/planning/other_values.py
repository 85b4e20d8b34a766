"""A plan again with other values: a copy with other arguments, parameters or targets, which is another plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from foregate.agent.planning.findings import Findings
from foregate.agent.planning.reader import add_own_id
from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.strict_json import Json, get_object
from foregate.schemas.task_plan import PlanTask, TaskPlan
from foregate.schemas.tool_spec import Catalogue, ToolSpec

_NAMED = 12
"""Paths an error names at most."""
_OTHER = " (with other values)"
"""Ends the goal of a copy, whose words still tell of the values before."""
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """Where a value of a plan stands: the argument `name` of the task's `call` (from 1), with 0 the parameter `name` of
    the task, without a name its target. `now` is what stands there: an argument that is left out is none of the values
    JSON has. `spec` is the tool the value is for, where it is known.
    """

    task: int
    call: int
    name: str
    now: object = field(compare=False)
    spec: ToolSpec | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """The path in full."""
        inner = f"calls.{self.call}.{self.name}" if self.call else f"params.{self.name}" if self.name else "target"
        return f"{self.task}.{inner}"

    def can_hold(self, value: Json) -> bool:
        """Whether a value is of the type the tool takes there, or else of that which stands there."""
        if self.spec is not None and self.name in get_object(self.spec.parameters, "properties"):
            from foregate.gates.support.schema_check import SchemaCheck

            check = SchemaCheck({**self.spec.parameters, "required": []}, closed=False)
            return not check.find_first_defect({self.name: value})
        return self.now is None or self.now is _ABSENT or type(value) is type(self.now)


def with_values(
    plan: TaskPlan, values: Mapping[str, Json], catalogue: Catalogue | None = None, *, source: str = ""
) -> TaskPlan:
    """Return a copy of a plan with other values, under an id of its own; its metadata say what it was derived from.

    The path of a value is `2.calls.1.NAME` for an argument of a task's call, `2.NAME` where that is the only call, and
    `2.target` or `2.params.NAME` for a task without calls. An argument the call leaves out can be given where
    `catalogue` has the tool. `source` says where the plan was. Raises UsageError for a path that leads nowhere, naming
    those there are, and for two paths to one place. The copy is not checked: see `validate`.
    """
    given: dict[ValuePlace, Json] = {}
    for path, value in values.items():
        place = find_place(plan, path, catalogue)
        if place in given:
            raise UsageError(f"`{escape_text(place.path)}` is set twice; set it once")
        given[place] = value
    tasks = tuple(_change_task(task, given) for task in plan.tasks)
    derived: dict[str, Json] = {"plan": plan.id, "digest": plan.digest, "set": [place.path for place in given]}
    if source:
        derived["source"] = source
    goal = f"{plan.goal.removesuffix(_OTHER)}{_OTHER}"
    return add_own_id(replace(plan, goal=goal, tasks=tasks, metadata={**plan.metadata, "derived_from": derived}))


def read_settings(plan: TaskPlan, settings: Sequence[str], catalogue: Catalogue | None = None) -> dict[str, Json]:
    """Return the values of texts `PATH=VALUE`: JSON where it is of the type that is wanted there, else the text itself.

    Raises UsageError for a text without a path, for a path that leads nowhere, and for one that is set twice.
    """
    values: dict[str, Json] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise UsageError(f"`{escape_text(setting)}` sets nothing; write PATH=VALUE, such as 2.path=src/other.py")
        if path in values:
            raise UsageError(f"`{escape_text(path)}` is set twice; set it once")
        place, values[path] = find_place(plan, path, catalogue), strict_json.scrub(text)
        with suppress(InvalidJson):
            value = strict_json.parse(text)
            if place.can_hold(value):
                values[path] = value
    return values


def describe_new_values(
    plan: TaskPlan, values: Mapping[str, Json], catalogue: Catalogue | None = None
) -> tuple[str, ...]:
    """Return a sentence for each value that takes the place of another."""
    said = []
    for path, value in values.items():
        place = find_place(plan, path, catalogue)
        was = "left out" if place.now is _ABSENT else escape_text(json.dumps(place.now), 200)
        said.append(f"`{escape_text(place.path)}` is now {escape_text(json.dumps(value), 200)} (was {was})")
    return tuple(said)


def find_place(plan: TaskPlan, path: str, catalogue: Catalogue | None) -> ValuePlace:
    """Return the place a path leads to; raise UsageError naming those there are where it leads nowhere."""
    task = next((task for task in plan.tasks if str(task.id) == path.partition(".")[0]), None)
    if task is None:
        there = f"tasks 1 to {len(plan.tasks)}" if len(plan.tasks) > 1 else "one task, 1"
        raise UsageError(f"`{escape_text(path)}` names no task; the plan has {there}, as in `1.path`")
    places = dict(list_places(task, catalogue))
    if path in places:
        return places[path]
    names = list({place: name for name, place in reversed(places.items())}.values())[::-1]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    there = f"task {task.id} has {', '.join(f'`{escape_text(name)}`' for name in names[:_NAMED])}{more}"
    near = Findings().suggest_nearest(path, places, "")
    raise UsageError(f"`{escape_text(path)}` leads nowhere in the plan; {near and f'{near} '}{there}")


def list_places(task: PlanTask, catalogue: Catalogue | None) -> Iterator[tuple[str, ValuePlace]]:
    """Yield every path into a task, the short ones first, with the place it leads to."""
    for short in (True, False) if len(task.calls) == 1 else (False,):
        for number, call in enumerate(task.calls, 1):
            spec = catalogue.get(call.tool) if catalogue is not None else None
            known = get_object(spec.parameters, "properties") if spec is not None else {}
            for name in dict.fromkeys((*call.arguments, *known)):
                place = ValuePlace(task.id, number, name, call.arguments.get(name, _ABSENT), spec)
                yield (f"{task.id}.{name}" if short else place.path), place
    if not task.calls:
        yield f"{task.id}.target", ValuePlace(task.id, 0, "", task.target)
        for name, value in task.params.items():
            yield f"{task.id}.params.{name}", ValuePlace(task.id, 0, name, value)


def _change_task(task: PlanTask, values: Mapping[ValuePlace, Json]) -> PlanTask:
    target, params, calls = task.target, dict(task.params), list(task.calls)
    for place, value in values.items():
        if place.task != task.id:
            continue
        if place.call:
            call = calls[place.call - 1]
            calls[place.call - 1] = replace(call, arguments={**call.arguments, place.name: value})
        elif place.name:
            params[place.name] = value
        elif isinstance(value, str):
            target = value
        else:
            raise UsageError(f"the target of task {task.id} is text; set it to text")
    return replace(task, target=target, params=params, calls=tuple(calls))
