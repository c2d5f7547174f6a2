"""Netflix's Gradient2 limit: golden vectors, a second implementation, its quirks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.netflix_gradient2 import (
    LongRtt,
    NetflixGradient2Params,
    gradient2_limit,
)
from gatepilot.agents.baselines.request_sample import RequestSample
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("netflix_gradient2")
SITE = Site(Limits(1, 8))
DEFAULT = NetflixGradient2Params()


def looks_of(rows: list[list[float | None]]) -> list[Any]:
    return [look(e2e_p95_s=rtt, running=run, waiting=wait) for rtt, run, wait in rows]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["limits"])
def test_limit(vector: dict[str, Any]) -> None:
    params = NetflixGradient2Params(**vector.get("params", {}))
    sample = RequestSample(vector["rtt_s"], vector["in_flight"])
    found = gradient2_limit(params, vector["limit"], vector["long_s"], sample)
    assert found == pytest.approx(vector["wanted"], abs=1e-6), vector["why"]


@each(VECTORS["long"])
def test_long_term_latency(vector: dict[str, Any]) -> None:
    long = LongRtt()
    found = [long.add(sample, vector["window"]) for sample in vector["samples"]]
    assert found == pytest.approx(vector["wanted"]), vector["why"]


@each(VECTORS["histories"])
def test_history(vector: dict[str, Any]) -> None:
    controller = NetflixGradient2Params(**vector["params"]).make(SITE, seed=0)
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------


def reference(samples: list[tuple[Fraction, int]], window: int) -> list[Fraction]:
    """Exact, and the average as a weighted sum over all samples with every decay applied to it."""
    limit = Fraction(20)
    found: list[Fraction] = []
    weights: list[Fraction] = []
    for n, (rtt, flying) in enumerate(samples, start=1):
        if n <= 10:
            weights = [Fraction(1, n)] * n
        else:
            factor = Fraction(2, window + 1)
            weights = [weight * (1 - factor) for weight in weights] + [factor]
        long = sum(
            (weight * one for weight, (one, _) in zip(weights, samples, strict=False)), Fraction(0)
        )
        if long > 2 * rtt:
            weights = [weight * Fraction(19, 20) for weight in weights]
        if 2 * flying >= limit:
            lost = 1 - min(Fraction(1), max(Fraction(1, 2), Fraction(3, 2) * long / rtt))
            limit += (4 - lost * limit) / 5
            limit = min(Fraction(200), max(Fraction(20), limit))
        found.append(limit)
    return found


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 220)), min_size=1, max_size=60),
    st.sampled_from([5, 20, 600]),
)
def test_histories_agree(samples: list[tuple[int, int]], window: int) -> None:
    controller = NetflixGradient2Params(long_window_samples=window).make(SITE, seed=0)
    exact = reference([(Fraction(rtt, 100), flying) for rtt, flying in samples], window)
    for (rtt, flying), wanted in zip(samples, exact, strict=True):
        controller.sampled(RequestSample(rtt / 100, flying))
        if abs(2 * flying - wanted) < 1e-6:
            return  # binary rounding decides from here on whether it is used
        assert controller.state.limit == pytest.approx(float(wanted), rel=1e-9)


# --- known quirks -------------------------------------------------------------------------------


def warmed(rtt_s: float, limit: float = 20.0) -> Any:  # noqa: ANN401
    controller = DEFAULT.make(SITE, seed=0)
    for _ in range(10):
        controller.sampled(RequestSample(rtt_s, 0))
    controller.state.limit = limit
    return controller


def test_quirk_the_decay_counts_for_the_next_sample_not_for_this_one() -> None:
    controller = warmed(10.0, 100.0)
    controller.sampled(RequestSample(1.0, 100))
    average = 10.0 * (1 - 2 / 601) + 1.0 * 2 / 601
    assert controller.state.long.value_s == pytest.approx(0.95 * average)
    assert controller.state.limit == pytest.approx(100.8)


def test_quirk_the_decay_happens_without_load_too() -> None:
    controller = warmed(10.0, 100.0)
    controller.sampled(RequestSample(1.0, 0))
    assert controller.state.limit == 100.0
    assert controller.state.long.value_s < 0.96 * 10.0


def test_quirk_in_the_warm_up_the_decay_is_lost() -> None:
    controller = DEFAULT.make(SITE, seed=0)
    for rtt_s in (10.0, 1.0, 1.0):  # 11 / 2 is more than twice 1: it decays, but 12 / 3 follows
        controller.sampled(RequestSample(rtt_s, 0))
    assert controller.state.long.value_s == pytest.approx(0.95 * 4.0)
    controller.sampled(RequestSample(4.0, 0))
    assert controller.state.long.value_s == 4.0


def test_quirk_a_level_load_makes_it_creep_up_to_the_bound() -> None:
    controller = DEFAULT.make(SITE, seed=0)
    found = [controller.sampled(RequestSample(10.0, 150)) for _ in range(300)]
    assert found[:3] == [20, 21, 22]
    assert found[-1] == 200


def test_quirk_a_lasting_slowness_becomes_the_normal_latency() -> None:
    """With a window of 20 samples, ten times slower is normal after a while: the limit recovers."""
    controller = NetflixGradient2Params(long_window_samples=20).make(SITE, seed=0)
    for _ in range(50):
        controller.sampled(RequestSample(1.0, 150))
    grown = controller.state.limit
    found = [controller.sampled(RequestSample(10.0, 150)) for _ in range(80)]
    assert min(found) < 0.7 * grown
    assert found[-1] > min(found) + 30


def test_quirk_drops_are_ignored() -> None:
    controller = DEFAULT.make(SITE, seed=0)
    rows: list[Any] = [look(e2e_p95_s=10.0, running=30, waiting=0, error_rate=1.0)] * 3
    assert limits(controller, rows) == [20, 21, 22]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tolerance": 0.9}, r"tolerance is 0\.9"),
        ({"smoothing": 1.1}, r"smoothing is 1\.1"),
        ({"queue_size": -1}, "queue_size -1"),
        ({"long_window_samples": 0}, "long_window_samples 0"),
        ({"min_limit": 201}, "min_limit 201, max_limit 200"),
        ({"initial_limit": 0}, "initial_limit 0"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetflixGradient2Params(**changes)
