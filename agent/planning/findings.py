"""What reading or validating a plan has to say, gathered: defects, warnings, and notes that many tasks may share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from msgspec import Struct, field

from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas.task_plan import PlanDefect
from foregate.schemas.tool_spec import find_nearest_tool

_NAMED = 8
_MOST_GUESSES = 200
"""Unknown names for which the nearest known one is looked for: each costs more than reading a task."""


class Findings(Struct):
    """Defects and warnings in the order they were found; a note is written once, with the tasks it is about."""

    defects: list[PlanDefect] = field(default_factory=list)
    warnings: list[PlanDefect] = field(default_factory=list)
    _notes: dict[str, list[int]] = field(default_factory=dict)
    _guesses: int = 0

    def add_defect(self, task: int, where: str, problem: str, remedy: str) -> None:
        """Add something that forbids running the plan; task 0 is the plan itself."""
        self.defects.append(PlanDefect(task, where, problem, remedy))

    def add_warning(self, task: int, where: str, problem: str, remedy: str) -> None:
        """Add something that merely looks odd."""
        self.warnings.append(PlanDefect(task, where, problem, remedy))

    def add_note(self, sentence: str, task: int = 0) -> None:
        """Add something that was filled in or resolved."""
        tasks = self._notes.setdefault(sentence, [])
        if not tasks or tasks[-1] != task:
            tasks.append(task)

    def suggest_nearest(self, name: str, known: Iterable[str], otherwise: str = "take it out") -> str:
        """Return the remedy for an unknown name: the nearest known one, or what to do where none is near."""
        self._guesses += 1
        near = get_close_matches(name[:64], known, n=1) if self._guesses <= _MOST_GUESSES else ()
        return f"did you mean `{near[0]}`?" if near else otherwise

    def suggest_tool(self, name: str, offered: Iterable[str]) -> str:
        """Return the remedy for an unknown tool: the nearest one that is offered, or to name one."""
        self._guesses += 1
        near = find_nearest_tool(name, offered) if self._guesses <= _MOST_GUESSES else ""
        return f"did you mean `{near}`?" if near else "name one of the tools"

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes as sentences, without anything that does not print."""
        return tuple(_about(tasks) + escape_text(sentence, 400) for sentence, tasks in self._notes.items())


def _about(tasks: list[int]) -> str:
    if tasks == [0]:
        return ""
    named = ", ".join(map(str, tasks[:_NAMED]))
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return f"{'task' if len(tasks) == 1 else 'tasks'} {named}{more}: "
