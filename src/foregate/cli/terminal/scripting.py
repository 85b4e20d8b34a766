"""What commands print for scripts: JSON, one object per line, nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.chain import build_header

if TYPE_CHECKING:
    from foregate.agent.session.result import RunResult
    from foregate.assembly.open import OpenSession


def to_json_line(value: Json) -> str:
    """Return `value` as ASCII JSON on one line, so that no byte of it can upset a terminal or a parser."""
    return json.dumps(value, ensure_ascii=True)


def format_event_line(event: Event) -> str:
    """Return an event as it stands in the log, with its hash."""
    return to_json_line({**build_header(event), "hash": event.hash})


async def format_outcome(opened: OpenSession, outcome: RunResult) -> str:
    """Return how a task ended: status, text, report, session and the decision points."""
    from foregate.cli.terminal.timeline import dump_decisions

    events = await opened.session.log.read()
    return to_json_line(
        {
            "status": outcome.status,
            "text": outcome.text,
            "report": asdict(outcome.report),
            "session": opened.name,
            "notes": list(opened.notes),
            "decisions": dump_decisions(events),
        }
    )
