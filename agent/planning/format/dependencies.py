"""What the dependencies of a plan's tasks must be: on earlier tasks there are, in no circle, in no chain too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foregate.agent.planning.format.notebook import Findings
from foregate.schemas.task_plan import PlanTask

_NAMED = 12

Waiting = Mapping[int, Sequence[int]]
"""The tasks each task depends on, by number."""


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
        remedy = "take out one of their dependencies"
        book.add_defect(circle[0], "depends_on", f"the tasks {named} wait for each other in a circle", remedy)
    last, depth = find_longest_chain(waiting)
    if depth > deepest:
        problem = f"it is the end of a chain of {depth} tasks that depend on each other; {deepest} are allowed"
        book.add_defect(
            last, "depends_on", problem, "let tasks depend only on what they really need, or do more in one"
        )


def find_longest_chain(waiting: Waiting) -> tuple[int, int]:
    """Return the last task of the longest chain and its length in tasks; only dependencies on earlier ones count."""
    depths: dict[int, int] = {}
    for task in sorted(waiting):
        depths[task] = 1 + max((depths[before] for before in waiting[task] if before < task), default=0)
    return max(depths.items(), key=lambda one: one[1], default=(0, 0))


def find_circles(waiting: Waiting) -> list[list[int]]:
    """Return every set of two or more tasks that wait for each other, each in order, without recursion (Kosaraju)."""
    backward: dict[int, list[int]] = {task: [] for task in waiting}
    for task, before in waiting.items():
        for one in before:
            backward[one].append(task)
    seen: set[int] = set()
    ended = [task for start in waiting for task in order_reachable(start, waiting, seen)]
    seen = set()
    found = (order_reachable(start, backward, seen) for start in reversed(ended))
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
