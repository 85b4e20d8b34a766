"""By which versions of Foregate sessions were recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from foregate.schemas.protocols import Readable
from foregate.schemas.version import __version__


def find_other_versions(log: Readable, sessions: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on the sessions that other versions of Foregate recorded, where there are any.

    Their turns were judged by other gates, so that not each difference is one of the policy.
    """
    begun = Counter(event.foregate for name in sessions if (event := next(log.events(name), None)) is not None)
    others = {version: count for version, count in begun.items() if version not in ("", __version__)}
    if others:
        named = ", ".join(f"{count} by {version}" for version, count in sorted(others.items()))
        told = f"recorded by another version of Foregate: {named}, of {len(sessions)} in all"
        yield f"{told}; this is {__version__}, whose gates may judge them otherwise"
