"""Fixtures: telemetry over a real exporter and a real receiver, and a world whose sessions it hears."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from foregate.telemetry.log.masking import Secret
from foregate.telemetry.otel import exporting
from foregate.telemetry.otel.exporting import Telemetry, build_telemetry
from tests.telemetry.otel.receiver import Receiver

Receive = Callable[..., Receiver]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits as long as a slow machine needs; what has to be sent is sent."""
    monkeypatch.setattr(exporting, "PATIENCE", 60)


@pytest.fixture
def receive() -> Iterator[Receive]:
    """Starts receivers; all are let go and stopped at the end."""
    with ExitStack() as open_ones:
        yield lambda **how: open_ones.enter_context(Receiver(**how))


@pytest.fixture
def receiver(receive: Receive) -> Receiver:
    """A receiver that takes everything."""
    return receive()


@pytest.fixture
def telemetry(receiver: Receiver) -> Telemetry:
    """Telemetry without content, to `receiver`; a test closes it before it looks."""
    return to(receiver)


def to(receiver: Receiver, secrets: tuple[Secret, ...] = (), **more: Any) -> Telemetry:
    """Return telemetry that exports to a receiver."""
    return build_telemetry(f"{receiver.url}/v1/traces", f"{receiver.url}/v1/metrics", "custom", secrets=secrets, **more)
