"""What a replica can take, against closed forms and against an integral taken another way."""

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.agents.baselines.planner.capacity import (
    LATENCIES,
    Capacity,
    Cell,
    Curves,
    _KnownCurves,
)
from gatepilot.agents.baselines.site import ReplicaSpec
from gatepilot.envs.profiles.step import StepModel

LIMIT_S = 0.8
REPLICA = ReplicaSpec(StepModel(0.0128, 5e-5, 3e-8, 7.5e-5), 110.0, chunk_tokens=512)
"""0.1 ms a prompt token: 0.0128 / 512 + 7.5e-5."""


NORMAL = NormalDist()
HERE = np.array([0])


def root(rises: Callable[[float], float]) -> float:
    """Where a function that rises from below 0 is 0, between 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < 0 else (low, middle)
    return low


def capacity(arrival_scv: float = 1.0, limit_s: float = LIMIT_S) -> Capacity:
    return Capacity([REPLICA], limit_s, [arrival_scv])


class Mix(NamedTuple):
    """What requests are like."""

    prompt_tokens_p50: float
    prompt_tokens_p95: float
    busy_s: float

    def curves(self, of: Capacity) -> Curves:
        return of.curves(HERE, *np.array([self]).T)

    def busiest_share(self, of: Capacity, log_limit: float = 0.0) -> float:
        return float(self.curves(of).busiest_share(np.array([log_limit]))[0])

    def log_latency(self, of: Capacity, busy_share: float) -> float:
        return float(self.curves(of).log_latency(np.array([busy_share]))[0])


def test_work_of_a_request_by_hand() -> None:
    made = capacity()
    assert made.prefill_token_s(HERE) == pytest.approx([1e-4])
    # context 1000 + 100 / 2: 5e-5 + 3e-8 * 1050 = 8.15e-5 a token
    added_s = made.output_token_s(HERE, np.array([1000.0]), np.array([100.0]))
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
        found = mix.busiest_share(made, math.log(latency))
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
    found = mix.busiest_share(capacity(arrival_scv), math.log(latency))
    expected = independent_share(mix, latency * LIMIT_S, arrival_scv)
    assert found == pytest.approx(expected, abs=0.05)


def test_where_no_number_of_replicas_helps_the_others_count() -> None:
    """A limit out of reach (dynamo PR#11624) leaves something to divide by."""
    for mix in (Mix(5000.0, 20_000.0, 0.7), Mix(20_000.0, 25_000.0, 2.0), Mix(9e4, 1e5, 9.0)):
        assert 0.001 < mix.busiest_share(capacity()) < 0.9


def test_the_expected_latency_of_an_idle_replica_is_the_prefill_of_a_long_prompt() -> None:
    found_s = LIMIT_S * math.exp(Mix(600.0, 2000.0, 0.1).log_latency(capacity(), 0.0))
    assert found_s == pytest.approx(2000 * 1e-4, rel=0.1)


@pytest.mark.parametrize("mix", [Mix(600.0, 2000.0, 0.1), Mix(1500.0, 4000.0, 0.5)])
def test_more_latency_lets_replicas_be_busier_and_the_inverse_fits(mix: Mix) -> None:
    made = capacity()
    shares = [mix.busiest_share(made, math.log(x)) for x in LATENCIES if x > 0.5]
    assert all(later >= earlier for earlier, later in itertools.pairwise(shares))
    for latency in (1.2, 2.0, 3.0):
        share = mix.busiest_share(made, math.log(latency))
        assert mix.log_latency(made, share) == pytest.approx(math.log(latency), abs=0.05)


def test_bursts_and_longer_prompts_leave_less() -> None:
    base = Mix(600.0, 2000.0, 0.1).busiest_share(capacity())
    assert Mix(600.0, 2000.0, 0.1).busiest_share(capacity(4.0)) < base
    assert Mix(600.0, 5000.0, 0.1).busiest_share(capacity()) < base
    assert Mix(600.0, 2000.0, 0.2).busiest_share(capacity()) < base


def test_odd_quantiles_of_a_histogram_are_borne() -> None:
    for p50, p95 in ((500.0, 500.0), (500.0, 400.0), (1.0, 131_072.0)):
        assert 0.0 <= Mix(p50, p95, 0.05).busiest_share(capacity()) <= 1.0


def test_curves_are_read_as_numpy_reads_them_to_the_bit() -> None:
    rng, logs = np.random.default_rng(0), np.log(np.geomspace(0.05, 10.0, 64))
    shares = np.sort(rng.uniform(-3, 1, (50, 64)), axis=1)
    curves = Curves(shares, shares)
    for x in [*rng.uniform(-5, 3, (50, 50)).T, *shares.T, *np.broadcast_to(logs, (50, 64)).T]:
        found = curves.log_latency(x), curves.busiest_share(x)
        for k, (at, own) in enumerate(zip(x.tolist(), shares, strict=True)):
            assert found[0][k] == np.interp(at, own, logs)
            assert found[1][k] == np.interp(at, logs, own)


def test_equal_replicas_share_their_curves_and_copies_take_none_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved: list[Cell] = []
    solve = _KnownCurves._solved

    def counting(self: _KnownCurves, cell: Cell) -> NDArray[np.float64]:
        solved.append(cell)
        return solve(self, cell)

    monkeypatch.setattr(_KnownCurves, "_solved", counting)
    scv = 1.0 + 1 / 1024  # no other test's
    later = replace(REPLICA, cold_start_s=400.0)
    places = np.array([0, 1, 1])
    mixes = np.array([[811.0] * 3, [2511.0, 2511.0, 3000.0], [0.1] * 3])
    one = Capacity([REPLICA, later], 0.8, [scv] * 2)
    first = one.curves(places, *mixes)
    assert len(solved) == 2  # the cold start makes no difference
    for other in (
        Capacity([replace(REPLICA, max_num_seqs=7)] * 2, 0.8, [scv] * 2),
        copy.deepcopy(one),
        pickle.loads(pickle.dumps(one)),  # noqa: S301  # our own
    ):
        assert other.curves(places, *mixes).allowed.tobytes() == first.allowed.tobytes()
    assert len(solved) == 2
    assert len(pickle.dumps(one)) < 2000
    stricter = Capacity([REPLICA, later], 0.7, [scv] * 2).curves(places, *mixes)
    assert len(solved) == 4
    assert (stricter.busiest_share(np.zeros(3)) < first.busiest_share(np.zeros(3))).all()


def test_more_mixes_than_are_kept_are_solved_again_and_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixes = np.array([[300.0, 600.0, 900.0, 300.0], [2000.0] * 4, [0.1] * 4])
    places, scv = np.zeros(4, np.int64), 1.0 + 1 / 512  # no other test's
    with monkeypatch.context() as patched:
        patched.setattr("gatepilot.agents.baselines.planner.capacity._MOST_CURVES", 2)
        found = Capacity([REPLICA], 0.8, [scv]).curves(places, *mixes).expected
    kept = Capacity([REPLICA], 0.8, [scv]).curves(places, *mixes).expected
    assert found.tobytes() == kept.tobytes()
    assert found[0].tobytes() == found[3].tobytes() != found[1].tobytes()
