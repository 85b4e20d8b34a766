"""Whether OpenTelemetry is switched on.

Nothing of OpenTelemetry is imported unless an endpoint is configured. Where it is configured and cannot be had, the
session opens all the same, with a sentence that says so: an export is never worth a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from foregate.telemetry.log.masking import Secret

if TYPE_CHECKING:
    from foregate.telemetry.otel.exporting import Telemetry


CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class TelemetryOptions(Struct, frozen=True):
    """What is to be exported: the address for traces and the one for metrics ("" for neither), and whether content is.

    `refused` says in one sentence why something that was asked for is not done, "" when all is.
    """

    traces: str = ""
    metrics: str = ""
    content: bool = False
    refused: str = ""


def read_environment(environ: Mapping[str, str]) -> TelemetryOptions:
    """Return what the environment asks for."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return TelemetryOptions()
    content = environ.get(CONTENT, "").strip().lower() in ("true", "span_only", "span_and_event")
    try:
        return TelemetryOptions(_read_address(environ, "TRACES"), _read_address(environ, "METRICS"), content)
    except ValueError as error:
        return TelemetryOptions(refused=str(error))


def filter_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of OpenTelemetry among those of `environ`."""
    return {name: value for name, value in environ.items() if name.startswith("OTEL_")}


def _read_address(environ: Mapping[str, str], signal: str) -> str:
    """Return where `signal` goes, "" for nowhere. Raises ValueError, one sentence, for what cannot be done."""
    if environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return ""
    own = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    name = own if environ.get(own, "").strip() else "OTEL_EXPORTER_OTLP_ENDPOINT"
    url = environ.get(name, "").strip()
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise ValueError(f"{name} is not http(s)://host[:port]/path, so nothing is exported; correct or unset it")
    common = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", common).strip().lower()
    if protocol not in ("", "http/protobuf"):
        raise ValueError("OTEL_EXPORTER_OTLP_PROTOCOL is not `http/protobuf`, the one spoken, so nothing is exported")
    return url if name == own else f"{url.rstrip('/')}/v1/{signal.lower()}"


MISSING = (
    "an OTLP endpoint is configured, but the OpenTelemetry libraries are not installed, so nothing is exported; "
    "install `foregate[otel]`, or unset OTEL_EXPORTER_OTLP_ENDPOINT"
)


def open_telemetry(
    environ: Mapping[str, str], provider: str, secrets: tuple[Secret, ...] = ()
) -> tuple[Telemetry | None, tuple[str, ...]]:
    """Return what listens to a session's events and exports them, None when nothing is to be exported.

    Beside it stand sentences a person should read. `provider` names whose kind of endpoint the model is; `secrets` are
    masked in what is exported. The exporter reads its further variables (headers, certificates, timeouts, batching,
    sampling) from the process's environment.
    """
    want = read_environment(environ)
    if not (want.traces or want.metrics):
        return None, (want.refused,) if want.refused else ()
    try:
        from foregate.telemetry.otel.exporting import build_telemetry
    except ModuleNotFoundError:
        return None, (MISSING,)
    try:
        return build_telemetry(want.traces, want.metrics, provider, content=want.content, secrets=secrets), ()
    except Exception as error:
        why = type(error).__name__
        return None, (f"OpenTelemetry cannot be set up ({why}), so nothing is exported; check the OTEL_* variables",)
