"""The demonstration: three messages, a careless model, nine gates, and the log that proves what happened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from foregate.cli.demo.demo_checks import BrokenPromise, check_log, check_workspace, fired
from foregate.cli.demo.demo_person import DemoPerson
from foregate.cli.demo.demo_workspace import DEFECT, FILES, FLAWED, MENDED, MESSAGE, STALE, build
from foregate.cli.terminal.colours import BAD, CARE, GOOD, NAME
from foregate.cli.terminal.layout import labelled
from foregate.cli.terminal.screen import Screen
from foregate.schemas.call_events import ToolFinished
from foregate.schemas.event import Event
from foregate.telemetry.audit.decisions import decision_points

if TYPE_CHECKING:
    from foregate.assembly.open import Opened
    from foregate.telemetry.log.sqlite_log import SqliteLog

INTRODUCTION = (
    "A session in a temporary workspace with a git repository. The model is the rehearsal model: a fixed program, no "
    "language model, and careless on purpose here. What needs a person's yes is answered by this demonstration."
)
MESSAGES = (
    "Clean this up.",
    "Wait. Just tell me, in words: what is in this repository?",
    f'Fix the typo "{DEFECT}" -> "{MENDED}" in {FLAWED}; delete the stale logs in logs; '
    f'run sh {FLAWED}; commit everything with message "{MESSAGE}".',
)


async def demo(console: Console | None = None, place: Path | None = None) -> None:
    """Run the demonstration and print it; raise BrokenPromise, one sentence, when something is not as promised.

    Everything lies in a temporary folder that is gone afterwards, or in the empty folder `place`, which is kept.
    """
    screen = Screen(console or Console(highlight=False))
    with tempfile.TemporaryDirectory(prefix="foregate-demo-") if place is None else nullcontext(place) as named:
        folder, home = Path(named).resolve() / "workspace", Path(named).resolve() / "home"
        folder.mkdir()
        build(folder)
        heading(screen, "foregate demo")
        screen.say(INTRODUCTION)
        opened = await opening(screen, folder, home)
        try:
            for note in opened.notes:
                screen.say(note, CARE)
            await talk(screen, opened, folder)
        finally:
            await opened.close()
        await proof(screen, home, opened.name)


async def opening(screen: Screen, folder: Path, home: Path) -> Opened:
    """Open the session: real tools, a durable log, the default policy whatever the environment says.

    Only OpenTelemetry is as the environment says: a demonstration is what one tries an endpoint with.
    """
    from foregate.agent.models.rehearsal.model import RehearsalModel
    from foregate.assembly.open import open_session
    from foregate.assembly.setting import Setting
    from foregate.policy.source.load import default_policy
    from foregate.telemetry.otel.environment import variables

    return await open_session(
        Setting(
            workspace=folder,
            model=RehearsalModel(stumbles=True),
            policy=default_policy(),
            person=DemoPerson(screen),
            listeners=[screen.hear],
            environ={"FOREGATE_HOME": str(home), **variables(os.environ)},
        )
    )


async def talk(screen: Screen, opened: Opened, folder: Path) -> None:
    """Send the three messages, check what came of them, and undo one change."""
    from foregate.agent.loop.runner import run

    session, config = opened.session, (folder / ".git" / "config").read_text()
    for text in MESSAGES:
        screen.say()
        screen.say(Text.assemble(("you> ", f"bold {NAME}"), (text, "bold")))
        outcome = await run(session, text)
        screen.told(outcome)
    check_workspace(folder, config)
    await take_back(screen, opened, folder)


async def take_back(screen: Screen, opened: Opened, folder: Path) -> None:
    """Undo one deletion and check that the file is back as it was."""
    from foregate.agent.effects.undo import undo

    session, name = opened.session, STALE[-1]
    heading(screen, f"undo of the deletion of {name}")
    events = await session.log.read()
    ran = [event.body for event in events if isinstance(event.body, ToolFinished)]
    calls = [body.call for body in ran if body.target == name]
    report = await undo(session, calls[-1] if calls else None)
    if not report.done or (folder / name).read_text() != FILES[name]:
        raise BrokenPromise(f"the demonstration broke a promise: {name} could not be brought back ({report.reason})")


async def proof(screen: Screen, home: Path, session: str) -> None:
    """Print what the closed log says, and check it: decision points, replay notes, and that nothing was altered."""
    from foregate.assembly.home import Home

    log = Home(home).log()
    try:
        events = list(log.events(session))
        timeline(screen, events)
        remarks(screen, events)
        check_log(events)
        heading(screen, "every gate stepped in")
        for gate, codes in fired(decision_points(events)).items():
            rows(screen, gate, ", ".join(codes), GOOD, 11)
        verified(screen, log, session)
    finally:
        log.close()


def timeline(screen: Screen, events: Sequence[Event]) -> None:
    """Print the decision points that were more than a pass, and count the others."""
    heading(screen, "timeline of decision points")
    points = list(decision_points(events))
    shown = [p for p in points if p.severity != "info" or p.code.endswith(("_accepted", "_granted"))]
    for point in shown:
        colour = GOOD if point.severity == "info" else CARE
        rows(screen, point.address, f"{point.code}  {f'{point.tool} {point.target}'.strip()}", colour, 14)
    screen.say(f"  and {len(points) - len(shown)} that passed; addresses are event.gate", "dim")


def remarks(screen: Screen, events: Sequence[Event]) -> None:
    """Print the replay notes."""
    from foregate.telemetry.audit.replay_notes import notes_of

    heading(screen, "replay notes")
    for note in notes_of(events):
        rows(screen, note.category, note.summary, CARE if note.blocking else GOOD, 14)


def rows(screen: Screen, label: str, text: str, colour: str, room: int) -> None:
    """Print a label and a text, wrapped behind it."""
    for row in labelled(label, text, screen.console.width, label_style=colour, room=room):
        screen.say(row)


def verified(screen: Screen, log: SqliteLog, session: str) -> None:
    """Verify the log and print the result; raise BrokenPromise unless it holds to its last event."""
    from foregate.telemetry.audit.verify import verify_session

    result = verify_session(log, session)
    screen.say()
    screen.say(result.sentence, f"bold {GOOD}" if result.ok and result.proven else f"bold {BAD}")
    if not (result.ok and result.proven):
        raise BrokenPromise("the demonstration broke a promise: its log does not verify")


def heading(screen: Screen, text: str) -> None:
    """Print a heading."""
    screen.say()
    screen.say(f"== {text} ==", "bold")
