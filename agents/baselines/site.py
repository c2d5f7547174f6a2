"""What an operator knows of a cluster before its first request: the facts a controller may use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from ...envs.profiles.step import StepModel
from ...envs.schema.settings import Limits
from ...reward.slo import Slo


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica, as its serving profile and its engine's settings tell."""

    step: StepModel
    """How long an iteration of the engine lasts."""
    cold_start_s: float
    """From the order of a replica until it takes requests, seconds."""
    max_num_seqs: int = 128
    """Sequences it holds at once, prefilling ones included."""
    chunk_tokens: int = 512
    """Token budget of an iteration (chunked prefill)."""
    kv_capacity_tokens: int | None = None
    """Tokens its KV cache holds; `None`: not known."""

    def __post_init__(self) -> None:
        """Refuses a replica that could not serve.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not (math.isfinite(self.cold_start_s) and self.cold_start_s >= 0):
            raise ValueError(f"cold_start_s is {self.cold_start_s}, expected 0 or more seconds")
        for name in ("max_num_seqs", "chunk_tokens", "kv_capacity_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, expected 1 or more")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a controller works."""

    limits: Limits
    """How many replicas the cluster may have."""
    tick_s: float = 15.0
    """Seconds between two calls of `decide`."""
    window_s: float = 60.0
    """Window over which the snapshot's rates, shares and quantiles are taken, seconds."""
    slo: Slo = Slo()  # noqa: RUF009  # frozen
    """What was promised to users."""
    replica: ReplicaSpec | None = None
    """What one replica can do; `None`: not known, and controllers that need it refuse."""

    def __post_init__(self) -> None:
        """Refuses a site without time.

        Raises:
            ValueError: `tick_s` or `window_s` is not above 0.
        """
        for name in ("tick_s", "window_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")

    def known_replica(self, controller: str) -> ReplicaSpec:
        """What one replica can do, for a controller that cannot do without.

        Args:
            controller: Who asks, for the error.

        Raises:
            SiteError: It is not known.
        """
        if self.replica is None:
            msg = (
                f"{controller} needs to know what a replica can do: name its serving profile "
                "and its engine's settings (`replica`)"
            )
            raise SiteError(msg)
        return self.replica


class SiteError(ValueError):
    """A controller that needs more than is known of the site: one line."""


class Suggest(Protocol):
    """Where a tuning search gets its next values from; Optuna's `Trial` is one."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A number in [low, high]."""
        ...

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """A whole number in [low, high]."""
        ...

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:  # noqa: ANN401
        """One of the choices: numbers, strings or booleans."""
        ...
