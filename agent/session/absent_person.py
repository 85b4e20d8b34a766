"""The person of a session nobody sits at: what needs an answer is left open for somebody elsewhere."""

from __future__ import annotations

from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply


class AbsentPerson:
    """Answers nothing now, so that each question waits until it is answered (`foregate approvals`), or expires."""

    async def answer(self, need: Need) -> Reply | None:
        """Return None: not now; see Person."""
        return None
