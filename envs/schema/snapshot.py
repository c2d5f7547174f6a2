"""One measured moment of a gateway and its replicas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from .fields import FIELDS, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """What is known of the cluster at one tick. `None` means "not known", never 0.

    Units, ranges and live sources stand in `envs.schema.fields.FIELDS`; latencies, rates and shares
    are taken over the telemetry window (60 s by default).
    """

    replicas_requested: float
    breaker_threshold: float
    cpu_utilization: float | None = None
    ttft_p95_s: float | None = None
    error_rate: float | None = None
    replicas_ready: float | None = None
    replicas_starting: float | None = None
    replicas_draining: float | None = None
    vram_utilization: float | None = None
    replicas_ejected: float | None = None
    replica_error_spread: float | None = None
    request_rate_rps: float | None = None
    prompt_token_rate_tps: float | None = None
    output_token_rate_tps: float | None = None
    prompt_tokens_p50: float | None = None
    prompt_tokens_p95: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    e2e_p95_s: float | None = None
    samples: float | None = None
    time_of_day: float | None = None

    def __post_init__(self) -> None:
        """Refuses what no source may report.

        Raises:
            ValueError: A value is not finite or below its field's range: it names field and value.
        """
        for field in FIELDS:
            value = getattr(self, field.name)
            if value is None:
                if field.nullable:
                    continue
                msg = f"{field.name} is missing, but it is always known"
                raise ValueError(msg)
            if not math.isfinite(value) or value < field.low:
                msg = f"{field.name} is {value}, expected a number of at least {field.low}"
                raise ValueError(msg)

    def to_row(self) -> Rows:
        """The values in the order of `FIELDS`, shape `(F,)`, NaN where missing."""
        return np.array(
            [math.nan if (v := getattr(self, f.name)) is None else v for f in FIELDS], np.float64
        )

    @classmethod
    def from_row(cls, row: Rows) -> Self:
        """The inverse of `to_row`.

        Raises:
            ValueError: The row has another shape than `(F,)`, or a value no source may report.
        """
        if row.shape != (len(FIELDS),):
            msg = f"a snapshot row has shape ({len(FIELDS)},), got {row.shape}"
            raise ValueError(msg)
        values = {
            field.name: None if math.isnan(value) else float(value)
            for field, value in zip(FIELDS, row, strict=True)
        }
        return cls(**values)  # type: ignore[arg-type]  # a missing required one is refused above
