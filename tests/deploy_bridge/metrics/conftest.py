"""The small catalogue that the tests against scripted servers ask."""

from __future__ import annotations

import math

import pytest

from gatepilot.deploy_bridge.metrics.query import Query, field_query, freshness_query


@pytest.fixture
def queries() -> tuple[Query, ...]:
    return (
        freshness_query("gateway_up", "up{}", 1, 1, "the gateway was scraped"),
        freshness_query("gateway_age_s", "age{}", -11, 11, "age of the newest sample"),
        field_query("request_rate_rps", "rate{}"),
        field_query("error_rate", "errors{}"),
    )


@pytest.fixture
def latency() -> Query:
    """A query with an open end and no weight."""
    return Query("ttft_p95_s", "ttft{}", "field", 0.0, math.inf, False, "P95")
