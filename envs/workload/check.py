"""Is a workload model like its trace? Burstiness and lengths over many seeds, with a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Burstiness, local_dispersions
from .lengths import rank_correlation
from .model import WorkloadModel
from .request import Requests
from .statistics import QUANTILES, WINDOWS_S, quantile_name

DISPERSION_LIMIT: Final = 0.15
"""How far the mean local dispersion of the samples may be off, unless the trace's own interval
holds it."""
LENGTH_LIMIT: Final = 0.05
"""How far a quantile of the lengths may be off."""
SEEDS: Final = 20
"""Samples that are drawn."""

_COLUMNS: Final = ("prompt_tokens", "output_tokens")


@dataclass(frozen=True)
class DispersionCheck:
    """Local dispersion in windows of one length."""

    window_s: float
    """Length of the windows."""
    trace: float
    """Of the trace."""
    interval: tuple[float, float]
    """What it could have been: block bootstrap of the trace's windows, 95 %; up to infinity where
    hardly anything arrives."""
    model: float
    """Mean over the samples."""
    passed: bool
    """Whether the model is near enough, or within the interval."""

    @property
    def ratio(self) -> float | None:
        """Model over trace; None: the trace's is 0, as that of evenly spaced arrivals."""
        return self.model / self.trace if self.trace > 0 else None


@dataclass(frozen=True)
class LengthCheck:
    """One quantile of the lengths."""

    column: str
    """prompt_tokens or output_tokens."""
    quantile: str
    """Its name, e.g. p95."""
    trace: float
    """Of the trace."""
    model: float
    """Of all samples together: a sample's own quantile is off on average where they are few."""
    passed: bool
    """Whether the model is near enough."""

    @property
    def error_fraction(self) -> float:
        """Relative deviation of the model."""
        return self.model / self.trace - 1


@dataclass(frozen=True)
class ModelCheck:
    """A model against the trace it was fitted to."""

    model: str
    """Its name."""
    seeds: int
    """Samples that were drawn."""
    trace_rate_rps: float
    """Mean rate of the trace."""
    model_rate_rps: float
    """Mean rate over the samples."""
    trace_rank_correlation: float
    """Spearman's, of prompt and output lengths."""
    model_rank_correlation: float
    """The same, mean over the samples."""
    dispersions: tuple[DispersionCheck, ...]
    """By window."""
    lengths: tuple[LengthCheck, ...]
    """By column and quantile."""

    @property
    def passed(self) -> bool:
        """Whether everything that has a limit keeps it."""
        kept = [part.passed for part in self.dispersions]
        return all(kept + [part.passed for part in self.lengths])

    @property
    def worst_length(self) -> LengthCheck:
        """The quantile that is furthest off."""
        return max(self.lengths, key=lambda part: abs(part.error_fraction))

    def as_dict(self) -> dict[str, Any]:
        """Plain content for JSON, ratios and verdict included; None: no upper end, no ratio."""
        content = asdict(self)
        for part, each in zip(content["dispersions"], self.dispersions, strict=True):
            low, high = each.interval
            part["interval"] = [low, high if math.isfinite(high) else None]
            part["ratio"] = each.ratio
        for part, length in zip(content["lengths"], self.lengths, strict=True):
            part["error_fraction"] = length.error_fraction
        return content | {"passed": self.passed}


def check_model(
    model: WorkloadModel,
    requests: Requests,
    *,
    seeds: int = SEEDS,
    progress: Callable[[int], None] | None = None,
) -> ModelCheck:
    """Draws samples of a model's whole span and compares them with the requests it was fitted to.

    Args:
        model: The model.
        requests: What it was fitted to; their span is taken to be the model's.
        seeds: Samples to draw, with seeds from 0.
        progress: Called after each sample with the number drawn so far.

    Raises:
        ValueError: The requests do not fit into the model's span, or `seeds` is below 1.
    """
    if seeds < 1:
        raise ValueError(f"seeds: {seeds} is not at least 1")
    requests = replace(requests, span_s=model.span_s)
    wanted = Burstiness.of(requests.arrival_s, requests.span_s, WINDOWS_S)
    dispersion = np.zeros((seeds, len(wanted.windows_s)))
    lengths: dict[str, list[NDArray[np.int32]]] = {name: [] for name in _COLUMNS}
    rates, correlations = np.zeros(seeds), np.zeros(seeds)
    for seed in range(seeds):
        drawn = model.sample(0.0, model.span_s, seed)
        dispersion[seed] = local_dispersions(drawn.arrival_s, drawn.span_s, wanted.windows_s)
        for name, tables in lengths.items():
            tables.append(getattr(drawn, name))
        correlations[seed] = rank_correlation(drawn.prompt_tokens, drawn.output_tokens)
        rates[seed] = drawn.mean_rate_rps
        if progress is not None:
            progress(seed + 1)
    return ModelCheck(
        model.facts.name,
        seeds,
        requests.mean_rate_rps,
        float(rates.mean()),
        rank_correlation(requests.prompt_tokens, requests.output_tokens),
        float(correlations.mean()),
        _dispersion_checks(wanted, dispersion.mean(axis=0)),
        tuple(
            check
            for name, tables in lengths.items()
            for check in _length_checks(name, getattr(requests, name), np.concatenate(tables))
        ),
    )


def _dispersion_checks(
    wanted: Burstiness, means: NDArray[np.float64]
) -> tuple[DispersionCheck, ...]:
    passed = wanted.near(means, DISPERSION_LIMIT)
    return tuple(
        DispersionCheck(
            window_s,
            float(wanted.values[i]),
            (float(wanted.low[i]), float(wanted.high[i])),
            float(means[i]),
            bool(passed[i]),
        )
        for i, window_s in enumerate(wanted.windows_s)
    )


def _length_checks(
    name: str, wanted: NDArray[np.int32], drawn: NDArray[np.int32]
) -> list[LengthCheck]:
    checks = []
    for probability in QUANTILES:
        trace, model = (float(np.quantile(tokens, probability)) for tokens in (wanted, drawn))
        passed = abs(model / trace - 1) <= LENGTH_LIMIT
        checks.append(LengthCheck(name, quantile_name(probability), trace, model, passed))
    return checks
