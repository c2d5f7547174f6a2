"""What Dynamo's load-based scaling makes of its engines' reports: one replica up, down, or none.

Easy mode looks at the KV tokens of an engine that are in use or waited for, queued prompts
included, as a share of its capacity:

| target | up if any engine is | down if all engines are |
|---|---|---|
| `throughput` | > 1.0 | < 0.6 |
| `latency` | > 0.4 | < 0.1 |
| `load` (the operator's thresholds) | >= up | <= down |

Full mode (`sla`) asks what a new request would meet (`dynamo_engine`), with f = 0.8:

- up if all engines miss a target, TTFT or ITL;
- down if for all engines, with N / (N - 1) of their load, `TTFT - own < f (target - own)`, where
  own is the TTFT without the queue, *and* the KV tokens in use or waited for stay below capacity
  and `ITL < f target`; if there is no estimate of TTFT at all, ITL alone decides.

Regimes: one worker is never removed; without a usable fit of any kind of work nothing is decided;
with one, "neither" is a decision too, which the throughput floor may lift.

Version: ai-dynamo/dynamo, mid 2026 (1.3, 1.4), `components/src/dynamo/planner/core/load_scaling.py`
(first read at 0c6da1ec; queued decodes count after a removal since). Its aggregated mode: prefill
engines by queued prompts and decode engines by KV use alone have no counterpart here. The removal
looks at what the others must take over since PR#9294 (May 2026), in full mode only.

Quirks kept: up needs all engines in full mode but one in easy mode. Own alone above the TTFT target
forbids every removal. An ITL above its target asks for more even if nothing is queued and more
replicas cannot help. In easy mode two workers at 0.55 become one at 1.1, which becomes two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .dynamo_capacity import Targets
from .dynamo_engine import EngineModel, ForwardPass


@dataclass(frozen=True, slots=True)
class KvThresholds:
    """When easy mode acts, shares of an engine's KV capacity."""

    up: float
    """Above this, one more."""
    down: float
    """Below this, one less."""
    is_inclusive: bool = False
    """Whether the thresholds themselves count; they do for `load`."""

    def __post_init__(self) -> None:
        """Refuses thresholds that would ask for both.

        Raises:
            ValueError: Not finite, below 0, or not in order.
        """
        if not (math.isfinite(self.up) and 0 <= self.down < self.up):
            msg = f"KV thresholds: down {self.down} and up {self.up}, expected 0 <= down < up"
            raise ValueError(msg)


EASY_THRESHOLDS: Final = {"throughput": KvThresholds(1.0, 0.6), "latency": KvThresholds(0.4, 0.1)}
"""Upstream's two presets."""


def easy_size(uses: Sequence[float], workers: int, thresholds: KvThresholds) -> int | None:
    """Easy mode.

    Args:
        uses: KV tokens in use and waited for of each engine, share of its capacity (over 1: more
            waits than fits).
        workers: Ready engines.
        thresholds: When to act.

    Returns:
        Wanted engines before limits; `None`: no decision.
    """
    if not uses or workers == 0:
        return None
    up, down = thresholds.up, thresholds.down
    if any(use >= up if thresholds.is_inclusive else use > up for use in uses):
        return workers + 1
    is_low = all(use <= down if thresholds.is_inclusive else use < down for use in uses)
    return workers - 1 if workers > 1 and is_low else None


@dataclass(frozen=True, slots=True)
class FullRule:
    """What full mode holds engines to."""

    targets: Targets
    """What was promised."""
    down_sensitivity: float
    """f: share of a target that may be used up after a removal
    (`load_scaling_down_sensitivity` / 100)."""
    kv_tokens: int | None
    """KV capacity of an engine; `None`: not looked at."""


def full_size(
    engine: EngineModel, reports: Sequence[ForwardPass], workers: int, rule: FullRule
) -> int | None:
    """Full mode.

    Args:
        engine: What is known of engines; they are alike.
        reports: The last report of each engine.
        workers: Ready engines.
        rule: Targets and margin.

    Returns:
        Wanted engines before floor and limits; `None`: no decision, not even to hold.
    """
    if not reports or not engine.forward.is_ready:
        return None
    by_ttft = ttft_size(engine, reports, workers, rule)
    by_itl = itl_size(engine, reports, workers, rule)
    for wanted in (by_ttft, by_itl):
        if wanted is not None and wanted > workers:
            return wanted
    itl_shrinks = by_itl is not None and by_itl < workers
    ttft_allows = by_ttft is None or by_ttft < workers
    return workers - 1 if itl_shrinks and ttft_allows else workers


def ttft_size(
    engine: EngineModel, reports: Sequence[ForwardPass], workers: int, rule: FullRule
) -> int | None:
    """Engines by time to first token; `None`: it does not say."""
    target_s = rule.targets.ttft_s
    estimates = [engine.ttft_s(report) for report in reports]
    allows, is_refused = workers > 1, False
    for report in reports if allows else ():
        growth = workers / (workers - 1)
        own_s = engine.ttft_s(
            report, queue_scale=0.0, decode_scale=growth, with_queued_decodes=True
        )
        after_s = engine.ttft_s(
            report, queue_scale=growth, decode_scale=growth, with_queued_decodes=True
        )
        if own_s is None or after_s is None:
            allows = False
            break
        budget_s = (target_s - own_s) * rule.down_sensitivity
        if budget_s <= 0 or after_s - own_s >= budget_s:
            allows, is_refused = False, True
            break
    return _size(estimates, target_s, workers, allows=allows, is_refused=is_refused)


def itl_size(
    engine: EngineModel, reports: Sequence[ForwardPass], workers: int, rule: FullRule
) -> int | None:
    """Engines by time between tokens; `None`: it does not say."""
    target_s = rule.targets.itl_s
    estimates = [engine.itl_s(report) for report in reports]
    allows, is_refused = workers > 1, False
    for report in reports if allows else ():
        growth = workers / (workers - 1)
        if rule.kv_tokens is not None and int(report.held_tokens * growth) >= rule.kv_tokens:
            allows, is_refused = False, True
            break
        after_s = engine.itl_s(report, decode_scale=growth, with_queued_prefills=True)
        if after_s is None:
            allows = False
            break
        if after_s >= target_s * rule.down_sensitivity:
            allows, is_refused = False, True
            break
    return _size(estimates, target_s, workers, allows=allows, is_refused=is_refused)


def _size(
    estimates: Sequence[float | None],
    target_s: float,
    workers: int,
    *,
    allows: bool,
    is_refused: bool,
) -> int | None:
    """One more if all estimates miss the target, one less if the check allows it.

    A removal that was refused is a wish to stay; without an estimate there is no wish.
    """
    known = [seconds for seconds in estimates if seconds is not None]
    if known and all(seconds > target_s for seconds in known):
        return workers + 1
    if known and allows:
        return workers - 1
    return workers if is_refused else None
