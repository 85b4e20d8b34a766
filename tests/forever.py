"""How long a test waits for what must come."""

from __future__ import annotations

FOREVER = 240
"""Seconds after which what has not come counts as never coming: no measure, only so that a test says what it missed.

As long as `faulthandler_timeout` lets it be: on a busy machine a process that is ready in a second takes a minute.
"""
