"""Has a process find no more than the tier `limited` to hold its commands with, as where namespaces are forbidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foregate.agent.sandbox.probe import Probe
from foregate.agent.sandbox.restrictions import has_landlock
from foregate.agent.workspace import confinement, work_sandbox

_REASON = "a test forbids namespaces"


def find_no_more_than_limited(put: Callable[[Any, str, Any], None]) -> None:
    """Replace what looks for namespaces, by `put` (as `setattr`); how commands are held then is real."""
    tier = "limited" if has_landlock() else "none"
    put(confinement, "_probe", lambda *_: Probe(tier=tier, reason=_REASON, cure=""))
    put(work_sandbox, "_probe", lambda *_: Probe(tier="none", reason=_REASON, cure=""))
