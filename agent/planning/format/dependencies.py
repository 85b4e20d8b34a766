"""What the dependencies of a plan's tasks must be: on earlier tasks there are, in no circle, in no chain too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foregate.agent.planning.format.notebook import Notebook
from foregate.schemas.task_plan import PlanTask

_NAMED = 12

Waiting = Mapping[int, Sequence[int]]
"""The tasks each task depends on, by number."""


def check_dependencies(tasks: Sequence[PlanTask], deepest: int, book: Notebook) -> None:
    """Add a defect for every dependency that cannot be met, for every circle, and for a chain over `deepest` tasks."""
    numbers = {task.id for task in tasks}
    for task in tasks:
        for number in dict.fromkeys(task.depends_on):
            if number == task.id:
                book.defect(task.id, "depends_on", "the task depends on itself", "take its own number out")
            elif number not in numbers:
                problem = f"there is no task {number}"
                book.defect(task.id, "depends_on", problem, "name an earlier task of this plan")
            elif number > task.id:
                problem = f"task {number} comes later"
                book.defect(task.id, "depends_on", problem, "name earlier tasks only, or put the tasks in order")
        if len(set(task.depends_on)) < len(task.depends_on):
            book.defect(task.id, "depends_on", "a task is named twice", "name each task once")
    waiting = {task.id: [one for one in task.depends_on if one in numbers and one != task.id] for task in tasks}
    for circle in circles(waiting):
        named = ", ".join(map(str, circle[:_NAMED])) + (", ..." if len(circle) > _NAMED else "")
        remedy = "take out one of their dependencies"
        book.defect(circle[0], "depends_on", f"the tasks {named} wait for each other in a circle", remedy)
    last, depth = longest_chain(waiting)
    if depth > deepest:
        problem = f"it is the end of a chain of {depth} tasks that depend on each other; {deepest} are allowed"
        book.defect(last, "depends_on", problem, "let tasks depend only on what they really need, or do more in one")


def longest_chain(waiting: Waiting) -> tuple[int, int]:
    """Return the last task of the longest chain and its length in tasks; only dependencies on earlier ones count."""
    depths: dict[int, int] = {}
    for task in sorted(waiting):
        depths[task] = 1 + max((depths[before] for before in waiting[task] if before < task), default=0)
    return max(depths.items(), key=lambda one: one[1], default=(0, 0))


def circles(waiting: Waiting) -> list[list[int]]:
    """Return every set of two or more tasks that wait for each other, each in order, without recursion (Tarjan)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[list[int]] = []
    for start in waiting:
        work = [(start, iter(waiting[start]))] if start not in index else []
        while work:
            task, rest = work[-1]
            if task not in index:
                index[task] = low[task] = len(index)
                path.append(task)
                on_path.add(task)
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[task])
                if low[task] == index[task]:
                    circle = [path.pop()]
                    while circle[-1] != task:
                        circle.append(path.pop())
                    on_path.difference_update(circle)
                    if len(circle) > 1:
                        found.append(sorted(circle))
            elif following not in index:
                work.append((following, iter(waiting[following])))
            elif following in on_path:
                low[task] = min(low[task], index[following])
    return sorted(found)
