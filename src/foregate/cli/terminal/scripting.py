"""What commands print for scripts: JSON, one object per line, nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.chain import header

if TYPE_CHECKING:
    from foregate.agent.session.result import RunResult
    from foregate.assembly.open import Opened


def one_line(value: Json) -> str:
    """Return `value` as ASCII JSON on one line, so that no byte of it can upset a terminal or a parser."""
    return json.dumps(value, ensure_ascii=True)


def event_line(event: Event) -> str:
    """Return an event as it stands in the log, with its hash."""
    return one_line({**header(event), "hash": event.hash})


async def outcome_json(opened: Opened, outcome: RunResult) -> str:
    """Return how a task ended: status, text, report, session and the decision points."""
    from foregate.cli.terminal.timeline import points_json

    events = await opened.session.log.read()
    return one_line(
        {
            "status": outcome.status,
            "text": outcome.text,
            "report": asdict(outcome.report),
            "session": opened.name,
            "notes": list(opened.notes),
            "decisions": points_json(events),
        }
    )
