"""The load that autoscalers of concurrency look at."""

from __future__ import annotations

from ...envs.schema.snapshot import MetricsSnapshot


def outstanding_requests(snapshot: MetricsSnapshot) -> float | None:
    """Requests in flight over all replicas: running plus waiting; `None` if either is unknown."""
    if snapshot.running is None or snapshot.waiting is None:
        return None
    return snapshot.running + snapshot.waiting
