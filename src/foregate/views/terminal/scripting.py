"""What commands print for scripts: JSON, one object per line, nothing else."""

from __future__ import annotations

import json

from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.chain import build_header


def to_json_line(value: Json) -> str:
    """Return `value` as ASCII JSON on one line, so that no byte of it can upset a terminal or a parser."""
    return json.dumps(value, ensure_ascii=True)


def format_event_line(event: Event) -> str:
    """Return an event as it stands in the log, with its hash."""
    return to_json_line({**build_header(event), "hash": event.hash})
