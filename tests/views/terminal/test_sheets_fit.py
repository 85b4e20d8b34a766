"""No sheet scrolls its first line away: what is asked about first is on the screen together with the prompt."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from foregate.agent.loop.undo import Preview
from foregate.agent.planning.outlook import PlanPreview
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import FileChange
from foregate.schemas.task_plan import PlanTask, TaskPlan
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.plan_sheet import PlanPerson
from foregate.views.terminal.screen import Screen
from tests.cli.typist import Typist

WIDTH, HEIGHT = 80, 24
LONG = "word " * 400


def describe(number: int, **more: Any) -> dict[str, Any]:
    """Return a call as an approval shows it."""
    arguments = json.dumps({"argv": ["sh", "-c", LONG], "cwd": LONG})
    usual = {"call": f"c{number}.1", "tool": "run_command", "target": LONG, "effect": "execute", "arguments": arguments}
    return {
        **usual,
        "why": [LONG, LONG],
        "at_stake": [LONG],
        "rules": [],
        "there": [f"f{n}" for n in range(99)],
        **more,
    }


HELD = {"question": LONG, "gate": "narration", "code": "x", "can_override": True, "calls": [describe(1)]}
CHANGED = Preview(
    tuple(FileChange(f"src/f{n}.py", b"a\n" * 50, b"b\n" * 50) for n in range(30)),
    paths=tuple(f"edit src/f{n}.py" for n in range(200)),
)
NEW = {"state": "new", "problem": "", "claims": LONG, "description": LONG, "before": "", "after": LONG}
TOOLS = {
    "question": "offer the tools of `mail`?",
    "launch": LONG,
    "tools": [{**NEW, "tool": f"mail.t{number}"} for number in range(30)],
}


@pytest.mark.parametrize(
    ("gate", "request_", "first"),
    [
        ("approval", {"question": "1 call needs your yes", "calls": [describe(1)]}, "1 call needs your yes"),
        ("approval", {"question": "9 calls", "calls": [describe(n) for n in range(9)]}, "9 calls"),
        ("approval", {"question": "changes of a sandbox", "calls": [describe(7)]}, "changes of a sandbox"),
        ("loop", HELD, "word word"),
        ("tools", TOOLS, "offer the tools"),
    ],
    ids=["a call", "many calls", "changes of a sandbox", "a call held again", "tools"],
)
async def test_the_first_row_of_a_long_sheet_is_on_the_screen_with_its_prompt(
    gate: str, request_: dict[str, Any], first: str
) -> None:
    out = io.StringIO()
    person = PersonAtTerminal(Screen(Console(file=out, width=WIDTH, height=HEIGHT)), Typist(answers=[None]))
    person.foresee = lambda need: {"c7.1": CHANGED}
    await person.answer(Need(gate, "person", "k", ("c1.1",), (), request_))  # type: ignore[arg-type]
    shown = [row for row in out.getvalue().splitlines() if not row.startswith("left open")]
    assert first in shown[0]
    assert len(shown) < HEIGHT
    assert any("d shows" in row for row in shown)


async def test_a_long_plan_keeps_its_goal_on_the_screen_and_takes_a_yes_only_once_all_was_shown() -> None:
    out = io.StringIO()
    tasks = tuple(PlanTask(number, action="edit_file", target="a", reason=LONG) for number in range(1, 20))
    plan = TaskPlan("p", "mend all", "mend all", tasks)
    state = PlanState()
    state.plan, state.steps = plan, {task.id: StepState(task) for task in tasks}
    typist = Typist(answers=["y", "d", *[""] * 99, "n"])
    person = PlanPerson(None, Screen(Console(file=out, width=WIDTH, height=HEIGHT)), typist)  # type: ignore[arg-type]
    reply = await person._confirm(state, PlanPreview((), tasks, ()), {})
    first, _, rest = out.getvalue().partition("not everything has been shown yet")
    assert (reply.choice, "mend all" in first.splitlines()[0], len(first.splitlines()) < HEIGHT) == ("no", True, True)
    assert "word" in rest
