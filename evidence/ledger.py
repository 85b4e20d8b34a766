"""What this session has observed and changed, newest first, per resource and kind; a fold over finished calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, EvidenceSeen
from foregate.schemas.tool_spec import Resource, ResourceKind

REMEMBERED = 256
"""Contradictions a session remembers; older ones stay in the log."""

_COMPOUND = (ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)
"""What changes when something in it does."""


class Ledger:
    """The newest evidence per resource and kind, which changes were looked at since, and what contradicts what."""

    def __init__(self) -> None:
        self._seen: dict[Resource, dict[EvidenceKind, EvidenceSeen]] = {}
        self._changed: dict[Resource, int] = {}
        self._last_change = self._unseen = 0
        self._contradictions: deque[tuple[Resource, int, int]] = deque(maxlen=REMEMBERED)

    def record_evidence(
        self,
        seq: int,
        records: Iterable[EvidenceRecord],
        changes: Iterable[Change] = (),
        *,
        may_have_changed: bool = False,
    ) -> None:
        """Take in what event `seq` observed and changed; `may_have_changed` says that it may have changed more.

        What is gone, or lay in a folder that is gone, is no longer known.
        """
        for change in changes:
            self._changed[change.resource] = self._last_change = seq
            if not change.after:
                self._forget_resource(change.resource)
        if may_have_changed:
            self._unseen = self._last_change = seq
        for record in records:
            self._note_contradiction(seq, record)
            seen = EvidenceSeen(record.kind, seq, record.hash, record.trust, record.origin, record.own_change)
            self._seen.setdefault(record.resource, {})[record.kind] = seen

    def newest_records(self, resource: Resource) -> tuple[EvidenceSeen, ...]:
        """Return the newest record of each kind on exactly this resource."""
        return tuple(self._seen.get(resource, {}).values())

    def is_observed_since_change(self, resource: Resource) -> bool:
        """Whether the last change of the resource was followed by an observation of it (an own read-back counts)."""
        changed = self._changed.get(resource, 0)
        return any(seen.seq >= changed for seen in self.newest_records(resource))

    @property
    def contradictions(self) -> Sequence[tuple[Resource, int, int]]:
        """Pairs of records of one resource that disagree without a change of ours between (earlier, later event)."""
        return tuple(self._contradictions)

    def resources(self) -> Mapping[Resource, tuple[EvidenceSeen, ...]]:
        """Return everything known, for display."""
        return {resource: tuple(kinds.values()) for resource, kinds in self._seen.items()}

    def _note_contradiction(self, seq: int, record: EvidenceRecord) -> None:
        """Note when a record disagrees with the newest one that can be compared and nothing of ours explains it."""
        if record.own_change or not record.hash:
            return
        compound = record.resource.kind in _COMPOUND
        earlier = max(
            (s for s in self.newest_records(record.resource) if s.hash and (s.kind is record.kind or not compound)),
            key=lambda seen: seen.seq,
            default=None,
        )
        if earlier is None or earlier.hash == record.hash:
            return
        explained = max(self._changed.get(record.resource, 0), self._unseen, self._last_change if compound else 0)
        if explained <= earlier.seq < seq:
            self._contradictions.append((record.resource, earlier.seq, seq))

    def _forget_resource(self, resource: Resource) -> None:
        """Forget what was seen of a resource that is gone, and of what lay in it."""
        self._seen.pop(resource, None)
        if resource.kind is ResourceKind.DIRECTORY:
            beneath = f"{resource.id}/"
            for inner in [known for known in self._seen if resource.id == "." or known.id.startswith(beneath)]:
                if inner.kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
                    del self._seen[inner]
