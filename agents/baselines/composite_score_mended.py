"""The composite score of the source documents with the latency term the right way round.

Formula: as `composite_score`, but `0.25 min(P99 / 2 s, 1)` for latency, so that it rises when
latency does. Regimes, inputs and their stand-ins are the same.

Version: no upstream; `source-systems.md`, D9, asks for it beside the printed one. The printed
example gives 0.777 instead of 0.622: one replica more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .composite_score import (
    LATENCY_WEIGHT,
    CompositeScoreParams,
    ScoreInputs,
    common_score,
    score_inputs,
    stepped,
)
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class CompositeScoreMendedParams:
    """Thresholds, and what counts as full."""

    score: CompositeScoreParams = CompositeScoreParams()  # noqa: RUF009  # frozen
    """The same as for the printed score."""

    def make(self, site: Site, *, seed: int) -> CompositeScoreMended:
        """A controller for one episode; the seed plays no part."""
        del seed
        return CompositeScoreMended(self.score, site)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> Self:
        """As for the printed score."""
        return cls(CompositeScoreParams.suggested(suggest, site))


def mended_score(params: CompositeScoreParams, inputs: ScoreInputs) -> float:
    """The score that rises with latency, 0-1."""
    latency = min(inputs.latency_s / params.slow_s, 1.0)
    return common_score(params, inputs) + LATENCY_WEIGHT * latency


@dataclass(frozen=True, slots=True)
class CompositeScoreMended:
    """The controller. It has no state."""

    params: CompositeScoreParams
    site: Site

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """One step by the score; holds where it cannot be taken."""
        inputs = score_inputs(snapshot, self.params.latency, self.site.slo)
        if inputs is None:
            return settings
        return stepped(self.params, mended_score(self.params, inputs), self.site, settings)
