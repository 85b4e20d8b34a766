"""A task's `when`: a condition over the results of earlier tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import TaskResult


def problems(when: Json) -> Iterator[tuple[str, str]]:
    """Yield problem and remedy for everything in `when` that cannot be read."""
    raise NotImplementedError


def tasks_named(when: Json) -> set[int]:
    """Return the numbers of the tasks a condition asks about."""
    raise NotImplementedError


def holds(when: Mapping[str, Json] | None, results: Mapping[int, TaskResult]) -> tuple[bool, str]:
    """Return whether a condition holds over the results by task number, and the reason as a sentence.

    None holds. A condition that cannot be read, or that asks about a task without a result, does not hold.
    """
    raise NotImplementedError
