"""Every quantity a snapshot can hold: name, unit, range, scale and where it is read live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.float64]
"""Snapshots as an array `(..., F)`, one column a field in the order of `FIELDS`; NaN: missing."""


@dataclass(frozen=True, slots=True)
class Field:
    """One quantity of the contract."""

    name: str
    """Attribute of `MetricsSnapshot` and column name; the unit is its suffix where it has one."""
    unit: str
    """Unit of the raw value."""
    low: float
    """Smallest value that can occur."""
    high: float
    """Value that scales to 1; larger ones are clipped to it in observations, not in snapshots."""
    scale: Literal["linear", "log"]
    """How a raw value becomes an observation entry in [0, 1]."""
    pivot: float
    """For `log`: the value up to which the scale is nearly linear. 1 for `linear`."""
    nullable: bool
    """Whether it can be missing. What the gateway itself was told to do is always known."""
    meaning: str
    """One line for the docs."""
    live_source: str
    """Where a live bridge reads it."""

    def __post_init__(self) -> None:
        """Refuses a range or a pivot that would divide by zero."""
        if not self.low < self.high or self.pivot <= 0:
            msg = f"field {self.name}: low {self.low}, high {self.high}, pivot {self.pivot}"
            raise ValueError(msg)


def _linear(
    name: str, unit: str, high: float, meaning: str, live_source: str, *, nullable: bool = True
) -> Field:
    return Field(name, unit, 0.0, high, "linear", 1.0, nullable, meaning, live_source)


def _log(name: str, unit: str, high: float, pivot: float, meaning: str, live_source: str) -> Field:
    return Field(name, unit, 0.0, high, "log", pivot, True, meaning, live_source)


FIELDS: Final[tuple[Field, ...]] = (
    _linear("cpu_utilization", "0-1", 1.0, "busy CPU share, mean over ready replicas", "cAdvisor"),
    _log("ttft_p95_s", "s", 60.0, 0.2, "P95 of time to first token at the gateway", "vLLM"),
    _log("error_rate", "0-1", 1.0, 0.01, "failed share of answers: 5xx, timeout, shed", "Envoy"),
    _linear(
        "replicas_requested", "count", 32.0, "replicas asked for", "Kubernetes", nullable=False
    ),
    _linear("replicas_ready", "count", 32.0, "replicas that take requests", "Kubernetes"),
    _linear("replicas_starting", "count", 32.0, "replicas in cold start", "Kubernetes"),
    _linear("replicas_draining", "count", 32.0, "replicas finishing before removal", "Kubernetes"),
    _linear("vram_utilization", "0-1", 1.0, "(weights + KV cache in use) / VRAM", "vLLM, NVML"),
    _linear("breaker_threshold", "0-1", 1.0, "breaker's failure share", "bridge", nullable=False),
    _linear("replicas_ejected", "count", 32.0, "replicas the breaker holds out", "Envoy"),
    _linear("replica_error_spread", "0-1", 1.0, "highest minus median failure share", "Envoy"),
    _log("request_rate_rps", "1/s", 1000.0, 10.0, "arrivals at the gateway", "Envoy"),
    _log(
        "prompt_token_rate_tps",
        "1/s",
        1e6,
        1e4,
        "tokens of prompts whose prefill has ended, cached ones too",
        "vLLM",
    ),
    _log("output_token_rate_tps", "1/s", 1e6, 1e3, "output tokens generated", "vLLM"),
    _log("prompt_tokens_p50", "tokens", 131_072.0, 100.0, "median prompt of finished ones", "vLLM"),
    _log("prompt_tokens_p95", "tokens", 131_072.0, 100.0, "P95 prompt of finished ones", "vLLM"),
    _log("running", "count", 4096.0, 16.0, "requests in a batch, all replicas", "vLLM"),
    _log("waiting", "count", 4096.0, 4.0, "requests waiting for a batch, all replicas", "vLLM"),
    _linear("kv_usage", "0-1", 1.0, "KV-cache blocks in use, mean over ready replicas", "vLLM"),
    _log("e2e_p95_s", "s", 600.0, 1.0, "P95 of end-to-end latency", "vLLM"),
    _log("samples", "count", 1e5, 20.0, "first tokens in the window", "vLLM"),
    _linear("time_of_day", "0-1", 1.0, "share of the local day that has passed", "clock"),
)
"""The fields in their fixed order: adding, removing or reordering one changes every fingerprint."""

FIELD_INDEX: Final[dict[str, int]] = {field.name: i for i, field in enumerate(FIELDS)}
"""Column of each field."""

_LOWS = np.array([f.low for f in FIELDS])
_HIGHS = np.array([f.high for f in FIELDS])
_PIVOTS = np.array([f.pivot for f in FIELDS])
_IS_LOG = np.array([f.scale == "log" for f in FIELDS])
_LOG_SPANS = np.log1p((_HIGHS - _LOWS) / _PIVOTS)


def scale_rows(rows: Rows) -> Rows:
    """Scales raw values `(..., F)` to [0, 1]: beyond a field's range clipped; NaN stays NaN."""
    above = np.clip(rows, _LOWS, _HIGHS) - _LOWS
    scaled: Rows = np.where(
        _IS_LOG, np.log1p(above / _PIVOTS) / _LOG_SPANS, above / (_HIGHS - _LOWS)
    )
    return scaled
