"""A wandering load keeps what thinning must keep, and wanders as far and as fast as it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.envs.workload.load_curve import RAMP_S, wandering
from gatepilot.envs.workload.request import Requests

DAY_S = 86_400.0


def poisson(rate_rps: float, span_s: float = DAY_S, seed: int = 0) -> Requests:
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.uniform(0.0, span_s, rng.poisson(rate_rps * span_s)))
    n = len(arrival_s)
    numbers = np.arange(1, n + 1, dtype=np.int32)
    return Requests(arrival_s, rng.integers(1, 999, n, dtype=np.int32), numbers, span_s)


@given(seed=st.integers(0, 2**32), lowest=st.floats(0.01, 1.0))
def test_what_is_kept_was_there(seed: int, lowest: float) -> None:
    requests = poisson(0.02)
    kept = wandering(requests, lowest, seed=seed)
    places = kept.output_tokens - 1  # numbered in `poisson`
    assert kept.span_s == requests.span_s
    np.testing.assert_array_equal(kept.arrival_s, requests.arrival_s[places])
    np.testing.assert_array_equal(kept.prompt_tokens, requests.prompt_tokens[places])
    assert (np.diff(places) > 0).all()


def test_lowest_one_keeps_everything() -> None:
    requests = poisson(0.05)
    assert len(wandering(requests, 1.0, seed=3)) == len(requests)


def test_same_seed_same_bytes_other_seed_other_curve() -> None:
    requests = poisson(0.5)
    first, again = (wandering(requests, 0.2, seed=1) for _ in range(2))
    other = wandering(requests, 0.2, seed=2)
    assert first.arrival_s.tobytes() == again.arrival_s.tobytes()
    assert first.arrival_s.tobytes() != other.arrival_s.tobytes()


def test_the_rate_wanders_between_its_bounds_and_reaches_both() -> None:
    rate_rps, lowest, minute_s = 20.0, 0.25, 60.0
    kept = wandering(poisson(rate_rps), lowest, seed=4)
    counts = np.bincount((kept.arrival_s / minute_s).astype(int)) / (rate_rps * minute_s)
    noise = 5 / np.sqrt(rate_rps * minute_s)  # five standard deviations of a Poisson count
    assert counts.min() > lowest - noise
    assert counts.max() < 1 + noise
    assert counts.min() < lowest * 1.3
    assert counts.max() > 0.85


def test_no_step_is_faster_than_the_shortest_ramp() -> None:
    rate_rps, bin_s = 200.0, 10.0
    kept = wandering(poisson(rate_rps, 7200.0), 0.2, seed=5)
    counts = np.bincount((kept.arrival_s / bin_s).astype(int)) / (rate_rps * bin_s)
    noise = 6 * np.sqrt(2 / (rate_rps * bin_s))
    steepest = 0.8 * bin_s / RAMP_S[0]  # the whole way in the shortest time
    assert np.abs(np.diff(counts)).max() < steepest + noise


@pytest.mark.parametrize("lowest", [0.0, -0.1, 1.01, float("nan")])
def test_a_share_outside_its_range_is_named(lowest: float) -> None:
    with pytest.raises(ValueError, match=f"lowest: {lowest} is not a share above 0"):
        wandering(poisson(0.01), lowest, seed=0)
