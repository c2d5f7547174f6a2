"""What exporters showed at every scrape of a gateway, and what Prometheus made of it under faults.

A second implementation of the metric faults: whole scrapes as dictionaries, every window anew.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.sim.metric_faults import MetricFault
from gatepilot.envs.sim.records import OFF, READY, STARTING
from gatepilot.envs.sim.series import E2E_BOUNDS_S, PROMPT_BOUNDS, TTFT_BOUNDS_S

from .prometheus_rules import Series, increase, quantile_of_increases
from .sim_kit import Gateway

BOUNDS = {"ttft": TTFT_BOUNDS_S, "e2e": E2E_BOUNDS_S, "prompt": PROMPT_BOUNDS}
LOOKBACK_S = 300.0
GAUGES = ("replicas_ready", "replicas_starting", "replicas_draining", "replicas_ejected")


@dataclass
class ReplicaShown:
    """One replica's exporter."""

    state: int
    started_at_s: float
    counters: dict[str, float]
    gauges: dict[str, float]


@dataclass
class Shown:
    """All exporters at one scrape."""

    time_s: float
    counters: dict[str, float]
    """The gateway's, buckets as `ttft/0` ... cumulative over `le`."""
    gauges: dict[str, float]
    replicas: dict[tuple[int, int], ReplicaShown] = field(default_factory=dict)
    """By place and incarnation."""


def shown_by(g: Gateway, time_s: float) -> Shown:
    """Reads the plant at a scrape instant: a tick has just ended there."""
    state, env = g.engine._state, g.env
    counters = {
        "arrived": float(env["arrived"]),
        "first": float(env["first_tokens"]),
        "failed": float(env["error"] + env["timeout"] + env["shed"]),
    }
    for h, (name, bounds) in enumerate(BOUNDS.items()):
        for b, total in enumerate(np.cumsum(state.env["histograms"][0, h])[: len(bounds) + 1]):
            counters[f"{name}/{b}"] = float(total)
    shown = Shown(time_s, counters, {name: g.seen(name) for name in GAUGES})
    taken = state.replica_scrapes[0, (int(env["scrapes"]) - 1) % state.scrapes.shape[1]]
    p = g.params
    for r, rep in enumerate(g.places):
        if rep["state"] == OFF:
            continue
        incarnation, answers, failures, iterations, tokens, *served = (int(v) for v in taken[r])
        starting_s = max(min(rep["ready_at"], time_s) - rep["started_at"], 0.0)
        alive_s = time_s - rep["started_at"]
        cpu_s = p.cpu_startup * starting_s + p.cpu_idle * (alive_s - starting_s)
        cpu_s += p.cpu_per_iteration_s * iterations + p.cpu_per_token_s * tokens
        shown.replicas[r, incarnation] = ReplicaShown(
            int(rep["state"]),
            float(rep["started_at"]),
            {
                "successes": float(answers - failures),
                "failures": float(failures),
                "prompt_tokens": float(served[0]),
                "output_tokens": float(served[1]),
                "cpu_s": float(cpu_s),
            },
            {
                "running": float(rep["held"]),
                "waiting": float(rep["waiting"]),
                "kv_usage": g.blocks_at(r, iterations) / p.kv_blocks,
            },
        )
    return shown


def record(
    g: Gateway, seconds: float, replicas: Callable[[float], int], step_s: float = 5.0
) -> list[Shown]:
    """Every scrape of a gateway without metric faults; `replicas` are asked for as time goes on."""
    scrapes = [shown_by(g, 0.0)]
    for k in range(round(seconds / step_s)):
        g.tick(step_s, replicas=replicas(k * step_s))
        scrapes.append(shown_by(g, (k + 1) * step_s))
    return scrapes


def stored(scrapes: Sequence[Shown], faults: Sequence[MetricFault]) -> list[Shown | None]:
    """What Prometheus stored of each scrape; `None` where the scrape failed (a stale marker)."""

    def on(kind: str, t: float) -> bool:
        return any(f.kind == kind and f.start_s <= t < f.end_s for f in faults)

    kept: list[Shown | None] = []
    good: Shown | None = None
    zero: dict[str, float] = {}
    zero_replicas: dict[tuple[int, int], dict[str, float]] = {}
    before_s = -math.inf
    for scrape in scrapes:
        t = scrape.time_s
        if any(f.kind == "counter_reset" and before_s < f.start_s <= t for f in faults):
            zero = scrape.counters
            zero_replicas = {key: rep.counters for key, rep in scrape.replicas.items()}
        if on("metrics_gap", t) or (on("metrics_stale", t) and good is None):
            kept.append(None)
        elif on("metrics_stale", t):
            assert good is not None
            old = copy.deepcopy(good)
            old.time_s = t
            old.replicas = {k: rep for k, rep in old.replicas.items() if k in scrape.replicas}
            good = old
            kept.append(old)
        else:
            new = copy.deepcopy(scrape)
            new.counters = {k: v - zero.get(k, 0.0) for k, v in new.counters.items()}
            for key, rep in new.replicas.items():
                # a series that was hidden when it began has no increase before its first sample
                was_there = rep.started_at_s < before_s
                if kept and was_there and (kept[-1] is None or key not in kept[-1].replicas):
                    known = good is not None and key in good.replicas
                    if not known:
                        zero_replicas[key] = scrape.replicas[key].counters
                since = zero_replicas.get(key, {})
                rep.counters = {k: v - since.get(k, 0.0) for k, v in rep.counters.items()}
            good = new
            kept.append(new)
        before_s = t
    return kept


def visible(
    kept: Sequence[Shown | None],
    scrapes: Sequence[Shown],
    faults: Sequence[MetricFault],
    now_s: float,
) -> list[tuple[float, Shown | None]]:
    """The part that can be asked for at a time."""
    late = [f for f in faults if f.kind == "metrics_late" and f.start_s <= now_s < f.end_s]
    return [
        (scrape.time_s, what)
        for scrape, what in zip(scrapes, kept, strict=True)
        if scrape.time_s <= now_s
        and all(scrape.time_s < f.start_s or scrape.time_s <= now_s - f.delay_s for f in late)
    ]


def row(g: Gateway, asked: Sequence[tuple[float, Shown | None]], now_s: float) -> dict[str, float]:
    """The fields of a snapshot as the bridge's queries would bring them; absent: no answer."""
    p = g.params
    start_s = max(now_s - p.window_s, 0.0)
    window_s = now_s - start_s
    good = [shown for _, shown in asked if shown is not None and shown.time_s >= start_s]
    found: dict[str, float] = {}

    def gain(name: str) -> float:
        return increase([(s.time_s, s.counters[name]) for s in good], start_s, now_s)

    first, failed = gain("first"), gain("failed")
    found["request_rate_rps"] = gain("arrived") / window_s
    found["samples"] = first
    if first + failed >= p.minimum_samples:
        found["error_rate"] = failed / (first + failed)
    for q, histogram, name in (
        (0.95, "ttft", "ttft_p95_s"),
        (0.95, "e2e", "e2e_p95_s"),
        (0.5, "prompt", "prompt_tokens_p50"),
        (0.95, "prompt", "prompt_tokens_p95"),
    ):
        bounds = BOUNDS[histogram].tolist()
        buckets: list[Series] = [
            [(s.time_s, s.counters[f"{histogram}/{b}"]) for s in good]
            for b in range(len(bounds) + 1)
        ]
        found[name] = quantile_of_increases(q, bounds, buckets, start_s, now_s, p.minimum_samples)
    if asked and asked[-1][1] is not None and now_s - asked[-1][0] <= LOOKBACK_S:
        found |= _gauges(g, asked[-1][1])
        if len(good) >= 2:
            found |= _of_replicas(g, asked[-1][1], good, start_s, now_s)
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _gauges(g: Gateway, newest: Shown) -> dict[str, float]:
    p = g.params
    found = dict(newest.gauges)
    seen = [rep for rep in newest.replicas.values() if rep.state != STARTING]
    found["running"] = sum(rep.gauges["running"] for rep in seen)
    found["waiting"] = sum(rep.gauges["waiting"] for rep in seen)
    ready = [rep.gauges["kv_usage"] for rep in seen if rep.state == READY]
    if ready:
        found["kv_usage"] = min(sum(ready) / len(ready), 1.0)
        used = p.weights_gib + found["kv_usage"] * p.kv_gib
        found["vram_utilization"] = min(used / p.vram_gib, 1.0)
    return found


def _of_replicas(
    g: Gateway, newest: Shown, good: Sequence[Shown], start_s: float, now_s: float
) -> dict[str, float]:
    found = {"prompt_token_rate_tps": 0.0, "output_token_rate_tps": 0.0}
    shares, busy = [], []
    for key, rep in newest.replicas.items():
        if rep.state == STARTING:
            continue
        grown = {}
        for name in rep.counters:
            values = [
                (s.time_s, s.replicas[key].counters[name] if key in s.replicas else 0.0)
                for s in good
            ]
            grown[name] = increase(values, start_s, now_s)
        for kind in ("prompt", "output"):
            found[f"{kind}_token_rate_tps"] += grown[f"{kind}_tokens"] / (now_s - start_s)
        if rep.state != READY:
            continue
        alive_s = now_s - max(start_s, rep.started_at_s)
        busy.append(min(grown["cpu_s"] / alive_s, 1.0) if alive_s > 0 else 0.0)
        answers = grown["successes"] + grown["failures"]
        if answers >= g.params.request_volume:
            shares.append(grown["failures"] / answers)
    if busy:
        found["cpu_utilization"] = sum(busy) / len(busy)
    if shares:
        found["replica_error_spread"] = max(shares) - float(np.median(shares))
    return found


def seen_row(g: Gateway) -> dict[str, float]:
    """The simulator's own row, without settings and what is missing."""
    settings = ("replicas_requested", "breaker_threshold")
    values = {name: float(g.engine.seen[0, k]) for name, k in FIELD_INDEX.items()}
    return {k: v for k, v in values.items() if k not in settings and not math.isnan(v)}
