"""The composite score of the source documents, exactly as it was printed.

Formula: (`source-systems.md`, D9)

    score = 0.3 min(tpm / 2000, 1) + 0.25 min(vram / 0.95, 1)
            + 0.25 max(1 - P99 / 2 s, 0) + 0.2 risk

Regimes: above 0.7 one replica more, below 0.4 one less, else hold.

Version: no upstream; the article that the project grows out of. Printed example: 1850 tokens a
minute, 87.2 % VRAM, P99 1620 ms, risk 0.34 give 0.622: hold.

Quirk kept: **the latency term has the wrong sign.** It falls when latency rises, so a gateway that
slows down scores lower, by up to 0.25, and is scaled *in*. `composite_score_mended` has it right.
With the other terms at 0 a gateway scores 0.25 at zero latency, and nothing above 0.75 can be
reached with latencies of 2 s or more.

How a snapshot stands for its inputs. What it does not say is not guessed: hold.

| printed | here |
|---|---|
| tokens a minute, of one service | tokens a second * 60, a ready replica |
| VRAM share | `vram_utilization`, weights included: never low |
| P99 | P95 of the time to the first token, or end-to-end |
| "SLA risk", 0-1, not defined | larger of P95 / limit and error share / limit, at most 1 |

The risk is our reading: how much is used up of the promise that is nearest to broken. 2000 tokens a
minute is little for an LLM replica, so that term is mostly 1 where there is any load; a search may
move it. It moves replicas only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from ...reward.slo import Slo
from .request_sample import Latency, latency_s
from .site import Site, Suggest
from .token_rate import token_rate_tps

TOKEN_WEIGHT: Final = 0.3
VRAM_WEIGHT: Final = 0.25
LATENCY_WEIGHT: Final = 0.25
RISK_WEIGHT: Final = 0.2
_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class CompositeScoreParams:
    """Thresholds, and what counts as full."""

    up_above: float = 0.7
    """Score above which a replica is added."""
    down_below: float = 0.4
    """Score below which one is removed."""
    full_tokens: float = 2000.0
    """Tokens a minute of a fully used replica."""
    full_vram: float = 0.95
    """VRAM share of a fully used one, 0-1."""
    slow_s: float = 2.0
    """Latency at which the latency term is at its end, seconds."""
    latency: Latency = "ttft"
    """Which P95 is the latency."""

    def __post_init__(self) -> None:
        """Refuses thresholds that cross, and divisors that are not above 0.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not self.down_below <= self.up_above:
            msg = f"down_below {self.down_below} is above up_above {self.up_above}"
            raise ValueError(msg)
        for name in ("full_tokens", "full_vram", "slow_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number above 0")

    def make(self, site: Site, *, seed: int) -> CompositeScore:
        """A controller for one episode; the seed plays no part."""
        del seed
        return CompositeScore(self, site)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> CompositeScoreParams:
        """Both thresholds, and what counts as full."""
        del site
        down = suggest.suggest_float("down_below", 0.1, 0.7)
        return cls(
            up_above=down + suggest.suggest_float("dead_band", 0.0, 0.5),
            down_below=down,
            full_tokens=suggest.suggest_float("full_tokens", 500.0, 1e6, log=True),
            slow_s=suggest.suggest_float("slow_s", 0.2, 60.0, log=True),
            latency=suggest.suggest_categorical("latency", ["ttft", "e2e"]),
        )


@dataclass(frozen=True, slots=True)
class ScoreInputs:
    """What the score is taken of."""

    tokens_per_minute: float
    vram: float
    """Share, 0-1."""
    latency_s: float
    risk: float
    """0-1."""


def common_score(params: CompositeScoreParams, inputs: ScoreInputs) -> float:
    """The terms of tokens, VRAM and risk, 0-0.75."""
    tokens = min(inputs.tokens_per_minute / params.full_tokens, 1.0)
    vram = min(inputs.vram / params.full_vram, 1.0)
    return TOKEN_WEIGHT * tokens + VRAM_WEIGHT * vram + RISK_WEIGHT * inputs.risk


def printed_score(params: CompositeScoreParams, inputs: ScoreInputs) -> float:
    """The score as printed, 0-1."""
    latency = max(1 - inputs.latency_s / params.slow_s, 0.0)
    return common_score(params, inputs) + LATENCY_WEIGHT * latency


def promise_used(snapshot: MetricsSnapshot, slo: Slo) -> float | None:
    """How much of the promise is used up, 0-1; `None` if either part is not known."""
    promised = latency_s(snapshot, "ttft" if slo.latency == "ttft_p95_s" else "e2e")
    if promised is None or snapshot.error_rate is None:
        return None
    if snapshot.error_rate > slo.error_rate_limit:
        return 1.0
    # A limit of 0 that is kept is not used up.
    errors = snapshot.error_rate / slo.error_rate_limit if slo.error_rate_limit else 0.0
    return min(1.0, max(promised / slo.latency_limit_s, errors))


def score_inputs(snapshot: MetricsSnapshot, latency: Latency, slo: Slo) -> ScoreInputs | None:
    """What a snapshot says of the inputs; `None` if any is not known or no replica is ready."""
    tokens, seconds = token_rate_tps(snapshot), latency_s(snapshot, latency)
    risk, ready = promise_used(snapshot, slo), snapshot.replicas_ready
    if tokens is None or seconds is None or risk is None or snapshot.vram_utilization is None:
        return None
    if not ready:
        return None
    return ScoreInputs(tokens * _MINUTE_S / ready, snapshot.vram_utilization, seconds, risk)


def stepped(
    params: CompositeScoreParams, score: float, site: Site, settings: GatewaySettings
) -> GatewaySettings:
    """One replica more, one less, or none, within the limits."""
    step = (score > params.up_above) - (score < params.down_below)
    size = site.limits.clip(settings.replicas + step)
    return settings if size == settings.replicas else replace(settings, replicas=size)


@dataclass(frozen=True, slots=True)
class CompositeScore:
    """The controller. It has no state."""

    params: CompositeScoreParams
    site: Site

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """One step by the score; holds where it cannot be taken."""
        inputs = score_inputs(snapshot, self.params.latency, self.site.slo)
        if inputs is None:
            return settings
        return stepped(self.params, printed_score(self.params, inputs), self.site, settings)
