"""Trace and span numbers that follow from the log, so that whoever projects it, whenever, gets the same ones."""

from __future__ import annotations

import hashlib

from opentelemetry.sdk.trace.id_generator import IdGenerator


def derive_id(bits: int, *parts: object) -> int:
    """Return a number of so many bits, never 0, from the SHA-256 over `parts`."""
    digest = hashlib.sha256("\0".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[: bits // 8], "big") or 1


class ChosenIds(IdGenerator):
    """Gives the numbers that were chosen for the span about to be started."""

    def __init__(self) -> None:
        self.trace = self.span = 1

    def generate_trace_id(self) -> int:
        """Return the trace's number."""
        return self.trace

    def generate_span_id(self) -> int:
        """Return the span's number."""
        return self.span
