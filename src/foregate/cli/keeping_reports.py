"""What `foregate log` prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from foregate.views.terminal.layout import format_labelled, pluralise

if TYPE_CHECKING:
    from foregate.telemetry.log.snapshots import Unkept
    from foregate.telemetry.queries.backup import Backup
    from foregate.telemetry.queries.erase import Erased
    from foregate.telemetry.queries.log_statistics import LogStatistics
    from foregate.telemetry.queries.retain import Retention
    from foregate.telemetry.queries.used_blobs import BlobCount, Collected, Compaction

_WIDTH, _UNITS = 80, ("B", "KB", "MB", "GB", "TB")
_SHOWN = 20


def format_size(size: float) -> str:
    """Return bytes as a person reads them.

    >>> format_size(1536)
    '1.5 KB'
    """
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if not unit or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def format_statistics(found: LogStatistics) -> Iterator[str]:
    """Yield what a log holds."""
    counted = {"of them tasks of others": found.children, "ended": found.ended, "running": found.running}
    more = [f"{count} {what}" for what, count in counted.items() if count]
    yield from _format_row("sessions", ", ".join((pluralise(found.sessions, "session"), *more)))
    if found.never_begun:
        yield from _format_row("", f"{pluralise(found.never_begun, 'name')} taken by a process that ended first")
    yield from _format_row("file", f"{format_size(found.file)}, {format_size(found.free)} of it free")
    yield from _format_row("stored", f"{_format_count(found.blobs)}, {_format_count(found.unused)} of it unused")
    yield from _format_row("compact", f"would free about {format_size(found.freed)}")
    if found.kinds:
        yield f"{'kind':<20} {'events':>9} {'size':>9}"
    for kind, one in found.kinds.items():
        yield f"{kind:<20} {one.events:>9} {format_size(one.bytes):>9}"
    if found.shared.events:
        yield f"{'shared texts':<20} {found.shared.events:>9} {format_size(found.shared.bytes):>9}"
    if found.snapshots.events:
        yield f"{'snapshots':<20} {found.snapshots.events:>9} {format_size(found.snapshots.bytes):>9}"
    for line in format_missing(found.missing):
        yield from _format_row("missing", line)
    for line in format_unkept(found.unkept):
        yield from _format_row("warning", line)


def format_unkept(unkept: Sequence[Unkept]) -> Iterator[str]:
    """Yield a sentence on each session without a usable snapshot."""
    for one in unkept[:_SHOWN]:
        yield f"no snapshot of session {one.session} was kept after event {one.seq}: {one.why}"
    if len(unkept) > _SHOWN:
        yield f"the same is so of {pluralise(len(unkept) - _SHOWN, 'further session')}"


def format_missing(missing: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield a sentence on sessions that were deleted behind the log's back, none where no number is missing."""
    if not missing:
        return
    count = sum(last - first + 1 for first, last in missing)
    ranges = [str(first) if first == last else f"{first} to {last}" for first, last in missing[:_SHOWN]]
    more = f" and {pluralise(len(missing) - _SHOWN, 'further range')}" if len(missing) > _SHOWN else ""
    gone = f"{pluralise(count, 'session')} gone from the file (by number: {', '.join(ranges)}{more})"
    rest = "only a signed checkpoint kept elsewhere names every session there was, with its head"
    yield f"{gone}; Foregate deletes none. Of the newest ones there would be no gap: {rest}"


def format_compaction(done: Compaction) -> Iterator[str]:
    """Yield what compacting did."""
    sizes = f"the file took {format_size(done.before)}, now {format_size(done.after)}"
    yield f"removed {_format_count(done.blobs.removed)}; {sizes}"
    if done.running:
        named = ", ".join(f"{session} ({process})" for session, process in list(done.running.items())[:3])
        yield f"the file was not rewritten, because sessions run: {named}; run this again when they have ended"
    yield from _format_kept(done.blobs)


def format_erased(done: Erased) -> Iterator[str]:
    """Yield what erasing did."""
    of = pluralise(len(done.sessions), "session")
    yield f"erased {pluralise(done.events, 'event')} of {of}, and {_format_count(done.blobs.removed)}"
    if done.reviews:
        yield f"with them went {pluralise(done.reviews, 'label')} and sign-offs of reviewers"
    yield from _format_kept(done.blobs)
    if done.events:
        yield "backups and copies still have them; `foregate log compact` gives the room back to the disk"


def format_retention(found: Retention) -> Iterator[str]:
    """Yield which sessions would go."""
    for one in found.expired[:_SHOWN]:
        size = f"{pluralise(one.events, 'event')}, {format_size(one.bytes)}"
        yield f"{one.session}  ended {one.ended[:16].replace('T', ' ')}  {size}"
    if len(found.expired) > _SHOWN:
        yield f"... and {len(found.expired) - _SHOWN} more; --json lists them all"
    if found.expired:
        of = pluralise(len(found.expired), "session")
        yield f"{of} would go: {format_size(found.before)} now, about {format_size(found.after)} then"
    else:
        yield f"nothing would go; the log takes {format_size(found.before)}"
    if found.open:
        yield f"{pluralise(found.open, 'older session')} never ended, and stay"


def format_backup(done: Backup) -> Iterator[str]:
    """Yield what a copy holds."""
    held = f"{pluralise(done.sessions, 'session')}, {pluralise(done.events, 'event')}, {_format_count(done.blobs)}"
    said = f", {pluralise(done.reviews, 'event')} of the review log" if done.reviews else ""
    more = said + (f", {', '.join(done.files)}" if done.files else "")
    yield f"copied to {done.target}: {held}{more}"
    if done.is_sound:
        yield f"all of it verified there; `foregate audit list --home {done.target}` reads it"


def _format_kept(blobs: Collected) -> Iterator[str]:
    if blobs.kept.count:
        why = "because a session may still need them; `compact` removes them later"
        yield f"{_format_count(blobs.kept)} stay for now, {why}"


def _format_count(blobs: BlobCount) -> str:
    return f"{pluralise(blobs.count, 'stored file')} ({format_size(blobs.bytes)})"


def _format_row(label: str, value: str) -> Iterator[str]:
    return (line.plain[2:] for line in format_labelled(label, value, _WIDTH))
