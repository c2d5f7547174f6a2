"""Iteration times that Dynamo's planner takes from a database of engines, and corrects.

Formula: `seconds = profiled * median(observed / profiled)`, the median over the samples in the same
cell of a grid over the features of the same kind of work (`dynamo_forward`, `dynamo_samples`), each
ratio within [0.5, 2]. The site's step model stands for upstream's database, so no interpolation
between profiled points is needed: `base + per_seq B + per_ctx S + per_prefill p (+ experts)` is the
closed form.

Regimes: the factor is 1 with fewer than 5 samples of the kind, in a cell without samples, and
outside the grid (0 to the engine's limits); samples from outside are ignored. No work takes 0 s.

Version: ai-dynamo/aiconfigurator, `aic-core/rust/aiconfigurator-core/src/fpm/correction.rs`
(6254b6be) and `options.rs` (54c227e1, the bounds); in mid 2026 the same without bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...envs.profiles.step import StepModel
from .dynamo_forward import EngineLimits, Kind, Work
from .dynamo_samples import BucketedSamples, SampleParams

Floats = NDArray[np.float64]

_FASTEST: Final = 0.5
_SLOWEST: Final = 2.0


@dataclass(slots=True)
class ProfileModel:
    """A profile, corrected by what is observed."""

    params: SampleParams
    step: StepModel
    limits: EngineLimits
    """What an engine can hold: the ends of the grids."""
    corrects: bool = True
    """Whether observations correct the profile."""
    ratios: dict[Kind, BucketedSamples] = field(init=False)
    """Observed / profiled."""

    def __post_init__(self) -> None:
        """Starts without corrections."""
        p = self.params
        self.ratios = {
            kind: BucketedSamples(
                p.per_axis(len(highest)),
                p.max_samples,
                [(0.0, float(high)) for high in highest],
                is_fixed=True,
            )
            for kind, highest in self.limits.features.items()
        }

    @property
    def is_ready(self) -> bool:
        """A profile always is."""
        return True

    def seconds(self, work: Work) -> float:
        """See `ForwardModel`."""
        features = work.features()
        if features is None:
            return 0.0
        kind, point = features
        ratios = self.ratios[kind]
        profiled_s = float(iteration_s(self.step, *work.parts))
        if ratios.total < self.params.min_observations:
            return profiled_s
        bucket = ratios.at(point)
        return profiled_s * median(ratio for _, ratio in bucket) if bucket else profiled_s

    def mixed_s(self, prefill_tokens: Floats, requests: Floats, kv_tokens: Floats) -> Floats:
        """The same for many iterations that prefill and decode; all of shape `(n,)`."""
        profiled_s = iteration_s(self.step, prefill_tokens, requests, kv_tokens)
        ratios = self.ratios["mixed"]
        if ratios.total < self.params.min_observations:
            return profiled_s
        cells = ratios.per_axis
        factors = np.ones((cells + 1, cells + 1))  # the last row and column are outside the grid
        for cell, bucket in ratios.buckets.items():
            factors[cell] = median(ratio for _, ratio in bucket)
        rows = _cells(prefill_tokens, self.limits.chunk_tokens, cells)
        columns = _cells(kv_tokens, self.limits.kv_tokens, cells)
        corrected_s: Floats = profiled_s * factors[rows, columns]
        return corrected_s

    def tune(self, work: Work, observed_s: float, copies: int) -> None:
        """See `ForwardModel`."""
        features = work.features()
        if not self.corrects or features is None or observed_s <= 0:
            return
        profiled_s = float(iteration_s(self.step, *work.parts))
        if profiled_s > 0:
            kind, point = features
            ratio = min(max(observed_s / profiled_s, _FASTEST), _SLOWEST)
            self.ratios[kind].add(point, ratio, copies)

    def saved(self) -> dict[str, Any]:
        """See `ForwardModel`."""
        return {kind: ratios.saved() for kind, ratios in self.ratios.items()}

    def restore(self, saved: dict[str, Any]) -> None:
        """See `ForwardModel`."""
        for kind, ratios in self.ratios.items():
            ratios.restore(saved[kind])


def iteration_s(
    step: StepModel,
    prefill_tokens: Floats | float,
    requests: Floats | float,
    kv_tokens: Floats | float,
) -> Floats:
    """The step model's duration of an iteration, seconds (`StepModel` has the formula)."""
    seconds: Floats = np.asarray(
        step.base_s
        + step.per_seq_s * requests
        + step.per_ctx_token_s * kv_tokens
        + step.per_prefill_token_s * prefill_tokens
    )
    if step.experts_s > 0:
        seconds = seconds + step.experts_s * (
            1.0 - (1.0 - step.expert_share) ** (requests + prefill_tokens)
        )
    return seconds


def _cells(values: Floats, high: int, cells: int) -> NDArray[np.intp]:
    """Cells along an axis from 0 to `high`, `cells` for a value outside."""
    inside = np.minimum((values / high * cells).astype(np.intp), cells - 1)
    return np.where(values <= high, inside, cells)
