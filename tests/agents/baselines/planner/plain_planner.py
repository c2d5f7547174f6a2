"""The planner once more, for one gateway: plain numbers, all history kept, NumPy's `interp`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gatepilot.agents.baselines.planner.capacity import LATENCIES, Capacity
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.snapshot import MetricsSnapshot

LOGS = np.log(LATENCIES)
HERE = np.array([0])
"""The only site."""


def plain_late_share(spreads: float) -> float:
    """The tail of Student's t with three degrees of freedom, by its angle."""
    angle = math.atan(spreads / math.sqrt(3))
    return 0.5 - (angle + math.sin(angle) * math.cos(angle)) / math.pi


@dataclass
class PlainPlan:
    replicas: int
    need: int
    prefill_work: float | None
    decode_work: float | None
    work_peak: float | None
    work_mean: float | None
    threshold_steps: float | None


@dataclass
class PlainPlanner:
    """Everything that was ever seen, and what follows from it."""

    site: Site
    params: PlannerParams
    mix: tuple[float, float, float, float] | None = None
    bias: float = 0.0
    needs: list[int] = field(default_factory=list)
    work: list[float | None] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    absent: list[int | None] = field(default_factory=list)
    backlogs: list[float] = field(default_factory=list)
    behind: list[bool] = field(default_factory=list)

    def see(self, at: MetricsSnapshot) -> PlainPlan:
        params, site = self.params, self.site
        capacity = Capacity(
            [site.known_replica("test")], site.slo.latency_limit_s, [params.arrival_scv]
        )
        self._see_mix(at)
        prefill_s = decode_s = 0.0
        if self.mix:
            _, _, prompt, output = self.mix
            prefill_s = prompt * float(capacity.prefill_token_s(HERE)[0])
            decode_s = output * float(
                capacity.output_token_s(HERE, np.array([prompt]), np.array([output]))[0]
            )
        busy_s = prefill_s + decode_s
        rate = at.request_rate_rps
        if (rate != 0 and not self.mix) or (rate == 0 and at.running):
            rate = None
        work = None if rate is None else rate * busy_s
        self.work.append(work)
        if work is not None:
            extra = (at.waiting or 0.0) * busy_s / params.catch_up_s
            self.loads.append(work + min(extra, params.catch_up_share * work))
        serving = None
        if at.replicas_ready is not None and at.replicas_ejected is not None:
            serving = at.replicas_ready - at.replicas_ejected
        asked, ready = round(at.replicas_requested), at.replicas_ready
        self.absent.append(None if ready is None else int(max(asked - ready, 0)))
        self.backlogs.append((at.waiting or 0.0) * busy_s)
        limit_s = site.slo.latency_limit_s
        self.behind.append(serving is not None and self.backlogs[-1] > serving * limit_s)
        lost = self._lost()
        need = round(at.replicas_requested)
        if work is not None and not self.mix:
            need = self._floor
        elif work is not None and self.mix:
            expected, allowed = self._curves(capacity, busy_s)
            comparable = at.ttft_p95_s and serving and serving > 0 and work > 0
            if comparable and at.ttft_p95_s and serving and self._is_settled(lost):
                self._see_latency(at.ttft_p95_s, np.interp(work / serving, expected, LOGS))
            share = max(float(np.interp(-self.bias, LOGS, allowed)), 0.05) * params.headroom
            now, later, off = self._forecast()
            kept = [w * params.peak_kept**k for k, w in enumerate(reversed(self.work)) if w]
            peak = params.peak_share * max(kept, default=0.0)
            error = params.capacity_error
            loads = [(now, error), (later, math.hypot(error, params.errors * off)), (peak, error)]
            need = self._cheapest(share, loads) + round(params.reserve * min(now, 1.0))
            need = site.limits.clip(need + round(at.replicas_ejected or 0.0))
        if work is not None:
            need = min(need + lost, site.limits.max_replicas)
        known = self.needs[-1] if self.needs else 0
        self.needs.append(known if work is None else need)
        self.asks = need
        return self._plan(at, rate, prefill_s, decode_s)

    def _lost(self) -> int:
        patience = (
            math.ceil(2 * self.site.known_replica("test").cold_start_s / self.site.tick_s) + 1
        )
        patience = max(patience, self._window)
        last = self.absent[-patience:]
        if len(last) < patience or None in last:
            return 0
        return min(absent for absent in last if absent is not None)

    def _threshold(self, spread: float | None) -> float | None:
        if spread is None:
            return None
        breaker = self.params.breaker
        return breaker.failing_steps if spread >= breaker.spread else breaker.sound_steps

    @property
    def _window(self) -> int:
        return math.ceil(self.site.window_s / self.site.tick_s)

    def _is_settled(self, lost: int) -> bool:
        last = self.absent[-self._window :]
        if len(last) < self._window or any(absent != lost for absent in last):
            return False
        grows = self.backlogs[-1] > (self.backlogs[-2] if len(self.backlogs) > 1 else 0.0)
        return grows or not any(self.behind[-self._window :])

    def _see_mix(self, at: MetricsSnapshot) -> None:
        given = (at.prompt_tokens_p50, at.prompt_tokens_p95)
        rates = (at.prompt_token_rate_tps, at.output_token_rate_tps)
        if not at.samples or not all(given) or not all(rates):
            return
        newest = [x for x in given if x is not None]
        newest += [x * self.site.window_s / at.samples for x in rates if x is not None]
        weight = self.params.mix_weight if self.mix else 1.0
        before = self.mix or (0.0, 0.0, 0.0, 0.0)
        one, two, three, four = (b + weight * (x - b) for b, x in zip(before, newest, strict=True))
        self.mix = (one, two, three, four)

    def _curves(self, capacity: Capacity, busy_s: float) -> tuple[np.ndarray, np.ndarray]:
        assert self.mix is not None
        mix = np.array([[self.mix[0]], [self.mix[1]], [busy_s]])
        curves = capacity.curves(HERE, *mix)
        return curves.expected[0], curves.allowed[0]

    def _see_latency(self, latency_s: float, expected: float) -> None:
        error = math.log(latency_s / self.site.slo.latency_limit_s) - expected - self.bias
        weight = self.params.bias_weight if error > 0 else self.params.bias_weight / 2
        self.bias = max(-1.0, min(1.0, self.bias + weight * max(-0.7, min(0.7, error))))

    def _cheapest(self, share: float, loads: list[tuple[float, float]]) -> int:
        """Sizes tried one after the other."""
        most = self.site.limits.max_replicas
        best = (math.inf, most)
        for size in range(self._floor, most + 1):
            late = 0.0
            for load, spread in loads:
                if load > size * share:
                    break
                margin = math.log(size * share / max(load, 1e-6)) / spread
                late = max(late, plain_late_share(margin))
            else:
                best = min(best, (0.03 * size + 5 * self.params.violation_weight * late, size))
        return best[1]

    @property
    def _floor(self) -> int:
        return self.site.limits.clip(self.params.floor_replicas)

    def _forecast(self) -> tuple[float, float, float]:
        """The load now, that at the horizon, and how far off forecasts are."""
        forecast, replica = self.params.forecast, self.site.known_replica("test")
        ahead = max(
            math.ceil((replica.cold_start_s + self.site.window_s / 2) / self.site.tick_s), 1
        )
        f = forecast.damping
        steps = sum(f**k for k in range(1, ahead + 1))
        level = trend = 0.0
        error_sq, made = forecast.error_prior**2, list[float]()
        for load in self.loads:
            y, before = math.log(load + 0.02), level
            if made:
                level = forecast.level_weight * y
                level += (1 - forecast.level_weight) * (before + f * trend)
                trend = forecast.trend_weight * (level - before) + (
                    (1 - forecast.trend_weight) * f * trend
                )
            else:
                level = y
            if len(made) >= ahead:
                error_sq += 0.3 / ahead * (min(abs(y - made[-ahead]), 1.0) ** 2 - error_sq)
            made.append(level + steps * trend)
        now, later = (max(math.exp(log) - 0.02, 1e-6) for log in (level, made[-1]))
        return now, later, math.sqrt(error_sq)

    def _plan(
        self, at: MetricsSnapshot, rate: float | None, prefill_s: float, decode_s: float
    ) -> PlainPlan:
        need, asked = self.asks, round(at.replicas_requested)
        is_blind = at.waiting is None or at.replicas_ejected is None or self.work[-1] is None
        is_blind = is_blind or len(self.needs) < self.params.hold_ticks + 1
        held = asked if is_blind else max(self.needs[-1 - self.params.hold_ticks :])
        recent = [work for work in self.work[-30:] if work is not None]
        mean = None
        for number, work in enumerate((w for w in self.work if w is not None), start=1):
            weight = max(1 / number, 1 - math.exp(-self.site.tick_s / 1800))
            mean = work if mean is None else mean + weight * (work - mean)
        return PlainPlan(
            replicas=need if need >= asked else min(asked, held),
            need=need,
            prefill_work=None if rate is None else rate * prefill_s,
            decode_work=None if rate is None else rate * decode_s,
            work_peak=max(recent, default=None),
            work_mean=mean,
            threshold_steps=self._threshold(at.replica_error_spread),
        )
