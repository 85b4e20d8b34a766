"""Whether OpenTelemetry is switched on.

Nothing of OpenTelemetry is imported unless an endpoint is configured. Where it is configured and cannot be had, the
session opens all the same, with a sentence that says so: an export is never worth a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from foregate.telemetry.log.masking import Secret
from foregate.telemetry.otel.environment import read_environment

if TYPE_CHECKING:
    from foregate.telemetry.otel.exporting import Telemetry

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
    if not want.is_wanted:
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
