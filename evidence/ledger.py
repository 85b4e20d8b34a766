"""What this session has observed and changed, newest first, per resource and kind; a fold over finished calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from foregate.schemas import codec
from foregate.schemas.evidence_record import EvidenceKind, EvidenceRecord, EvidenceSeen
from foregate.schemas.resource import Resource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_result import Change


class Ledger:
    """The newest evidence per resource and kind, which changes were looked at since, and what contradicts what."""

    def __init__(self) -> None:
        self._seen: dict[Resource, dict[EvidenceKind, EvidenceSeen]] = {}
        self._changed: dict[Resource, int] = {}
        self.contradictions: list[tuple[Resource, int, int]] = []
        """Pairs of records of one resource that disagree without a change of ours between (earlier, later event)."""

    def note(self, seq: int, records: Iterable[EvidenceRecord], changes: Iterable[Change] = ()) -> None:
        """Take in what event `seq` observed and changed."""
        for change in changes:
            self._changed[change.resource] = seq
            if not change.after:
                self._seen.pop(change.resource, None)
        for record in records:
            kinds = self._seen.setdefault(record.resource, {})
            before = max(kinds.values(), key=lambda seen: seen.seq, default=None)
            if before and before.hash and record.hash and before.hash != record.hash and not record.own_change:
                self.contradictions.append((record.resource, before.seq, seq))
            kinds[record.kind] = EvidenceSeen(
                record.kind, seq, record.hash, record.trust, record.origin, record.own_change
            )

    def seen(self, resource: Resource) -> tuple[EvidenceSeen, ...]:
        """Return the newest record of each kind on exactly this resource."""
        return tuple(self._seen.get(resource, {}).values())

    def observed_since_change(self, resource: Resource) -> bool:
        """Whether the last change of the resource was followed by an observation of it (an own read-back counts)."""
        changed = self._changed.get(resource, 0)
        return any(seen.seq >= changed for seen in self.seen(resource))

    def resources(self) -> Mapping[Resource, tuple[EvidenceSeen, ...]]:
        """Return everything known, for display."""
        return {resource: tuple(kinds.values()) for resource, kinds in self._seen.items()}


def records_of(data: Iterable[Json]) -> tuple[EvidenceRecord, ...]:
    """Return the records a `tool_finished` body holds."""
    return tuple(codec.load(EvidenceRecord, item) for item in data)


def changes_of(data: Iterable[Json]) -> tuple[Change, ...]:
    """Return the changes a `tool_finished` body holds."""
    return tuple(codec.load(Change, item) for item in data)
