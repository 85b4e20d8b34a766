"""Readings that leave Foregate: spans and metrics, trajectories in each format, and reading those back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from foregate.schemas import strict_json
from foregate.schemas.event import Event
from foregate.schemas.turn import export_turn
from foregate.telemetry.export.export import Export, ExportOptions, SessionFamily
from foregate.telemetry.export.restore import parse_document as read_document
from foregate.telemetry.export.restore import restore_sessions
from foregate.telemetry.otel.projection import Projection
from foregate.telemetry.otel.views import ChosenIds, Instruments
from tests.corpus.log import Log, lines, turns_of


def project_spans(log: Log) -> str:
    """The spans and metrics of OpenTelemetry, with content."""
    return lines(spans_of(log, True))


def project_bare_spans(log: Log) -> str:
    """The spans and metrics of OpenTelemetry without content."""
    return lines(spans_of(log, False))


@cache
def export_atif(log: Log) -> str:
    """The sessions as ATIF documents, checked by the published models."""
    return export(log, ExportOptions("atif", check=True))


def export_bare_atif(log: Log) -> str:
    """The sessions as ATIF documents without content."""
    return export(log, ExportOptions("atif", content=False))


def export_sao(log: Log) -> str:
    """The sessions as rows of state, action and outcome."""
    return export(log, ExportOptions("sao"))


def export_bare_sao(log: Log) -> str:
    """The sessions as rows of state, action and outcome without content."""
    return export(log, ExportOptions("sao", content=False))


def export_openai(log: Log) -> str:
    """The sessions as conversations to train on."""
    return export(log, ExportOptions("openai"))


def export_pairs(log: Log) -> str:
    """The sessions as preference pairs."""
    return export(log, ExportOptions("openai", pairs=True))


def export_masked(log: Log) -> str:
    """The sessions as ATIF documents in which a pattern of the exporter's own is masked."""
    return export(log, ExportOptions("atif", patterns=("[a-z]{3}\\.txt",)))


def import_atif(log: Log) -> str:
    """Whether what was exported reads back as what was recorded, and whether its turns are the same."""
    documents = export_atif(log).splitlines()
    known = {(turn.turn.task, turn.seq, strict_json.digest(export_turn(turn.turn))) for turn in turns_of(log)}
    found = []
    for document in documents:
        for session in restore_sessions(read_document(document)) if document.startswith('{"agent') else ():
            turns = [(t.turn.task, t.seq, strict_json.digest(export_turn(t.turn))) for t in session.read_turns()]
            same = {"turns": len(turns), "same turns": known.issuperset(turns)}
            where = {"session": session.session, "events": len(session.events)}
            found.append(where | same | {"whole": session.whole, "altered": list(session.altered)})
    return lines(found)


def export(log: Log, wanted: ExportOptions) -> str:
    """Return the lines of an export, and what was said of it in the end."""
    task = Export(log, log.blobs, wanted)
    found = lines(task.export_family(SessionFamily(log.sessions[::-1])))
    tally = task.tally
    told = {name: getattr(tally, name) for name in ("sessions", "children", "responses", "held", "pairs", "lines")}
    return found + lines([told | {"masked": tally.masked, "skipped": tally.skipped}])


def spans_of(log: Log, content: bool) -> Iterator[Any]:
    """Yield spans and metrics as JSON, in the order of their ends and their names."""
    exporter, reader, ids = InMemorySpanExporter(), InMemoryMetricReader(), ChosenIds()
    tracers = TracerProvider(id_generator=ids, shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    projection = Projection(tracers.get_tracer("t"), ids, Instruments(meters.get_meter("t")), "custom", content=content)
    for event in ordered_by_time(log):
        projection.apply(event)
    for span in exporter.get_finished_spans():
        told = json.loads(span.to_json(indent=None))
        del told["resource"]
        yield told
    metrics = json.loads(data.to_json()) if (data := reader.get_metrics_data()) is not None else {}
    for resource in metrics.get("resource_metrics", ()):
        for scope in resource["scope_metrics"]:
            for metric in sorted(scope["metrics"], key=lambda metric: str(metric["name"])):
                points = [
                    {key: value for key, value in point.items() if "time_unix_nano" not in key}
                    for point in metric["data"]["data_points"]
                ]
                points.sort(key=lambda point: json.dumps(point, sort_keys=True))
                yield {"metric": metric["name"], "unit": metric["unit"], "points": points}
    tracers.shutdown()
    meters.shutdown()


def ordered_by_time(log: Log) -> list[Event]:
    """Return the events of all sessions as they were recorded: a child's between those of its parent."""
    places = {session: place for place, session in enumerate(log.sessions)}
    events = [event for session in log.sessions for event in log.events(session)]
    return sorted(events, key=lambda event: (event.time, places[event.session], event.seq))
