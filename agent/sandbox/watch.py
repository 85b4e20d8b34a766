"""What the guard of a call in the tier `limited` sees to from outside: the call's private folder, and its bounds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan
from foregate.agent.sandbox.scratch import Scratch
from foregate.agent.sandbox.system_calls import name_step
from foregate.agent.sandbox.written import WrittenPaths

_PAUSE = 0.1
"""Seconds between two counts of processes."""
_MOST_FILES = 65536


class Watch:
    """Looks from time to time at what a call uses, which no namespace bounds; `list_tree` lists its processes.

    Raises StepFailed where no private folder can be made.
    """

    def __init__(self, plan: SandboxPlan, list_tree: Callable[[], Collection[int]]) -> None:
        self._plan, self._list_tree = plan, list_tree
        self._parent, self._next = os.getppid(), 0.0
        with name_step("scratch", f"no private folder can be made in {plan['scratch']}"):
            self.scratch = Scratch(plan["scratch"])
        bounds = ProcessLimits(written_bytes=plan["scratch_bytes"], written_files=_MOST_FILES)
        self._written = [WrittenPaths([self.scratch.path], bounds)]
        if plan["writable"]:
            self._written.append(WrittenPaths([plan["workspace"]], plan["limits"]))

    def find_excess(self) -> str:
        """Return why the call has to end, as a clause about the command; "" for nothing."""
        # Were this process killed too, nobody would end what the command started.
        if os.getppid() != self._parent:
            return "the process that starts programs was ended from outside"
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            most = self._plan["limits"].get("processes", 0)
            if most and _count_threads(self._list_tree()) > most:
                return f"it had more than {most} processes and threads; have it start fewer at once"
        return next(filter(None, (written.find_excess() for written in self._written)), "")

    def close(self) -> None:
        """Remove the private folder; what cannot be removed now is with the next one."""
        with suppress(OSError):
            self.scratch.remove()


def _count_threads(tree: Collection[int]) -> int:
    count = 0
    for pid in tree:
        with suppress(OSError):
            count += len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - pathlib takes long to import
    return count
