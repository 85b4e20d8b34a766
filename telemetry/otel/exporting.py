"""Handing spans and metrics to an OTLP endpoint, in the background, such that no failure of it reaches a session.

A session only puts its events on a bounded queue. One thread projects them; spans wait in a bounded queue that drops
the oldest, and threads of OpenTelemetry send them in batches. What cannot be projected or sent is lost, which is no
harm: the log is the record, and holds everything.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Full, Queue
from threading import Thread
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics import export as metering
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from foregate.schemas.event import Event
from foregate.schemas.version import __version__
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.telemetry.log.masking import Secret
from foregate.telemetry.otel import names
from foregate.telemetry.otel.projection import AGENT, Projection
from foregate.telemetry.otel.views import ChosenIds, Instruments

# Without a handler Python would print the exporters' warnings; an application that has one still gets them.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())

PATIENCE = 2.0
"""Seconds a session that closes waits for what is left to be sent."""

BACKLOG = 4096
"""Events that may wait to be projected; a projection takes less time than what it tells of, so few ever do."""


class Telemetry:
    """Listens to a session's events and exports what they come to. No method raises, whatever the endpoint does.

    Without an exporter for spans, or for metrics, there are none of them.
    """

    def __init__(
        self,
        spans: SpanExporter | None,
        metrics: metering.MetricExporter | None,
        provider: str,
        *,
        content: bool = False,
        secrets: tuple[Secret, ...] = (),
    ) -> None:
        self._noted: set[str] = set()
        exporters: tuple[object, ...] = (spans, metrics)
        self._careful = [one for one in exporters if isinstance(one, _Careful)]
        for exporter in self._careful:
            exporter.note_fault = self._note_fault
        run = {"service.name": AGENT, "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
        # The standard variables say over that.
        resource = Resource.create(run).merge(OTELResourceDetector().detect())
        ids = ChosenIds()
        readers = [metering.PeriodicExportingMetricReader(metrics)] if metrics is not None else []
        self._meters = MeterProvider(readers, resource, shutdown_on_exit=False)
        self._tracers = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
        if spans is not None:
            self._tracers.add_span_processor(BatchSpanProcessor(spans))
        tracer = self._tracers.get_tracer(AGENT, __version__, schema_url=names.SCHEMA_URL)
        meter = self._meters.get_meter(AGENT, __version__, schema_url=names.SCHEMA_URL)
        self._projection = Projection(tracer, ids, Instruments(meter), provider, content=content, secrets=secrets)
        self._waiting: Queue[Callable[[], None] | None] = Queue(BACKLOG)
        self._projecting = _start_thread(self._run_projection)

    def take_event(self, event: Event) -> None:
        """Take in an event as it is recorded."""
        self._enqueue(partial(self._projection.apply, event))

    def recall(self, events: Sequence[Event]) -> None:
        """Take in the events of a session that is resumed, without exporting them again."""
        self._enqueue(partial(self._projection.recall, events, time.time_ns()))

    async def close(self) -> None:
        """Send what is left, for at most PATIENCE seconds, then let go of it."""
        for exporter in self._careful:
            self._run_quietly(exporter.hurry_up)
        ends = (self._tracers.shutdown, self._meters.shutdown)
        threads = [_start_thread(partial(self._end_exporter, shutdown)) for shutdown in ends]

        def join_threads() -> bool:
            until = time.monotonic() + PATIENCE
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
            return not any(thread.is_alive() for thread in threads)

        if not await asyncio.to_thread(join_threads):
            self._note_fault("telemetry_not_exported", "no answer in time")

    def _enqueue(self, act: Callable[[], None] | None) -> None:
        try:
            self._waiting.put_nowait(act)
        except Full:
            self._note_fault("telemetry_not_projected", "too many events wait")

    def _run_projection(self) -> None:
        while (act := self._waiting.get()) is not None:
            self._run_quietly(act, "telemetry_not_projected")

    def _end_exporter(self, shutdown: Callable[[], None]) -> None:
        self._waiting.put(None)
        self._projecting.join()
        self._run_quietly(shutdown)

    def _note_fault(self, what: str, why: str) -> None:
        """Note the first failure of a sort in the diagnostics, for a dead endpoint fails every few seconds: an event
        name and the kind of failure, never any content."""
        if what not in self._noted:
            self._noted.add(what)
            # Standard error may be gone, or FOREGATE_LOG be no level.
            with suppress(Exception):
                get_diagnostics().warning(what, why=why)

    def _run_quietly(self, act: Callable[[], None], fault: str = "telemetry_not_exported") -> None:
        try:
            act()
        except Exception as error:
            self._note_fault(fault, type(error).__name__)


class PinnedConnection(requests.Session):
    """A connection to the address named and no other: no redirects, no proxies, no passwords from `.netrc`.

    `down` tells whether the last attempt found nobody. Once it is `closing`, a failed attempt is not made again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env, self.max_redirects = False, 0
        self.down = self.closing = False

    def send(self, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        try:
            response = super().send(request, **how)
        except requests.ConnectionError as error:
            self.down = True
            if self.closing:
                # The one sort that is not retried.
                raise requests.RequestException(type(error).__name__) from None
            raise
        self.down = False
        return response


class _Careful:
    """What both exporters share: their line, and where their failures are noted."""

    shutdown: Callable[..., None]
    note_fault: Callable[[str, str], None]

    def __init__(self, address: str) -> None:
        self.line = PinnedConnection()
        super().__init__(address, session=self.line)  # type: ignore[call-arg]

    def hurry_up(self) -> None:
        """Make ready for the end: what is left is tried once, or not at all where nobody was there a moment ago."""
        self.line.closing = True
        if self.line.down:
            self.shutdown()


class _Spans(_Careful, OTLPSpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if (result := super().export(spans)) is not SpanExportResult.SUCCESS:
            self.note_fault("telemetry_not_exported", "spans")
        return result


class _Metrics(_Careful, OTLPMetricExporter):
    def export(self, metrics_data: metering.MetricsData, *how: Any, **more: Any) -> metering.MetricExportResult:
        if (result := super().export(metrics_data, *how, **more)) is not metering.MetricExportResult.SUCCESS:
            self.note_fault("telemetry_not_exported", "metrics")
        return result


def build_telemetry(
    traces: str, metrics: str, provider: str, *, content: bool = False, secrets: tuple[Secret, ...] = ()
) -> Telemetry:
    """Return the telemetry that exports over HTTP to these addresses ("" for none), `secrets` masked."""
    spans, measures = _Spans(traces) if traces else None, _Metrics(metrics) if metrics else None
    return Telemetry(spans, measures, provider, content=content, secrets=secrets)


def _start_thread(act: Callable[[], None]) -> Thread:
    """Return a thread that does `act`, and that no process waits for at its end."""
    thread = Thread(target=act, name="foregate-telemetry", daemon=True)
    thread.start()
    return thread
