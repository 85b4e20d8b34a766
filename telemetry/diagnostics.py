"""Diagnostics for whoever runs Foregate; never the record, and never with arguments, outputs or keys in them.

FOREGATE_LOG names a level (`debug`, `info`, `warning`, `error`); lines of JSON then go to standard error. Without it
nothing is written and structlog is not even imported.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class SilentDiagnostics:
    """Diagnostics that go nowhere."""

    def debug(self, event: str, **fields: object) -> None:
        """Drop the line."""

    info = warning = exception = debug


def get_diagnostics() -> FilteringBoundLogger | SilentDiagnostics:
    """Return the logger FOREGATE_LOG asks for; raise UsageError for an unknown level."""
    return _for_level(os.environ.get("FOREGATE_LOG", ""))


@cache
def _for_level(level: str) -> FilteringBoundLogger | SilentDiagnostics:
    if not level:
        return SilentDiagnostics()
    if level not in LEVELS:
        raise UsageError(f"FOREGATE_LOG is `{level[:40]}`; set it to one of {', '.join(LEVELS)}, or unset it")
    import structlog

    steps = structlog.processors
    stamp, write = steps.TimeStamper(fmt="iso", utc=True), steps.JSONRenderer(sort_keys=True)
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[steps.add_log_level, stamp, steps.format_exc_info, write],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )
    return logger
