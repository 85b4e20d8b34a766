"""Diagnostics: silent unless asked for, and one clear sentence for a wrong level."""

from __future__ import annotations

import json

import pytest

from foregate.schemas.errors import UsageError
from foregate.telemetry import diagnostics as module
from foregate.telemetry.diagnostics import SilentDiagnostics, get_diagnostics


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forget loggers bound to another test's standard error."""
    module._for_level.cache_clear()


def test_without_a_level_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FOREGATE_LOG", raising=False)
    get_diagnostics().exception("anything")
    assert isinstance(get_diagnostics(), SilentDiagnostics)
    assert capsys.readouterr().err == ""


def test_lines_from_the_level_on_are_json_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOREGATE_LOG", "info")
    get_diagnostics().debug("too quiet")
    get_diagnostics().info("model_request_retried", attempt=1)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line).items() >= {"event": "model_request_retried", "attempt": 1, "level": "info"}.items()


def test_a_level_there_is_none_of_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREGATE_LOG", "loud")
    with pytest.raises(UsageError, match="debug, info, warning, error"):
        get_diagnostics()
