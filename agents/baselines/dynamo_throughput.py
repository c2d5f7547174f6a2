"""Throughput-based planning of Dynamo: as many replicas as forecast traffic needs.

Formula: every 180 s `replicas = max(ceil(forecast requests / interval / engine rps), minimum)`,
with the forecast of `dynamo_predictors` and the rate one engine sustains for the forecast lengths
within its targets, `dynamo_capacity`. Iteration times come from the site's step model in place of
upstream's profiles, corrected by observation: `dynamo_profile`. This is the aggregated mode: one
pool of engines that prefill and decode, sized at once. Upstream's disaggregated modes size prefill
engines by prompts alone (until July 2026 at least `ceil(TTFT / target)`, PR#11624) and decode
engines by answers alone; neither has a counterpart here.

Regimes of a decision:

- no traffic data (no arrivals known, or arrivals without lengths): nothing is observed, hold;
- no capacity (no lengths seen yet, a forecast length not above 0, no room for one sequence): hold;
- targets unreachable: the rate of the batch that serves most, targets or not;
- not all requested replicas ready: the decision is dropped, the next one comes an interval later;
- else set, within the site's limits, which stand for `min_endpoint` and `max_gpu_budget`.

Version: ai-dynamo/dynamo, mid 2026 (1.3, 1.4), `components/src/dynamo/planner/`:
`core/throughput_scaling.py` (0c9050c9 and later, aggregated part unchanged),
`plugins/builtins/local_planner.py` (8504b503), `connectors/kubernetes.py` (05923745),
`config/defaults.py` (1ca60155). Constants: interval 180 s, TTFT 500 ms, ITL 50 ms, predictor
`constant` (upstream's `arima` and `prophet` are left out, see `dynamo_predictors`). Not yet in that
version, and not here: at most 8 replicas a decision (PR#14296, September 2026).

How a snapshot stands for traffic (`dynamo_snapshot` for the rest): requests are the mean of
`request_rate_rps` over the looks of the interval, times the interval: arrivals, as upstream's
started requests. Lengths are prefilled and generated tokens over first tokens, summed over the
looks. Looks without a value are left out.

Quirks kept: steps have no limit either way; what was decided while a replica starts is lost until
the next interval; the last observed lengths size an idle interval, whose demand of 0 gives the
minimum whatever they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .dynamo_capacity import Targets, aggregated_capacity
from .dynamo_forward import EngineLimits
from .dynamo_predictors import PredictorParams, Traffic, TrafficForecast
from .dynamo_profile import ProfileModel
from .dynamo_samples import SampleParams
from .dynamo_snapshot import forward_pass, is_settled, token_rates
from .look_back import whole_ticks
from .site import ReplicaSpec, Site, Suggest


@dataclass(frozen=True, slots=True)
class DynamoThroughputParams:
    """What an operator sets."""

    interval_s: float = 180.0
    """Seconds between two decisions (`throughput_adjustment_interval`)."""
    targets: Targets = Targets()  # noqa: RUF009  # frozen
    """What an engine must keep."""
    forecast: PredictorParams = PredictorParams()  # noqa: RUF009  # frozen
    """How traffic is forecast."""
    samples: SampleParams = SampleParams()  # noqa: RUF009  # frozen
    """Which observed iterations correct the profile."""
    corrects: bool = True
    """Whether they do; upstream always does."""

    def __post_init__(self) -> None:
        """Refuses an interval without length.

        Raises:
            ValueError: `interval_s` is not a number above 0.
        """
        if not (math.isfinite(self.interval_s) and self.interval_s > 0):
            raise ValueError(f"interval_s is {self.interval_s}, expected a number above 0")

    def make(self, site: Site, *, seed: int) -> DynamoThroughput:
        """A controller for one episode; the seed plays no part.

        Raises:
            SiteError: It is not known what a replica can do.
        """
        del seed
        return DynamoThroughput(self, site, site.known_replica("dynamo_throughput"))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> DynamoThroughputParams:
        """Interval, targets, forecast, and whether the profile is corrected."""
        del site
        predictor = suggest.suggest_categorical("predictor", ["constant", "kalman"])
        forecast = PredictorParams(predictor)
        if predictor == "kalman":
            uses_log1p = suggest.suggest_categorical("uses_log1p", [False, True])
            forecast = PredictorParams(predictor, uses_log1p)
        return cls(
            interval_s=suggest.suggest_float("interval_s", 30.0, 600.0, log=True),
            targets=suggested_targets(suggest),
            forecast=forecast,
            corrects=suggest.suggest_categorical("corrects", [True, False]),
        )


def suggested_targets(suggest: Suggest) -> Targets:
    """Targets from strict to generous: a fifth of upstream's defaults to ten times them."""
    return Targets(
        ttft_s=suggest.suggest_float("ttft_s", 0.1, 5.0, log=True),
        itl_s=suggest.suggest_float("itl_s", 0.01, 0.5, log=True),
    )


def throughput_size(requests: float, interval_s: float, engine_rps: float, minimum: int) -> int:
    """Replicas for so many requests an interval; the rate of one engine is above 0."""
    return max(math.ceil(requests / interval_s / engine_rps), minimum)


@dataclass(slots=True)
class TrafficLooks:
    """Sums over the looks of an interval."""

    looks: int = 0
    """Looks that knew the arrivals."""
    arrivals_rps: float = 0.0
    prefilled_tps: float = 0.0
    generated_tps: float = 0.0
    first_tokens_ps: float = 0.0

    def add(self, snapshot: MetricsSnapshot, window_s: float) -> None:
        """Takes a look."""
        if snapshot.request_rate_rps is not None:
            self.looks += 1
            self.arrivals_rps += snapshot.request_rate_rps
        rates = token_rates(snapshot, window_s)
        if rates is not None:
            self.prefilled_tps += rates.prefilled_tps
            self.generated_tps += rates.generated_tps
            self.first_tokens_ps += rates.first_tokens_ps

    def traffic(self, interval_s: float) -> Traffic | None:
        """What came in; `None` if it is not known."""
        if self.looks == 0:
            return None
        requests = self.arrivals_rps / self.looks * interval_s
        if self.first_tokens_ps == 0:
            return Traffic(requests, 0.0, 0.0) if requests == 0 else None
        prompt = self.prefilled_tps / self.first_tokens_ps
        return Traffic(requests, prompt, self.generated_tps / self.first_tokens_ps)


@dataclass(slots=True)
class DynamoThroughput:
    """The controller; one instance an episode. Moves replicas only."""

    params: DynamoThroughputParams
    site: Site
    spec: ReplicaSpec
    """What a replica can do."""
    model: ProfileModel = field(init=False)
    forecast: TrafficForecast = field(init=False)
    ticks: int = 0
    """Ticks so far."""
    looks: TrafficLooks = field(default_factory=TrafficLooks)
    """The interval that runs."""
    _every: int = field(init=False)

    def __post_init__(self) -> None:
        """Starts without a history."""
        self._every = whole_ticks(self.params.interval_s, self.site.tick_s)
        self.forecast = TrafficForecast(self.params.forecast)
        self.model = ProfileModel(
            self.params.samples,
            self.spec.step,
            EngineLimits.of(self.spec),
            corrects=self.params.corrects,
        )

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Decides when an interval is over, else holds."""
        wanted = self.planned(snapshot)
        if wanted is None or not is_settled(snapshot, settings):
            return settings
        size = self.site.limits.clip(wanted)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def planned(self, snapshot: MetricsSnapshot) -> int | None:
        """Looks, and says what the next interval needs; `None`: not due, or not known."""
        self._look(snapshot)
        due = self.ticks > 0 and self.ticks % self._every == 0
        self.ticks += 1
        if not due:
            return None
        interval_s = self._every * self.site.tick_s
        traffic, self.looks = self.looks.traffic(interval_s), TrafficLooks()
        if traffic is None:
            return None
        following = self.forecast.next_after(traffic)
        capacity = aggregated_capacity(
            self.model, self.params.targets, following.prompt_tokens, following.output_tokens
        )
        if capacity is None or capacity.rate_rps <= 0:
            return None
        minimum = self.site.limits.min_replicas
        return throughput_size(following.requests, interval_s, capacity.rate_rps, minimum)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        looks = self.looks
        return {
            "ticks": self.ticks,
            "looks": [
                looks.looks,
                looks.arrivals_rps,
                looks.prefilled_tps,
                looks.generated_tps,
                looks.first_tokens_ps,
            ],
            "forecast": self.forecast.saved(),
            "model": self.model.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.ticks = saved["ticks"]
        self.looks = TrafficLooks(*saved["looks"])
        self.forecast.restore(saved["forecast"])
        self.model.restore(saved["model"])

    def _look(self, snapshot: MetricsSnapshot) -> None:
        self.looks.add(snapshot, self.site.window_s)
        if self.params.corrects and snapshot.replicas_ready is not None:
            report = forward_pass(snapshot, self.site.window_s, self.spec.kv_capacity_tokens)
            if report is not None:
                self.model.tune(report.work, report.seconds, round(snapshot.replicas_ready))
