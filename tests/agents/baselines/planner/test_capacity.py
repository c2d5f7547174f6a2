"""What a replica can take, against closed forms and against an integral taken another way."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pytest

from gatepilot.agents.baselines.planner.capacity import LATENCIES, Capacity, Curves
from gatepilot.agents.baselines.site import ReplicaSpec
from gatepilot.envs.profiles.step import StepModel

LIMIT_S = 0.8
REPLICA = ReplicaSpec(StepModel(0.0128, 5e-5, 3e-8, 7.5e-5), 110.0, chunk_tokens=512)
"""0.1 ms a prompt token: 0.0128 / 512 + 7.5e-5."""


NORMAL = NormalDist()


def root(rises: Callable[[float], float]) -> float:
    """Where a function that rises from below 0 is 0, between 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < 0 else (low, middle)
    return low


def capacity(arrival_scv: float = 1.0, limit_s: float = LIMIT_S) -> Capacity:
    return Capacity(REPLICA, limit_s, arrival_scv)


class Mix(NamedTuple):
    """What requests are like."""

    prompt_tokens_p50: float
    prompt_tokens_p95: float
    busy_s: float

    def curves(self, of: Capacity) -> Curves:
        return of.curves(*np.array([self]).T)[0]


def test_work_of_a_request_by_hand() -> None:
    made = capacity()
    assert made.prefill_token_s == pytest.approx(1e-4)
    # context 1000 + 100 / 2: 5e-5 + 3e-8 * 1050 = 8.15e-5 a token
    added_s = made.output_token_s(np.array([1000.0]), np.array([100.0]))
    assert added_s == pytest.approx([8.15e-5])


def too_many_late(limit_s: float, share: float) -> float:
    """M/M/1 with work of 0.2 s: the tail of its wait, less 5 %."""
    return share * math.exp(-(1 - share) * limit_s / 0.2) - 0.05


def test_short_prompts_make_the_exact_queue_of_one_server() -> None:
    """Prompts of no length and work as variable as an exponential: M/M/1, whose tail is known."""
    sigma = 0.9
    # Longer prompts than twice the P95 are not believed, so the mix varies a little less than it
    # would; arrivals vary as much more, for what counts is the sum of both.
    drawn = np.exp(sigma * np.random.default_rng(0).standard_normal(1_000_000))
    drawn = np.minimum(drawn, 2 * math.exp(sigma * NORMAL.inv_cdf(0.95)))
    made = capacity(2.0 - float(drawn.var() / drawn.mean() ** 2))
    mix = Mix(1e-3, 1e-3 * math.exp(sigma * NORMAL.inv_cdf(0.95)), 0.2)
    for latency in (0.5, 1.0, 2.0):
        limit_s = latency * LIMIT_S
        exact = root(partial(too_many_late, limit_s))
        found = mix.curves(made).busiest_share(math.log(latency))
        assert found == pytest.approx(exact, abs=0.02)  # the mix stands on a grid of 5 %


def independent_share(mix: Mix, latency_s: float, arrival_scv: float) -> float:
    """The same tail, with the mean over prompts as an integral over their density."""
    sigma = math.log(mix.prompt_tokens_p95 / mix.prompt_tokens_p50) / NORMAL.inv_cdf(0.95)
    points = np.linspace(-8, 8, 8001)
    density = np.array([NORMAL.pdf(z) for z in points.tolist()])
    prompts = mix.prompt_tokens_p50 * np.exp(sigma * points)
    prompts = np.minimum(prompts, 2 * mix.prompt_tokens_p95)
    mean, square = (float(np.trapezoid(density * prompts**k, points)) for k in (1, 2))
    spread_s = mix.busy_s * (arrival_scv + square / mean**2 - 1) / 2

    def late(share: float) -> float:
        longest = latency_s / 1e-4  # prompts whose prefill takes just the latency
        edge = math.log(longest / mix.prompt_tokens_p50) / sigma

        def weighted(z: float) -> float:
            slack_s = latency_s - mix.prompt_tokens_p50 * math.exp(sigma * z) * 1e-4
            density: float = NORMAL.pdf(z)
            return density * share * math.exp(-(1 - share) * slack_s / spread_s)

        points = np.linspace(-8, min(edge, 8), 4001)
        waited = float(np.trapezoid([weighted(z) for z in points.tolist()], points))
        return waited + 1 - NORMAL.cdf(edge)

    hopeless = late(0.0)
    allowed = hopeless + max(0.05 - hopeless, 0.025 * (1 - hopeless))
    return root(lambda u: late(u) - allowed)


@pytest.mark.parametrize(
    ("mix", "latency"),
    [
        (Mix(600.0, 2000.0, 0.1), 1.0),
        (Mix(600.0, 2000.0, 0.1), 2.0),
        (Mix(600.0, 4000.0, 0.15), 1.0),
        (Mix(1500.0, 4000.0, 0.2), 1.5),
        (Mix(100.0, 300.0, 0.02), 0.5),
    ],
)
@pytest.mark.parametrize("arrival_scv", [0.5, 1.0, 4.0])
def test_shares_agree_with_an_integral_over_prompts(
    mix: Mix, latency: float, arrival_scv: float
) -> None:
    found = mix.curves(capacity(arrival_scv)).busiest_share(math.log(latency))
    expected = independent_share(mix, latency * LIMIT_S, arrival_scv)
    assert found == pytest.approx(expected, abs=0.05)


def test_where_no_number_of_replicas_helps_the_others_count() -> None:
    """A limit out of reach (dynamo PR#11624) leaves something to divide by."""
    for mix in (Mix(5000.0, 20_000.0, 0.7), Mix(20_000.0, 25_000.0, 2.0), Mix(9e4, 1e5, 9.0)):
        assert 0.001 < mix.curves(capacity()).busiest_share(0.0) < 0.9


def test_the_expected_latency_of_an_idle_replica_is_the_prefill_of_a_long_prompt() -> None:
    found_s = LIMIT_S * math.exp(Mix(600.0, 2000.0, 0.1).curves(capacity()).log_latency(0.0))
    assert found_s == pytest.approx(2000 * 1e-4, rel=0.1)


@pytest.mark.parametrize("mix", [Mix(600.0, 2000.0, 0.1), Mix(1500.0, 4000.0, 0.5)])
def test_more_latency_lets_replicas_be_busier_and_the_inverse_fits(mix: Mix) -> None:
    made = capacity()
    shares = [mix.curves(made).busiest_share(math.log(x)) for x in LATENCIES if x > 0.5]
    assert all(later >= earlier for earlier, later in itertools.pairwise(shares))
    for latency in (1.2, 2.0, 3.0):
        share = mix.curves(made).busiest_share(math.log(latency))
        assert mix.curves(made).log_latency(share) == pytest.approx(math.log(latency), abs=0.05)


def test_bursts_and_longer_prompts_leave_less() -> None:
    base = Mix(600.0, 2000.0, 0.1).curves(capacity()).busiest_share(0.0)
    assert Mix(600.0, 2000.0, 0.1).curves(capacity(4.0)).busiest_share(0.0) < base
    assert Mix(600.0, 5000.0, 0.1).curves(capacity()).busiest_share(0.0) < base
    assert Mix(600.0, 2000.0, 0.2).curves(capacity()).busiest_share(0.0) < base


def test_odd_quantiles_of_a_histogram_are_borne() -> None:
    for p50, p95 in ((500.0, 500.0), (500.0, 400.0), (1.0, 131_072.0)):
        assert 0.0 <= Mix(p50, p95, 0.05).curves(capacity()).busiest_share(0.0) <= 1.0
