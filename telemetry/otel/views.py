"""What the projection remembers of the sessions it hears of: as little as later spans need."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field
from opentelemetry.metrics import Meter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, SpanContext

from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.masking import Hidden
from foregate.telemetry.otel import names

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def derive_id(bits: int, *parts: object) -> int:
    """Return a number of so many bits, never 0, from the SHA-256 over `parts`."""
    digest = hashlib.sha256("\0".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[: bits // 8], "big") or 1


class ChosenIds(IdGenerator):
    """Gives the numbers that were chosen for the span about to be started."""

    def __init__(self) -> None:
        self.trace = self.span = 1

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class TaskSpans(Struct):
    """A task. A *stretch* is the part of it between its start or a pause and the next pause or its end.

    `first` is its first stretch, to which later ones are linked. Times are nanoseconds since 1970: `responded` is when
    the response in hand came, `judging` since when the gates are at work on it (None while nobody judges), `spent` what
    they took before, `asked` when somebody was last asked. Only where content is exported are `messages` kept, which
    were said since the last request, and `arguments`, by call of the response in hand.
    """

    number: int
    depth: int = 0
    first: SpanContext | None = None
    stretch: Span | None = None
    prelude: Span | None = None
    tools: dict[str, Span] = field(default_factory=dict)
    sandboxed: set[str] = field(default_factory=set)
    holds: int = 0
    responded: int | None = None
    judging: int | None = None
    spent: int = 0
    asked: int = 0
    messages: list[Json] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)

    def pause_judging(self, now: int) -> None:
        """Stop the clock of the gates."""
        if self.judging is not None:
            self.spent, self.judging = self.spent + max(0, now - self.judging), None


class SessionSpans(Struct):
    """A session: its name, what its numbers are derived from, its tools and patterns, and the time of its last event.

    `parent` is the session that started it as a child, and `cause` the call it did so for. `user` is who runs it.
    """

    name: str
    identity: str
    parent: SessionSpans | None = None
    cause: str = ""
    model: str = ""
    user: str = ""
    tools: frozenset[str] = frozenset()
    patterns: Hidden = ()
    last: int = 0
    task: TaskSpans | None = None

    def find_parent_span(self) -> Span | None:
        """Return the span the task stands under: the call of the parent that started it, else the parent's task."""
        above = self.parent.task if self.parent is not None else None
        return above.tools.get(self.cause, above.stretch) if above is not None else None

    def interrupt(self, now: int) -> None:
        """Forget what only the process that wrote the last event could finish."""
        self.last = now
        if self.task is not None:
            self.task.stretch = self.task.prelude = self.task.responded = self.task.judging = None
            self.task.spent = 0
            self.task.tools.clear()


def read_time(event: Event) -> int:
    """Return the time of an event as nanoseconds since 1970."""
    return (datetime.fromisoformat(event.time) - _EPOCH) // timedelta(microseconds=1) * 1000


NANOSECONDS = 1_000_000_000
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_JUDGING = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_COUNTED = (
    (names.DECISIONS, "{decision}", "Verdicts of gates on turns."),
    (names.APPROVALS, "{answer}", "Answers of a person to what asked."),
)
_MEASURED = (
    (names.TASK_HOLDS, "{call}", "Calls of a task that were held.", (0, 1, 2, 3, 5, 8, 13, 21)),
    (names.PRELUDE_DURATION, "s", "Time to judge a response, waits apart.", _JUDGING),
    (names.TOOL_DURATION, "s", "Time a tool ran.", _SECONDS),
    (names.OPERATION_DURATION, "s", "Time a request to a model took.", _SECONDS),
    (names.TOKEN_USAGE, "{token}", "Tokens of a request to a model.", tuple(4**power for power in range(14))),
)


class Instruments:
    """What is counted and timed, by its name. While `muted` nothing is: another process counted those events."""

    def __init__(self, meter: Meter) -> None:
        self.muted = False
        self._counters = {name: meter.create_counter(name, unit, text) for name, unit, text in _COUNTED}
        self._histograms = {
            name: meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)
            for name, unit, text, bounds in _MEASURED
        }

    def count(self, name: str, about: Mapping[str, str]) -> None:
        """Count one verdict or answer."""
        if not self.muted:
            self._counters[name].add(1, about)

    def record(self, name: str, amount: float, about: Mapping[str, str] | None = None) -> None:
        """Note a measure: seconds, tokens or calls."""
        if not self.muted:
            self._histograms[name].record(amount, about)
