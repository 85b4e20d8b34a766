"""An OTLP receiver on loopback: real HTTP, real protobuf. It may refuse, redirect, or hang until it is let go."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True)
class Told:
    """A span event as it arrived."""

    name: str
    about: dict[str, Any]


@dataclass(frozen=True)
class Arrived:
    """A span as it arrived; ids are hexadecimal, `links` (trace, span) pairs, `failed` whether its status is an error.

    Times are nanoseconds since 1970.
    """

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    about: dict[str, Any]
    told: list[Told]
    links: list[tuple[str, str]]
    failed: bool


@dataclass
class Receiver:
    """Answers each request with `status`; with `hangs`, only once `let_go` is set. `bodies` keeps what was sent."""

    status: int = 200
    hangs: bool = False
    location: str = ""
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    answered: int = 0

    def __post_init__(self) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A client that has gone away is part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: BaseHTTPRequestHandler) -> None:
        """Keep what was sent, and answer."""
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.bodies.append((request.path, body))
        self.asked.set()
        if self.hangs:
            self.let_go.wait()
        self.answered += 1
        request.send_response(self.status)
        if self.location:
            request.send_header("Location", self.location)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def spans(self) -> list[Arrived]:
        """What arrived as spans, by their beginnings; of those that begin together the longest first."""
        found = []
        for path, body in self.bodies:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    found += [arrived(span) for scope in resource.scope_spans for span in scope.spans]
        return sorted(found, key=lambda span: (span.start, -span.end))

    @property
    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """What arrived as metrics: attributes and value, or (count, sum) of a histogram, by name."""
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for path, body in self.bodies:
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for metric in [metric for scope in resource.scope_metrics for metric in scope.metrics]:
                        points = [(about(p.attributes), p.as_int) for p in metric.sum.data_points]
                        points += [(about(p.attributes), (p.count, p.sum)) for p in metric.histogram.data_points]
                        found.setdefault(metric.name, []).extend(points)
        return found


def arrived(span: Any) -> Arrived:
    """Return a span of the wire."""
    return Arrived(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        about=about(span.attributes),
        told=[Told(event.name, about(event.attributes)) for event in span.events],
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        failed=span.status.code == 2,
    )


def about(pairs: Any) -> dict[str, Any]:
    """Return attributes of the wire."""
    return {pair.key: plain(pair.value) for pair in pairs}


def plain(value: AnyValue) -> Any:
    """Return a value of the wire."""
    which = value.WhichOneof("value")
    if which == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, str(which))
