"""A controller under a series of loads; what it orders is in force, and ready, at the next tick."""

from collections.abc import Sequence

from gatepilot.agents.policy import Controller
from gatepilot.envs.schema.settings import GatewaySettings
from gatepilot.envs.schema.snapshot import MetricsSnapshot


def snapshot_of(
    outstanding: float | None, requested: int, ready: float | None = None
) -> MetricsSnapshot:
    """`outstanding` requests, all running; `None`: not known."""
    return MetricsSnapshot(
        replicas_requested=requested,
        breaker_threshold=0.5,
        replicas_ready=ready,
        running=outstanding,
        waiting=0.0,
    )


def sizes_under(
    controller: Controller,
    loads: Sequence[float | None],
    start: int,
    ready: Sequence[float | None] | None = None,
) -> list[int]:
    """The size after each tick.

    Args:
        controller: A fresh one.
        loads: Outstanding requests at each tick; `None`: not known.
        start: Replicas at the start.
        ready: Ready replicas at each tick; `None`: always all that were asked for.
    """
    settings, sizes = GatewaySettings(start), []
    for i, load in enumerate(loads):
        are_ready = settings.replicas if ready is None else ready[i]
        settings = controller.decide(snapshot_of(load, settings.replicas, are_ready), settings)
        sizes.append(settings.replicas)
    return sizes
