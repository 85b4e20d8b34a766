"""Stored bytes that a log names: read, and checked by their hash, with all that they name in their turn."""

from __future__ import annotations

from collections.abc import Iterator

from foregate.agent.effects.kept_changes import load_changes
from foregate.agent.workspace.directory import list_hashes
from foregate.agent.workspace.path_state import is_adjusted
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import Event
from foregate.schemas.protocols import Blobs
from foregate.schemas.strict_json import get_text
from foregate.telemetry.queries.used_blobs import Holds, list_blobs
from foregate.telemetry.queries.verify import NAMED, Defect


class BlobChecker:
    """Checks what events name as they go by, each once: `checked` counts it, `defects` are what is missing or changed,
    at most the first hundred.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: set[bytes] = set()
        self.checked = 0
        self.defects: list[Defect] = []

    def check_event(self, event: Event) -> None:
        """Check the stored bytes that an event names."""
        for hash_, holds in list_blobs(event):
            self._check(event.seq, hash_, holds)

    def _check(self, seq: int, hash_: str, holds: Holds) -> None:
        key = hash_.encode()
        if key in self._known:
            return
        self._known.add(key)
        self.checked += 1
        try:
            data = self._blobs.get(hash_)
            for inner in list(self._list_inner(hash_, data, holds)):
                self._check(seq, inner, "")
        except (ForegateError, ValueError) as error:
            if len(self.defects) < NAMED:
                why = str(error).splitlines()[0][:200]
                self.defects.append(
                    Defect(seq, "other_bytes", f"event {seq} names bytes that are gone or changed: {why}")
                )

    def _list_inner(self, hash_: str, data: bytes, holds: Holds) -> Iterator[str]:
        """Yield what stored bytes name in their turn."""
        if holds == "directory":
            yield from list_hashes(data)
        elif holds == "repository":
            yield from filter(None, [get_text(strict_json.parse(data.decode()), "index", "")])
        elif holds == "changes":
            kept = load_changes(self._blobs, hash_)
            # where only traits change, the content was never copied
            adjusted = {one.path for one in kept.changes if is_adjusted(one.before, one.after)} - kept.linked
            for image in kept.images:
                yield from filter(None, ["" if image.path in adjusted else image.hash, image.attributes])
