"""How long an endpoint asks to be left alone, wherever it says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from foregate.agent.models.openai.refusal import EndpointRefusal, read_refusal
from foregate.agent.models.openai.retries import read_wait

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EPOCH = int(NOW.timestamp())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "7s"}, 7.0),
        ({"retry-after": "Tue, 01 Jan 2030 00:01:00 GMT"}, 60.0),
        ({"retry-after": "Mon, 31 Dec 2029 00:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Tue, 01 Jan 2030 00:01:00"}, None),
        ({"retry-after": "Tue, 99 Jan 2030 00:01:00 GMT"}, None),
        ({"x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "82ms"}, 0.082),
        ({"x-ratelimit-reset-requests": "17"}, 17.0),
        ({"x-ratelimit-reset": f"{EPOCH + 5}"}, 5.0),
        ({"x-ratelimit-reset": f"{EPOCH * 1000 + 2500}"}, 2.5),
        ({"ratelimit-reset": "3"}, 3.0),
        ({"anthropic-ratelimit-requests-reset": "2030-01-01T00:00:09Z"}, 9.0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "8s"}, 1.0),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "5",
                "x-ratelimit-reset-tokens": "8s",
                "x-ratelimit-remaining-tokens": "0",
            },
            8.0,
        ),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "8s",
                "x-ratelimit-remaining-tokens": "0",
            },
            8.0,
        ),
        ({}, None),
    ],
)
def test_a_wait_named_in_a_header_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert read_wait(headers, EndpointRefusal(429), NOW) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": {"message": "Rate limit reached. Please try again in 20s."}}, 20.0),
        ({"error": {"message": "Please try again in 1m2.5s. Visit us"}}, 62.5),
        ({"error": {"message": "Limit 1, Used 1. Please try again in 450ms."}}, 0.45),
        ({"error": {"message": "Please retry after 26 seconds."}}, 26.0),
        ({"error": {"message": "try again in 1 minute and 5 seconds"}}, 65.0),
        ([{"error": {"code": 429, "details": [{"@type": "x.RetryInfo", "retryDelay": "7s"}]}}], 7.0),
        ({"error": {"message": "slow", "retry_after": 3}}, 3.0),
        ({"error": {"message": "no", "metadata": {"headers": {"X-RateLimit-Reset": f"{EPOCH * 1000 + 4000}"}}}}, 4.0),
        ({"error": {"message": "try again in 5 of our cities"}}, None),
        ({"error": {"message": "try again later"}}, None),
    ],
)
def test_a_wait_named_in_a_body_is_read(body: Any, seconds: float | None) -> None:
    assert read_wait({}, read_refusal(429, body), NOW) == seconds


def test_limits_that_will_be_lifted_are_no_wait_for_a_failure_of_another_kind() -> None:
    assert read_wait({"x-ratelimit-reset-tokens": "6m0s"}, EndpointRefusal(500), NOW) is None
    assert read_wait({"retry-after": "2"}, EndpointRefusal(500), NOW) == 2.0
