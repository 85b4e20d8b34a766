"""A home with sessions that really ran: one in words, one with every ruling, one that waits, one that is hostile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import foregate
from foregate.agent.loop.runner import run
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.testing import ScriptedModel, calls, says

ASKS = "version: 1\nrules: {list: [{id: ask, then: ask, tool: edit_file}]}\n" + "".join(
    f"{gate}: {{mode: 'off'}}\n" for gate in ("evidence", "plan", "critique")
)
HOSTILE = "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
HIDDEN = "\u202egnp.exe\u2066\x1b[2K\x07\u200b"
LONG = 5 * 1024 * 1024
"""Characters of the longest text of the hostile session."""


@foregate.tool(effect="delete", high_impact=True, targets={"table": "other"})
def drop(table: str) -> str:
    """Drop a table of the production database."""
    return f"{table} is gone"


async def run_session(root: Path, task: str, *steps: Any, **more: Any) -> str:
    """Run one task in a session of the home in `root`, with nobody there; return the session's name."""
    folder = root / "project"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("teh cat\n")
    (folder / "b.txt").write_text("teh dog\n")
    environ = {"FOREGATE_HOME": str(root / "home"), "HOME": str(root)}
    about = {"person": foregate.AbsentPerson(), "policy": root / "asks.yaml", **more}
    opened = await open_session(SessionOptions(folder, ScriptedModel(steps), environ=environ, **about))
    try:
        await run(opened.session, task)
    finally:
        await opened.close()
    return opened.name


async def build_home(root: Path) -> dict[str, str]:
    """Make a home in `root`; return the names of its sessions by what they are."""
    (root / "asks.yaml").write_text(ASKS)
    careless = [calls(("drop", {"table": "users"}), text="I will drop the table users."), says("All tidy.")]
    return {
        "words": await run_session(root, "Say hello.", says("Hello.")),
        "blocked": await run_session(root, "Drop the table users.", *careless, tools=[drop], person=None, policy=None),
        "waiting": await ask_about_edit(root),
        "answered": await ask_about_edit(root),
        "many": await run_ten_calls(root),
        "hostile": await run_hostile(root),
        "silent": await run_silent(root),
    }


async def ask_about_edit(root: Path, *files: str) -> str:
    """Have a session ask whether it may edit files, and be gone; return its name."""
    wanted = [("edit_file", {"path": file, "old": "teh", "new": "the"}) for file in files or ("a.txt",)]
    return await run_session(root, "Fix the spelling of a.txt.", calls(*wanted, text="I will fix the spelling."))


async def run_ten_calls(root: Path) -> str:
    """Have a session in which the model looks ten times in one response; return its name."""

    @foregate.tool(read_only=True)
    def peek(page: int) -> str:
        """Return a page."""
        return f"This is page {page}."

    wanted = [("peek", {"page": number}) for number in range(1, 11)]
    steps = [calls(*wanted, text="I will read all ten pages."), says("They are numbered.")]
    return await run_session(root, "Read pages 1 to 10.", *steps, tools=[peek], policy=None)


async def run_silent(root: Path) -> str:
    """Have a session whose model acts with a word of three letters, so that its calls are held; return its name."""
    (root / "silent.yaml").write_text(ASKS.replace("rules", "narration: {scope: first_side_effect}\nrules"))
    edits = [("edit_file", {"path": file, "old": "teh", "new": "the"}) for file in ("a.txt", "b.txt")]
    steps = calls(*edits, text="Yes."), says("I stop here.")
    return await run_session(root, "Fix the spelling of both.", *steps, policy=root / "silent.yaml")


async def run_hostile(root: Path) -> str:
    """Have a session in which model, tool and person say what must not come alive on a page; return its name."""

    @foregate.tool(read_only=True)
    def look(page: str) -> str:
        """Return a page of somebody else's."""
        return f"{HOSTILE}{HIDDEN}" + "x" * LONG

    wanted = {"page": f"{HOSTILE}{HIDDEN}"}
    steps = [calls(("look", wanted), text=f"{HOSTILE}{HIDDEN}"), says(f"{HOSTILE}{HIDDEN}" + "y" * 2000)]
    return await run_session(root, f"Look at {HOSTILE}{HIDDEN}", *steps, tools=[look], policy=None)
