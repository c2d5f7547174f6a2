"""A controller under a series of loads; what it orders is in force, and ready, at the next tick."""

import json
from collections.abc import Callable, Sequence

from gatepilot.agents.policy import Controller, Remembering
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


def sizes_resumed(
    make: Callable[[], Controller],
    loads: Sequence[float | None],
    start: int,
    ready: Sequence[float | None],
    share: float,
) -> list[int]:
    """The sizes of `sizes_under`, the controller written down and replaced on the way.

    Args:
        make: Makes a fresh controller.
        loads: Outstanding requests at each tick; `None`: not known.
        start: Replicas at the start.
        ready: Ready replicas at each tick.
        share: Where on the way, 0-1.
    """
    half = round(share * len(loads))
    first, second = make(), make()
    before = sizes_under(first, loads[:half], start, ready[:half])
    assert isinstance(first, Remembering)
    assert isinstance(second, Remembering)
    second.restore(json.loads(json.dumps(first.saved())))
    last = before[-1] if before else start
    return before + sizes_under(second, loads[half:], last, ready[half:])
