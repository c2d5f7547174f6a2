"""One question to a scripted Prometheus, with short times."""

from __future__ import annotations

import time
from collections.abc import Callable

from gatepilot.deploy_bridge.metrics.client import PrometheusParams
from gatepilot.deploy_bridge.metrics.prometheus import PrometheusSource
from gatepilot.deploy_bridge.metrics.query import Query
from gatepilot.deploy_bridge.metrics.source import Reading

from .peers import Reply, said, vector

NOW = 1_700_000_000.0
# What has not come by then would not have come: far above every deadline, so that a busy machine
# fails no test.
NEVER_S = 10.0
GOOD = {"up{}": "1", "age{}": "3.5", "rate{}": "20", "errors{}": "0.02"}


def params(url: str, read_timeout_s: float = 0.4) -> PrometheusParams:
    return PrometheusParams(
        url=url, connect_timeout_s=0.5, read_timeout_s=read_timeout_s, deadline_s=0.8
    )


def good(changes: dict[str, object] | None = None) -> Callable[[str, float | None], Reply]:
    """All well, but for some queries: a value, or the whole reply."""
    values = {**GOOD, **(changes or {})}

    def answer(query: str, at_s: float | None) -> Reply:
        value = values[query]
        if isinstance(value, tuple):
            return value
        return said(vector(value, at_s=NOW if at_s is None else at_s))

    return answer


def read(
    url: str, queries: tuple[Query, ...], read_timeout_s: float = 0.4
) -> tuple[Reading, float]:
    """A reading and the seconds it took."""
    source = PrometheusSource(params(url, read_timeout_s), queries)
    begun = time.monotonic()
    reading = source.read(NOW)
    took_s = time.monotonic() - begun
    source.close()
    return reading, took_s


def kinds(reading: Reading) -> list[tuple[str, str]]:
    return [(problem.kind, problem.what) for problem in reading.problems]
