"""Switching telemetry on: the standard variables, and what is said where it cannot be had."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.agent.models.scripted import ScriptedModel
from foregate.assembly.choices import choose_model, name_provider
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.otel.switch import (
    CONTENT,
    MISSING,
    TelemetryOptions,
    filter_variables,
    open_telemetry,
    read_environment,
)

COMMON, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
URL = "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, TelemetryOptions()),
        ({COMMON: " "}, TelemetryOptions()),
        ({COMMON: URL}, TelemetryOptions(f"{URL}/v1/traces", f"{URL}/v1/metrics")),
        ({COMMON: f"{URL}/otlp/"}, TelemetryOptions(f"{URL}/otlp/v1/traces", f"{URL}/otlp/v1/metrics")),
        ({TRACES: f"{URL}/here"}, TelemetryOptions(f"{URL}/here")),
        ({COMMON: URL, TRACES: f"{URL}/here"}, TelemetryOptions(f"{URL}/here", f"{URL}/v1/metrics")),
        ({COMMON: URL, "OTEL_METRICS_EXPORTER": "none"}, TelemetryOptions(f"{URL}/v1/traces")),
        ({COMMON: URL, "OTEL_SDK_DISABLED": "true"}, TelemetryOptions()),
        ({TRACES: URL, CONTENT: "true"}, TelemetryOptions(URL, content=True)),
        ({TRACES: URL, CONTENT: "SPAN_ONLY"}, TelemetryOptions(URL, content=True)),
        ({TRACES: URL, CONTENT: "event_only"}, TelemetryOptions(URL)),
        ({TRACES: URL, CONTENT: "yes please"}, TelemetryOptions(URL)),
        ({TRACES: URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, TelemetryOptions(URL)),
    ],
)
def test_the_environment_says_where_each_signal_goes(environ: dict[str, str], expected: TelemetryOptions) -> None:
    assert read_environment(environ) == expected


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({COMMON: "localhost:4318"}, f"{COMMON} is not http"),
        ({TRACES: "ftp://host/x"}, f"{TRACES} is not http"),
        ({COMMON: "http://user:pass@host:port"}, f"{COMMON} is not http"),
        ({COMMON: URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "not `http/protobuf`"),
        ({COMMON: URL, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"}, "not `http/protobuf`"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_and_opens_nothing(environ: dict[str, str], sentence: str) -> None:
    telemetry, (said,) = open_telemetry(environ, "custom")
    assert telemetry is None
    assert sentence in said
    assert "pass" not in said


def test_missing_libraries_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "foregate.telemetry.otel.exporting", None)
    assert open_telemetry({COMMON: URL}, "custom") == (None, (MISSING,))


async def test_settings_the_libraries_refuse_stop_no_session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    opened = await open_session(
        SessionOptions(workspace=folder, model=ScriptedModel([]), log=MemoryLog(), environ={TRACES: f"{URL}/v1/traces"})
    )
    await opened.close()
    assert opened.notes == (
        "OpenTelemetry cannot be set up (ValueError), so nothing is exported; check the OTEL_* variables",
    )


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from foregate.cli.app import main; code = main(['run', 'hello', '--model', 'rehearsal']);"
        "print(code, sorted(name for name in sys.modules if name.startswith(('opentelemetry', 'google.protobuf'))))"
    )
    home = {"FOREGATE_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=home
    )
    assert ran.stdout.splitlines()[-1].endswith(" []")


def test_the_provider_is_the_wire_that_is_spoken() -> None:
    model, _ = choose_model(SessionOptions(model="big", environ={"OPENAI_BASE_URL": f"{URL}/v1"}))
    assert name_provider(model) == "openai"
    assert name_provider(RehearsalModel()) == "foregate"
    assert name_provider(ScriptedModel([])) == "custom"


def test_only_variables_of_opentelemetry_are_passed_on() -> None:
    assert filter_variables({COMMON: URL, "OPENAI_API_KEY": "k", "PATH": "/bin"}) == {COMMON: URL}
