"""How a snapshot stands for what Dynamo's planner reads. What it does not say is not guessed.

Upstream reads a report of every engine (`ForwardPass`); here the mean over ready replicas stands
for each of them.

| report | from the snapshot |
|---|---|
| sequences that generate | running / ready |
| their KV tokens | KV usage x KV capacity of a replica |
| duration of an iteration | running / generated tokens a second: each gets one an iteration |
| prompt tokens an iteration | prefilled tokens a second / ready x duration |
| requests that prefill | first tokens a second / ready x duration |
| prompt tokens that wait | waiting / ready x mean prompt |
| sequences that were put back | with those that wait |

The mean prompt is that of `token_means`; nothing waiting needs none, nothing running is an idle
report. A snapshot counts a prompt whole, with its first token and cached tokens too; upstream's
reports leave those out that the prefix cache had. Running sequences that still prefill count as
generating ones, and rates are means of the window while counts are of the moment: the duration is a
little high, and wrong while the load changes quickly.

Workers are the ready replicas. Upstream acts only while all that were asked for are ready
(`_scaling_in_progress`; a deployment that is not ready ignores what it is told), so `is_settled`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .dynamo_engine import ForwardPass
from .dynamo_forward import Work
from .token_means import mean_prompt_tokens


@dataclass(frozen=True, slots=True)
class TokenRates:
    """What all replicas did during the window, a second."""

    prefilled_tps: float
    """Prompt tokens."""
    generated_tps: float
    """Output tokens."""
    first_tokens_ps: float
    """First tokens: prompts that are through."""


def token_rates(snapshot: MetricsSnapshot, window_s: float) -> TokenRates | None:
    """The rates of a snapshot; `None` if one of them is missing."""
    prefilled_tps, generated_tps = snapshot.prompt_token_rate_tps, snapshot.output_token_rate_tps
    if prefilled_tps is None or generated_tps is None or snapshot.samples is None:
        return None
    return TokenRates(prefilled_tps, generated_tps, snapshot.samples / window_s)


def is_settled(snapshot: MetricsSnapshot, settings: GatewaySettings) -> bool:
    """Whether exactly the replicas that were asked for are ready."""
    return snapshot.replicas_ready == settings.replicas


def queued_prompt_tokens(snapshot: MetricsSnapshot, window_s: float) -> float | None:
    """Prompt tokens that wait, over all replicas; `None` if the snapshot does not say."""
    if snapshot.waiting is None or snapshot.waiting == 0:
        return snapshot.waiting
    prompt = mean_prompt_tokens(snapshot, window_s) if snapshot.samples else None
    return None if prompt is None else snapshot.waiting * prompt


def kv_use(
    snapshot: MetricsSnapshot, window_s: float, kv_capacity_tokens: int | None
) -> float | None:
    """KV tokens in use and waited for, of a ready replica's capacity; `None`: not known."""
    queued = queued_prompt_tokens(snapshot, window_s)
    if not snapshot.replicas_ready or snapshot.kv_usage is None:
        return None
    if queued is None or kv_capacity_tokens is None:
        return None
    return snapshot.kv_usage + queued / snapshot.replicas_ready / kv_capacity_tokens


def forward_pass(
    snapshot: MetricsSnapshot, window_s: float, kv_capacity_tokens: int | None
) -> ForwardPass | None:
    """What a ready replica would report; `None` if the snapshot does not say."""
    ready, running = snapshot.replicas_ready, snapshot.running
    queued = queued_prompt_tokens(snapshot, window_s)
    if not ready or running is None or snapshot.waiting is None or queued is None:
        return None
    queued_each, waiting_each = queued / ready, snapshot.waiting / ready
    if running == 0:
        return ForwardPass(Work(0.0, 0.0, 0.0), 0.0, 0.0, queued_each, waiting_each)
    rates = token_rates(snapshot, window_s)
    if rates is None or rates.generated_tps == 0:
        return None
    if snapshot.kv_usage is None or kv_capacity_tokens is None:
        return None
    seconds = running / rates.generated_tps
    each_s = seconds / ready
    work = Work(
        prefill_tokens=rates.prefilled_tps * each_s,
        decode_requests=running / ready,
        decode_kv_tokens=snapshot.kv_usage * kv_capacity_tokens,
    )
    return ForwardPass(work, rates.first_tokens_ps * each_s, seconds, queued_each, waiting_each)
