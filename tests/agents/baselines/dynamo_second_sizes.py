"""Sizes that Dynamo's planners want, a second time: from all that was ever seen.

See `dynamo_second`.
"""

from __future__ import annotations

import math
from statistics import median

from gatepilot.agents.baselines.dynamo_load import DynamoLoadParams
from gatepilot.agents.baselines.dynamo_samples import SampleParams
from gatepilot.agents.baselines.dynamo_throughput import DynamoThroughputParams
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .dynamo_second import (
    Close,
    Report,
    Sample,
    cell_of,
    forecast,
    kept,
    mean_prompt,
    over,
    plane,
    report_of,
)

# --- throughput ---------------------------------------------------------------------------------


def planned(seen: list[MetricsSnapshot], params: DynamoThroughputParams, site: Site) -> int | None:
    """What is planned at the last of the looks; `None`: nothing."""
    every = math.ceil(params.interval_s / site.tick_s)
    last = len(seen) - 1
    if last == 0 or last % every:
        return None
    plans = range(every, last + 1, every)
    intervals = [seen[0 if end == every else end - every + 1 : end + 1] for end in plans]
    series: list[list[float]] = [[], [], []]
    lengths: tuple[float, float] | None = None
    for looks in intervals:
        known = [s.request_rate_rps for s in looks if s.request_rate_rps is not None]
        if not known:
            traffic = None
            continue
        traffic = sum(known) / len(known) * every * site.tick_s
        rated = [
            (s.prompt_token_rate_tps, s.output_token_rate_tps, s.samples / 60.0)
            for s in looks
            if s.samples is not None
            and s.prompt_token_rate_tps is not None
            and s.output_token_rate_tps is not None
        ]
        firsts = sum(first for _, _, first in rated)
        if traffic > 0 and not firsts:
            traffic = None
            continue
        if traffic > 0:
            lengths = (sum(p for p, _, _ in rated) / firsts, sum(o for _, o, _ in rated) / firsts)
        series[0].append(traffic)
        if lengths:
            series[1].append(lengths[0])
            series[2].append(lengths[1])
    if traffic is None:
        return None
    requests, prompt, output = (forecast(list(values), params.forecast) for values in series)
    rate = capacity_rps(seen, params, site, prompt, output)
    if rate is None:
        return None
    wanted = requests / (every * site.tick_s) / rate
    if abs(wanted - round(wanted)) < 1e-7 and wanted != 0:
        raise Close
    return max(math.ceil(wanted), site.limits.min_replicas)


def capacity_rps(
    seen: list[MetricsSnapshot],
    params: DynamoThroughputParams,
    site: Site,
    prompt_tokens: float,
    output_tokens: float,
) -> float | None:
    """The best rate of one engine, batch by batch."""
    spec = site.known_replica("second")
    kv_tokens = spec.kv_capacity_tokens
    assert kv_tokens is not None
    assert spec.max_num_seqs <= 128
    if prompt_tokens <= 0 or output_tokens <= 0:
        return None
    for tokens in (prompt_tokens, output_tokens):
        if tokens != round(tokens) and abs(tokens - round(tokens)) < 1e-7:
            raise Close
    factors = cell_factors(seen, params.samples, site) if params.corrects else {}

    def seconds(prefill: int, batch: int, kv: int) -> float:
        return corrected_s(site, params.samples, factors, (prefill, batch, kv))

    prompt, output = math.ceil(prompt_tokens), math.ceil(output_tokens)
    context = prompt + output // 2
    rates: dict[bool, list[float]] = {True: [], False: []}
    for batch in range(1, min(spec.max_num_seqs, kv_tokens // context, spec.chunk_tokens - 1) + 1):
        prefill = -(-batch * prompt // output)
        if prefill + batch > spec.chunk_tokens:
            continue
        itl_s = seconds(prefill, batch, batch * context)
        left, ttft_s = prefill + prompt, 0.0
        while left > 0:
            chunk = min(left, spec.chunk_tokens)
            ttft_s += seconds(chunk, batch, batch * context)
            left -= chunk
        misses = over(ttft_s, params.targets.ttft_s) or over(itl_s, params.targets.itl_s)
        rates[not misses].append(batch / output / itl_s)
    return max(rates[True] or rates[False], default=None)


def cell_factors(
    seen: list[MetricsSnapshot], samples: SampleParams, site: Site
) -> dict[tuple[str, tuple[int, ...]], float]:
    """Corrections by kind of work and cell."""
    spec = site.known_replica("second")
    assert spec.kv_capacity_tokens is not None
    found = {}
    for kind, ends in grids(site).items():
        ratios: list[Sample] = []
        for s in seen:
            report = report_of(s, spec.kv_capacity_tokens)
            if not report or report.seconds <= 0 or (report.prefill > 0) != (kind == "mixed"):
                continue
            parts = (report.prefill, report.sequences, report.kv)
            ratio = report.seconds / profiled_s(spec.step, *parts)
            first = report.prefill if kind == "mixed" else report.sequences
            ratios += [((first, report.kv), min(2.0, max(0.5, ratio)))] * report.replicas
        cells = math.isqrt(samples.bucket_count)
        held = kept(ratios, cells, samples.max_samples, ends)
        if len(held) < samples.min_observations:
            continue
        labelled = [(cell_of(point, [(0.0, e) for e in ends], cells), r) for point, r in held]
        for label, _ in labelled:
            found[kind, label] = median(r for other, r in labelled if other == label)
    return found


def grids(site: Site) -> dict[str, list[float]]:
    spec = site.known_replica("second")
    kv_tokens = float(spec.kv_capacity_tokens or math.nan)
    first = {"mixed": float(spec.chunk_tokens), "decode": float(spec.max_num_seqs)}
    return {kind: [highest, kv_tokens] for kind, highest in first.items()}


def corrected_s(
    site: Site,
    samples: SampleParams,
    factors: dict[tuple[str, tuple[int, ...]], float],
    parts: tuple[int, int, int],
) -> float:
    """What the profile says, corrected; for whole numbers, whose cells are found exactly."""
    prefill, sequences, kv = parts
    profiled = profiled_s(site.known_replica("second").step, *parts)
    kind = "decode" if not prefill else "mixed" if sequences or kv else "prefill"
    if kind == "prefill":
        return profiled  # no report is of that kind
    point, ends = (prefill if kind == "mixed" else sequences, kv), grids(site)[kind]
    if any(x > end for x, end in zip(point, ends, strict=True)):
        return profiled
    cells = math.isqrt(samples.bucket_count)
    places = [min(int(x / end * cells), cells - 1) for x, end in zip(point, ends, strict=True)]
    return profiled * factors.get((kind, (places[0], places[1])), 1.0)


def profiled_s(step: StepModel, prefill: float, batch: float, kv: float) -> float:
    active = -math.expm1((batch + prefill) * math.log1p(-step.expert_share))
    parts = [step.base_s, batch * step.per_seq_s, kv * step.per_ctx_token_s]
    return math.fsum([*parts, prefill * step.per_prefill_token_s, active * step.experts_s])


# --- load ---------------------------------------------------------------------------------------


def easy_wanted(s: MetricsSnapshot, size: int, params: DynamoLoadParams, site: Site) -> int | None:
    kv_tokens = site.known_replica("second").kv_capacity_tokens
    if s.replicas_ready != size or s.kv_usage is None or s.waiting is None or kv_tokens is None:
        return None
    if s.waiting and mean_prompt(s) is None:
        return None
    held = s.kv_usage * kv_tokens + s.waiting * (mean_prompt(s) or 0.0) / size
    ups = {"throughput": 1.0, "latency": 0.4}
    downs = {"throughput": 0.6, "latency": 0.1}
    up = params.load.up if params.load else ups[params.target]
    down = params.load.down if params.load else downs[params.target]
    if over(held, up * kv_tokens):
        return size + 1
    return size - 1 if size > 1 and not over(held, down * kv_tokens) else None


class Engine:
    """What is known of an engine after all reports."""

    def __init__(self, seen: list[MetricsSnapshot], params: DynamoLoadParams, site: Site) -> None:
        spec = site.known_replica("second")
        self.site, self.samples, self.chunk = site, params.samples, spec.chunk_tokens
        reports = [report_of(s, float(spec.kv_capacity_tokens or math.nan)) for s in seen]
        history = [r for r in reports if r is not None for _ in range(r.replicas)]
        last = params.samples.max_samples
        self.prompt = mean([r.prefill / r.prompts if r.prompts else 0.0 for r in history], last)
        self.length = mean([r.kv / r.sequences for r in history if r.sequences], last)
        self.typical = mean([r.prefill for r in history], last)
        self.factors = None
        if params.model == "profile":
            self.factors = cell_factors(seen, params.samples, site)
            return
        self.planes: dict[str, list[float] | None] = {"prefill": None}
        for kind in ("mixed", "decode"):
            samples: list[Sample] = [
                ((r.prefill if kind == "mixed" else r.sequences, r.kv), r.seconds)
                for r in history
                if r.seconds > 0 and (r.prefill > 0) == (kind == "mixed")
            ]
            held = kept(samples, math.isqrt(self.samples.bucket_count), last, None)
            enough = len(held) >= self.samples.min_observations
            self.planes[kind] = plane(held, relaxed=kind == "decode") if enough else None

    def seconds(self, prefill: int, sequences: int, kv: int) -> float | None:
        if not (prefill or sequences or kv):
            return 0.0
        if self.factors is not None:
            return corrected_s(self.site, self.samples, self.factors, (prefill, sequences, kv))
        kind = "decode" if not prefill else "mixed" if sequences or kv else "prefill"
        fit = self.planes[kind]
        if fit is None:
            return None
        return max(1e-9, fit[0] + fit[1] * (prefill or sequences) + fit[2] * kv)

    def ttft(self, now: Report, queue: float, growth: float) -> float | None:
        left, total = math.ceil(now.waiting_tokens * queue + self.prompt), 0.0
        sequences, kv = math.ceil(now.sequences * growth), math.ceil(now.kv * growth)
        while left > 0:
            one = self.seconds(min(left, self.chunk), sequences, kv)
            if one is None:
                return None
            total, left = total + one, left - self.chunk
        return total

    def itl(self, sequences: float, kv: float) -> float | None:
        own = self.length
        return self.seconds(
            math.ceil(self.typical), math.ceil(sequences + (own > 0)), math.ceil(kv + own)
        )


def mean(values: list[float], last: int) -> float:
    while values and values[0] == 0:
        values = values[1:]
    values = values[-last:]
    return sum(values) / len(values) if values else 0.0


def full_wanted(
    seen: list[MetricsSnapshot], size: int, params: DynamoLoadParams, site: Site
) -> int | None:
    """Full mode without its floor."""
    spec, target, slack = site.known_replica("second"), params.targets, 1e-6
    assert spec.kv_capacity_tokens is not None
    now = report_of(seen[-1], spec.kv_capacity_tokens)
    if now is None or seen[-1].replicas_ready != size:
        return None
    engine = Engine(seen, params, site)
    if params.model == "regression" and not any(engine.planes.values()):
        return None
    estimates = [engine.ttft(now, 1.0, 1.0), engine.itl(now.sequences, now.kv)]
    removals: list[bool | None] = [None, None]
    if size > 1:
        growth, f = size / (size - 1), params.down_sensitivity
        own, after = engine.ttft(now, 0.0, growth), engine.ttft(now, growth, growth)
        if own is not None and after is not None:
            in_budget = over((target.ttft_s - own) * f, after - own, slack)
            removals[0] = over(target.ttft_s, own, slack) and in_budget
        held = (now.kv + now.waiting_tokens) * growth
        later = engine.itl((now.sequences + now.waiting) * growth, held)
        if not over(spec.kv_capacity_tokens, held, slack):
            removals[1] = False
        elif later is not None:
            removals[1] = over(target.itl_s * f, later, slack)
    wishes: list[int | None] = []
    limits = (target.ttft_s, target.itl_s)
    for estimate, limit, removal in zip(estimates, limits, removals, strict=True):
        if estimate is not None and over(estimate, limit, slack):
            return size + 1
        allowed = removal and estimate is not None
        wishes.append(-1 if allowed else 0 if removal is False else None)
    return size - 1 if wishes in ([-1, -1], [None, -1]) else size
