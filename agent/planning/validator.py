"""Everything that is wrong with a plan, at once, and the plan with its paths resolved."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.dialects.foreign_calls import take_arguments
from foregate.agent.planning import condition
from foregate.agent.planning.configuration import Configuration
from foregate.agent.planning.findings import Findings
from foregate.agent.planning.reader import Reading
from foregate.agent.planning.targets import PATHS, PathPlace, Targets, list_path_parameters
from foregate.agent.tools.project import find_command
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas.errors import ForegateError
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanDefect, PlannedCall, PlanTask, TaskPlan
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, ToolSpec

if TYPE_CHECKING:
    from foregate.gates.support.schema_check import SchemaCheck

_ANYWHERE = (Effect.EXECUTE, Effect.UNKNOWN, Effect.ADMINISTER)
_PROJECT = ("run_tests", "run_build")
_MOST_ARGUMENTS = 20
_NAMED = 12
Waiting = Mapping[int, Sequence[int]]
"""The tasks each task depends on, by number."""


class Validation(Struct, frozen=True):
    """The plan with its paths resolved, what forbids running it, what merely looks odd, and what was resolved."""

    plan: TaskPlan
    defects: tuple[PlanDefect, ...] = ()
    warnings: tuple[PlanDefect, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing forbids running the plan."""
        return not self.defects


def validate(plan: TaskPlan, catalogue: Catalogue, workspace: Workspace, configuration: Configuration) -> Validation:
    """Return every defect and warning of `plan`, ordered by task, and the plan with its paths resolved.

    Only looks at the workspace, never changes it; never raises for what the plan says.
    """
    book, bounds = Findings(), configuration.validation
    check_numbers(plan, bounds.max_tasks, book)
    check_dependencies(plan.tasks, bounds.max_task_depth, book)
    targets = Targets(workspace, book, strict=bounds.strict_targets)
    tasks = _TaskChecker(catalogue, targets, book, configuration)
    checked = tuple(tasks.check_task(task) for task in plan.tasks)
    defects, warnings = (tuple(sorted(found, key=lambda one: one.task)) for found in (book.defects, book.warnings))
    return Validation(replace(plan, tasks=checked), defects, warnings, book.notes)


def validate_reading(
    reading: Reading, plan: TaskPlan, catalogue: Catalogue, workspace: Workspace, configuration: Configuration
) -> Validation:
    """Return what `validate` finds in the plan of a reading, beside what reading it found."""
    found = validate(plan, catalogue, workspace, configuration)
    return replace(found, defects=(*reading.defects, *found.defects), notes=(*reading.notes, *found.notes))


def check_numbers(plan: TaskPlan, most: int, book: Findings) -> None:
    """Add a defect for a plan without tasks, with too many, with other numbers than 1..n, or with a task twice."""
    if not plan.tasks:
        book.add_defect(0, "tasks", "the plan has no tasks", "write at least one task")
    if len(plan.tasks) > most:
        problem = f"the plan has {len(plan.tasks)} tasks; {most} are allowed"
        book.add_defect(0, "tasks", problem, "do less, or make plans that follow each other")
    worded: dict[tuple[str, ...], list[PlanTask]] = {}
    for place, task in enumerate(plan.tasks, 1):
        if task.id != place:
            book.add_defect(task.id, "id", f"task {task.id} stands in place {place}", f"number it {place}")
        worded.setdefault((task.action, task.target, task.reason, task.expected_outcome), []).append(task)
    for alike in worded.values():
        seen: dict[str, int] = {}
        # What is expensive to compare is compared last.
        for task in alike if len(alike) > 1 else ():
            calls: list[Json] = [[call.tool, call.arguments] for call in task.calls]
            content = json.dumps([task.depends_on, task.params, calls, task.when], sort_keys=True)
            if content in seen:
                problem = f"the task is the same as task {seen[content]}"
                book.add_defect(task.id, "task", problem, "take it out, or say as its reason why it is needed again")
            seen.setdefault(content, task.id)


class _TaskChecker:
    """Checks the tasks of one plan, one after the other."""

    def __init__(self, catalogue: Catalogue, targets: Targets, book: Findings, configuration: Configuration) -> None:
        self.catalogue, self.targets, self.book = catalogue, targets, book
        self.most = configuration.execution.max_calls_per_task
        self.fallback = configuration.validation.allow_tool_fallback
        self._checks: dict[str, SchemaCheck | None] = {}

    def check_task(self, task: PlanTask) -> PlanTask:
        self.check_condition(task)
        if task.calls:
            return replace(task, calls=self.check_calls(task))
        spec = self.find_action(task)
        if spec is None:
            self.targets.anything = True
            return task
        if task.action in _PROJECT and spec.provenance == "builtin" and not task.params:
            task = self.list_command(task)
        target, paths = task.target, list_path_parameters(spec)
        if target and paths and paths[0] is spec.targets[0]:
            target = self.targets.check_target(PathPlace(task.id, "target", paths[0].access), target)
        self.targets.anything |= spec.effect in _ANYWHERE
        return self.list_read(replace(task, target=target), spec)

    def list_read(self, task: PlanTask, spec: ToolSpec) -> PlanTask:
        """Return a task that reads with its call, where action, target and parameters say all of it.

        So no model is asked to write down what is written already. What is not there, or is a glob, is left to it.
        """
        about = spec.capabilities
        if task.calls or spec.provenance != "builtin" or spec.effect.changes or about is None or about.personal_memory:
            return task
        taken = take_arguments(task.action, task.params, self.catalogue)
        arguments = dict(taken.arguments) if taken is not None else dict(task.params)
        if task.target:
            place = spec.targets[0] if spec.targets else None
            if place is None or place.kind not in PATHS or place.parameter in arguments:
                return task
            if self.targets.find_kind(task.target) != ("file" if place.kind is ResourceKind.FILE else "directory"):
                return task
            arguments[place.parameter] = task.target
        check = self.get_check(spec)
        if not arguments or check is None or check.find_first_defect(arguments):
            return task
        return replace(task, calls=(PlannedCall(task.action, arguments),))

    def list_command(self, task: PlanTask) -> PlanTask:
        """Return a task that runs the project's tests or build with its call, where the workspace's files say it."""
        argv = find_command(self.targets.workspace, task.action, task.target)
        if argv is None:
            return task
        told = f"`{task.action}` is `{shlex.join(argv)}`, as the files of the workspace say"
        if task.target and argv[-1] not in (task.target, task.target.rpartition("::")[2]):
            told += f"; it runs more than `{escape_text(task.target, 120)}`"
        self.book.add_note(told, task.id)
        return replace(task, calls=(PlannedCall(task.action, {"argv": list[Json](argv)}),))

    def check_condition(self, task: PlanTask) -> None:
        for problem, remedy in condition.find_problems(task.when) if task.when is not None else ():
            self.book.add_defect(task.id, "when", problem, remedy)
        for number in sorted(condition.find_named_tasks(task.when)):
            if number >= task.id:
                problem = f"the condition asks about task {number}, which is not earlier"
                self.book.add_defect(task.id, "when", problem, "ask about earlier tasks only")

    def find_action(self, task: PlanTask) -> ToolSpec | None:
        spec = self.catalogue.get(task.action)
        if spec is None:
            remedy = self.book.suggest_tool(task.action, self.catalogue)
            problem = f"there is no tool `{escape_text(task.action, 60)}`"
            if not task.action:
                self.book.add_defect(task.id, "action", "the task says neither an action nor calls", "name a tool")
            elif self.fallback:
                chosen = f"{problem}; the execution model will choose one"
                self.book.add_warning(task.id, "action", chosen, remedy)
            else:
                self.book.add_defect(task.id, "action", problem, remedy)
        return spec

    def check_calls(self, task: PlanTask) -> tuple[PlannedCall, ...]:
        if len(task.calls) > self.most:
            problem = f"the task lists {len(task.calls)} calls; {self.most} are allowed"
            self.book.add_defect(task.id, "calls", problem, "spread them over more tasks")
        seen: set[str] = set()
        repeats = len({call.tool for call in task.calls}) < len(task.calls)
        for place, call in enumerate(task.calls if repeats else (), 1):
            content = json.dumps([call.tool, call.arguments], sort_keys=True)
            if content in seen:
                self.book.add_defect(task.id, f"calls.{place}", "the same call is listed twice", "take one out")
            seen.add(content)
        return tuple(self.check_call(task.id, f"calls.{place}", call) for place, call in enumerate(task.calls, 1))

    def check_call(self, task: int, where: str, call: PlannedCall) -> PlannedCall:
        spec, where_arguments = self.catalogue.get(call.tool), f"{where}.arguments"
        if spec is None:
            self.targets.anything = True
            remedy = self.book.suggest_tool(call.tool, self.catalogue)
            problem = f"there is no tool `{escape_text(call.tool, 60)}`" if call.tool else "the call names no tool"
            self.book.add_defect(task, f"{where}.tool", problem, remedy)
            return call
        check, remedy = self.get_check(spec), f"see the parameters of `{spec.name}`"
        broken = ["the tool's own schema is broken"]
        for problem in broken if check is None else check.find_defects(call.arguments, _MOST_ARGUMENTS):
            self.book.add_defect(task, where_arguments, escape_text(problem, 300), remedy)
        changed = self.resolve_paths(task, where_arguments, spec, call.arguments)
        self.targets.anything |= spec.effect in _ANYWHERE
        return replace(call, arguments={**call.arguments, **changed}) if changed else call

    def get_check(self, spec: ToolSpec) -> SchemaCheck | None:
        """Return the check of a tool's arguments, compiled once; None for a schema that is none."""
        if spec.name not in self._checks:
            self._checks[spec.name] = _compile_schema(spec)
        return self._checks[spec.name]

    def resolve_paths(self, task: int, where: str, spec: ToolSpec, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return the arguments that name paths and mean another one."""
        changed: dict[str, Json] = {}
        for parameter in list_path_parameters(spec):
            value = meant = arguments.get(parameter.parameter)
            place = PathPlace(task, f"{where}.{parameter.parameter}", parameter.access)
            if isinstance(value, str):
                meant = self.targets.check_path(place, value)
            elif isinstance(value, list):
                meant = [self.targets.check_path(place, one) if isinstance(one, str) else one for one in value]
            if meant != value:
                changed[parameter.parameter] = meant
        return changed


def _compile_schema(spec: ToolSpec) -> SchemaCheck | None:
    # A session without a plan needs neither.
    from jsonschema import SchemaError

    from foregate.gates.support.schema_check import SchemaCheck

    try:
        return SchemaCheck(spec.parameters, closed=spec.provenance == "builtin")
    except (SchemaError, ForegateError):
        return None


def check_dependencies(tasks: Sequence[PlanTask], deepest: int, book: Findings) -> None:
    """Add a defect for every dependency that cannot be met, for every circle, and for a chain over `deepest` tasks."""
    numbers = {task.id for task in tasks}
    for task in tasks:
        for number in dict.fromkeys(task.depends_on):
            if number == task.id:
                book.add_defect(task.id, "depends_on", "the task depends on itself", "take its own number out")
            elif number not in numbers:
                problem = f"there is no task {number}"
                book.add_defect(task.id, "depends_on", problem, "name an earlier task of this plan")
            elif number > task.id:
                problem = f"task {number} comes later"
                book.add_defect(task.id, "depends_on", problem, "name earlier tasks only, or put the tasks in order")
        if len(set(task.depends_on)) < len(task.depends_on):
            book.add_defect(task.id, "depends_on", "a task is named twice", "name each task once")
    waiting = {task.id: [one for one in task.depends_on if one in numbers and one != task.id] for task in tasks}
    for circle in find_circles(waiting):
        named = ", ".join(map(str, circle[:_NAMED])) + (", ..." if len(circle) > _NAMED else "")
        problem = f"the tasks {named} wait for each other in a circle"
        book.add_defect(circle[0], "depends_on", problem, "take out one of their dependencies")
    depths: dict[int, int] = {}
    # Only dependencies on earlier ones count.
    for number in sorted(waiting):
        depths[number] = 1 + max((depths[before] for before in waiting[number] if before < number), default=0)
    last, depth = max(depths.items(), key=lambda one: one[1], default=(0, 0))
    if depth > deepest:
        problem = f"it is the end of a chain of {depth} tasks that depend on each other; {deepest} are allowed"
        remedy = "let tasks depend only on what they really need, or do more in one"
        book.add_defect(last, "depends_on", problem, remedy)


def find_circles(waiting: Waiting) -> list[list[int]]:
    """Return every set of two or more tasks that wait for each other, each in order, without recursion (Kosaraju)."""
    backward: dict[int, list[int]] = {task: [] for task in waiting}
    for task, before in waiting.items():
        for one in before:
            backward[one].append(task)
    seen, again = set[int](), set[int]()
    ended = [task for start in waiting for task in order_reachable(start, waiting, seen)]
    found = (order_reachable(start, backward, again) for start in reversed(ended))
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def order_reachable(start: int, onward: Waiting, seen: set[int]) -> list[int]:
    """Return the tasks that can be reached and were not `seen` yet, each after all that is reached from it."""
    ended: list[int] = []
    work = [(start, iter(onward[start]))] if start not in seen else []
    seen.add(start)
    while work:
        following = next((one for one in work[-1][1] if one not in seen), None)
        if following is None:
            ended.append(work.pop()[0])
        else:
            seen.add(following)
            work.append((following, iter(onward[following])))
    return ended
