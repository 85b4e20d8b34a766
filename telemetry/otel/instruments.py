"""The metrics, one method for each thing that is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.metrics import Histogram, Meter

from foregate.telemetry.otel import names

Attributes = Mapping[str, str]

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_JUDGING = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_TOKENS = tuple(4**power for power in range(14))
_HOLDS = (0, 1, 2, 3, 5, 8, 13, 21)
NANOSECONDS = 1_000_000_000


class Instruments:
    """What is counted and timed. While `muted`, nothing is: events of another process were counted there."""

    def __init__(self, meter: Meter) -> None:
        def create_histogram(name: str, unit: str, text: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

        self.muted = False
        self._decisions = meter.create_counter(names.DECISIONS, "{decision}", "Verdicts of gates on turns.")
        self._approvals = meter.create_counter(names.APPROVALS, "{answer}", "Answers of a person to what asked.")
        self._holds = create_histogram(names.TASK_HOLDS, "{call}", "Calls of a task that were held.", _HOLDS)
        self._prelude = create_histogram(
            names.PRELUDE_DURATION, "s", "Time to judge a response, waits apart.", _JUDGING
        )
        self._tools = create_histogram(names.TOOL_DURATION, "s", "Time a tool ran.", _SECONDS)
        self._requests = create_histogram(names.OPERATION_DURATION, "s", "Time a request to a model took.", _SECONDS)
        self._tokens = create_histogram(names.TOKEN_USAGE, "{token}", "Tokens of a request to a model.", _TOKENS)

    def count_verdict(self, about: Attributes) -> None:
        """Count one gate's verdict on one turn."""
        if not self.muted:
            self._decisions.add(1, about)

    def count_approval(self, about: Attributes) -> None:
        """Count one answer of a person, whichever it was."""
        if not self.muted:
            self._approvals.add(1, about)

    def record_holds(self, holds: int, about: Attributes) -> None:
        """Note how many calls of a task that ended had been held."""
        if not self.muted:
            self._holds.record(holds, about)

    def record_judging_time(self, nanoseconds: int) -> None:
        """Note how long the gates took over one response."""
        if not self.muted:
            self._prelude.record(nanoseconds / NANOSECONDS)

    def record_tool_run(self, milliseconds: int, about: Attributes) -> None:
        """Note how long a tool ran."""
        if not self.muted:
            self._tools.record(milliseconds / 1000, about)

    def record_request(self, nanoseconds: int, tokens: Mapping[str, int], about: Attributes) -> None:
        """Note how long a request took, and its tokens by type; a type of which there were none is not noted."""
        if self.muted:
            return
        self._requests.record(nanoseconds / NANOSECONDS, about)
        for kind, count in tokens.items():
            if count:
                self._tokens.record(count, {**about, names.TOKEN_TYPE: kind})
