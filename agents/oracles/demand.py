"""How many replicas the traffic of a window will need, known beforehand.

Three resources of a replica are compared with what arrives, per second:

- time: a prompt token takes its share of a full prefill iteration, `base / chunk + per_prefill`;
  an output token rides along in an iteration and adds `per_seq + per_ctx * context` to it;
- places in the batch: a sequence holds one for as many iterations as it emits tokens;
- KV cache: prompt plus half of the output, for as long.

The iteration time behind the last two is that of a full batch, an upper bound. The coefficients are
the profile's (`envs/profiles`), the iteration model is the engine's (docs/simulator.md, Replicas).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...envs.episodes import engine_params
from ...envs.profiles.profile import load_profile
from ...envs.scenario import Scenario
from ...envs.workload.request import Requests


def replicas_worth(
    scenario: Scenario, requests: Requests, start_s: float, bins: int, bin_s: float
) -> NDArray[np.float64]:
    """What arrives in each bin, in replicas kept busy to the full: `(bins,)`.

    Args:
        scenario: Profile and engine limits.
        requests: The offered load.
        start_s: Start of the first bin within it.
        bins: Number of bins.
        bin_s: Their length.
    """
    profile, cluster = load_profile(scenario.profile), scenario.cluster
    prompt, output = (
        np.asarray(tokens, np.float64)
        for tokens in (requests.prompt_tokens, requests.output_tokens)
    )
    context = prompt + output / 2
    busy_s = prompt * (profile.base_s / cluster.chunk_tokens + profile.per_prefill_token_s)
    busy_s += output * (profile.per_seq_s + profile.per_ctx_token_s * context)
    full_batch = cluster.max_num_seqs
    iteration_s = (
        profile.base_s
        + full_batch * profile.per_seq_s
        + full_batch * profile.per_ctx_token_s * float(context.mean())
    )
    held_s = output * iteration_s
    shares = [busy_s, held_s / full_batch]
    kv_tokens = scenario.kv_capacity_tokens
    if kv_tokens is not None:
        shares.append(held_s * context / kv_tokens)
    place = np.floor((requests.arrival_s - start_s) / bin_s).astype(np.int64)
    inside = (place >= 0) & (place < bins)
    sums = [np.bincount(place[inside], share[inside], minlength=bins) for share in shares]
    worth: NDArray[np.float64] = np.max(sums, axis=0) / bin_s
    return worth


def planned_replicas(
    worth: NDArray[np.float64],
    lost: NDArray[np.int64],
    *,
    target: float,
    ahead: int,
    hold: int,
) -> NDArray[np.int64]:
    """Replicas to ask for at each bin so that those which will be needed are ready by then.

    Args:
        worth: Of each bin, from `replicas_worth`.
        lost: Replicas that do not serve in each bin, though they are there.
        target: Share of a replica's capacity to fill.
        ahead: Bins from an order to its replica's first request.
        hold: Bins for which a need is kept up after it has passed.
    """
    need = np.ceil(worth / target - 1e-9) + lost
    padded = np.concatenate([np.repeat(need[:1], hold), need, np.repeat(need[-1:], ahead)])
    spans = np.lib.stride_tricks.sliding_window_view(padded, hold + ahead + 1)
    planned: NDArray[np.int64] = np.maximum(spans.max(axis=1), 1).astype(np.int64)
    return planned


def bins_ahead(scenario: Scenario) -> int:
    """Ticks from an order until the slowest replica it brings is surely ready, rounded up."""
    params = engine_params(scenario)
    longest_s = params.cold_start_s * (1 + params.cold_start_spread)
    return math.ceil(longest_s / scenario.control.tick_s)
