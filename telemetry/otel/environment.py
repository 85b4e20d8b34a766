"""What the standard environment variables of OpenTelemetry ask to be exported, and where to."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class TelemetryOptions(Struct, frozen=True):
    """What is to be exported: the address for traces and the one for metrics ("" for neither), and whether content is.

    `refused` says in one sentence why something that was asked for is not done, "" when all is.
    """

    traces: str = ""
    metrics: str = ""
    content: bool = False
    refused: str = ""

    @property
    def is_wanted(self) -> bool:
        """Whether there is an address to export to."""
        return bool(self.traces or self.metrics)


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
    if not _is_web_address(url):
        raise ValueError(f"{name} is not http(s)://host[:port]/path, so nothing is exported; correct or unset it")
    common = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", common).strip().lower()
    if protocol not in ("", "http/protobuf"):
        raise ValueError("OTEL_EXPORTER_OTLP_PROTOCOL is not `http/protobuf`, the one spoken, so nothing is exported")
    return url if name == own else f"{url.rstrip('/')}/v1/{signal.lower()}"


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
