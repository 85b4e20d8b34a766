"""What came before a task in its session: what the person said, what reads returned, the model's last words."""

from __future__ import annotations

from dataclasses import dataclass, field

from foregate.evidence.reads import Reads
from foregate.schemas.turn import Said

_KEPT = 16
"""Messages of the person that are kept beyond their task."""


@dataclass(slots=True)
class Earlier:
    """`answer` is what the model said at the end of the task before, None where that ended in another way."""

    messages: tuple[Said, ...] = ()
    reads: Reads = field(default_factory=Reads)
    answer: Said | None = None

    def follow(self, messages: list[Said], reads: Reads, answer: Said | None) -> Earlier:
        """Return what came before the next task: this, and a task with these messages, reads and last words."""
        own = [said for said in messages if said.actor == "user"]
        return Earlier((*self.messages, *own)[-_KEPT:], self.reads.join(reads), answer)
