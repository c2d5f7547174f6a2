"""Netflix's Vegas limit: golden vectors, a second implementation, its quirks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.netflix_vegas import (
    NetflixVegas,
    NetflixVegasParams,
    log_unit,
    vegas_limit,
)
from gatepilot.agents.baselines.request_sample import RequestSample
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("netflix_vegas")
SITE = Site(Limits(1, 8))
DEFAULT = NetflixVegasParams()


def looks_of(rows: list[list[float | None]]) -> list[Any]:
    names = ("e2e_p95_s", "running", "waiting", "error_rate")
    return [look(dict(zip(names, row, strict=True))) for row in rows]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["samples"])
def test_sample(vector: dict[str, Any]) -> None:
    sample = RequestSample(vector["rtt_s"], vector["in_flight"], vector["is_drop"])
    params = NetflixVegasParams(**vector.get("params", {}))
    found = vegas_limit(params, vector["limit"], vector["unloaded_s"], sample)
    assert found == pytest.approx(vector["wanted"]), vector["why"]


@each(VECTORS["histories"])
def test_history(vector: dict[str, Any]) -> None:
    controller = NetflixVegasParams(**vector["params"]).make(SITE, seed=0)
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


@pytest.mark.parametrize(
    ("limit", "unit"),
    [(1, 1), (9, 1), (10, 1), (99, 1), (100, 2), (999, 2), (1000, 3), (9999, 3), (10_000, 4)],
)
def test_the_unit_is_the_number_of_digits_less_one(limit: int, unit: int) -> None:
    assert log_unit(limit) == unit


# --- a second implementation --------------------------------------------------------------------


def reference(
    samples: list[tuple[float, int, bool]], jitters: list[float], smoothing: float
) -> list[float]:
    """Cuts the samples into stretches between probes first; steps come from a table."""
    limit, found = 20.0, []
    start, draws, unloaded = 0, iter(jitters), math.inf
    jitter = next(draws)
    for i, (rtt, flying, is_drop) in enumerate(samples):
        since = i + 1 - start
        if since >= jitter * 30 * limit:
            start, jitter, unloaded = i + 1, next(draws), rtt
        elif rtt < unloaded:
            unloaded = rtt
        else:
            unit = max(1, len(str(int(limit))) - 1)
            queue = math.ceil(limit * (1 - unloaded / rtt))
            edges = [unit, 3 * unit - 1, 6 * unit]  # last queue of: + 6, + 1, stay
            step = [6, 1, 0, -1][int(np.searchsorted(edges, queue))]
            if is_drop:
                step = -1
            elif 2 * flying < limit:
                step = 0
            if step:
                wanted = float(np.clip(limit + step * unit, 1, 1000))
                limit = (1 - smoothing) * limit + smoothing * wanted
        found.append(limit)
    return found


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1.0, 1.01, 1.1, 1.3, 2.0, 3.0, 9.0]),
            st.integers(0, 400),
            st.sampled_from([False] * 7 + [True]),
        ),
        max_size=120,
    ),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 0.3]),
)
def test_histories_agree(
    samples: list[tuple[float, int, bool]], seed: int, smoothing: float
) -> None:
    controller = replace(DEFAULT, smoothing=smoothing).make(SITE, seed=seed)
    generator = np.random.default_rng(seed)
    jitters = [0.5 + 0.5 * float(generator.random()) for _ in range(200)]
    found = []
    for rtt_s, flying, is_drop in samples:
        shown = controller.sampled(RequestSample(rtt_s, flying, is_drop))
        assert shown == int(controller.state.limit)
        found.append(controller.state.limit)
    assert found == reference(samples, jitters, smoothing)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 1500), min_size=700, max_size=900), st.integers(0, 100))
def test_probes_agree(rtts: list[int], seed: int) -> None:
    """Long enough for a probe at a limit of 20: 300 to 600 samples."""
    samples = [(float(rtt), 0, False) for rtt in rtts]
    controller = DEFAULT.make(SITE, seed=seed)
    generator = np.random.default_rng(seed)
    jitters = [0.5 + 0.5 * float(generator.random()) for _ in range(20)]
    unloaded = []
    for rtt_s, flying, _ in samples:
        controller.sampled(RequestSample(rtt_s, flying))
        unloaded.append(controller.state.unloaded_s)
    first = math.ceil(600 * jitters[0])
    second = first + math.ceil(600 * jitters[1])
    assert unloaded[: first - 1] == [min(rtts[: n + 1]) for n in range(first - 1)]
    rest = rtts[first - 1 : min(second - 1, len(rtts))]
    assert unloaded[first - 1 : second - 1] == [min(rest[: n + 1]) for n in range(len(rest))]


# --- known quirks -------------------------------------------------------------------------------


def loaded(limit: float, unloaded_s: float) -> NetflixVegas:
    controller = DEFAULT.make(SITE, seed=0)
    controller.sampled(RequestSample(unloaded_s, 0))
    controller.state.limit = limit
    return controller


def test_quirk_a_new_minimum_leaves_the_limit_even_on_a_drop() -> None:
    controller = loaded(100.0, 10.0)
    assert controller.sampled(RequestSample(9.0, 100, is_drop=True)) == 100
    assert controller.state.unloaded_s == 9.0


def test_quirk_a_probe_leaves_the_limit_even_on_a_drop_and_takes_load_for_none() -> None:
    controller = loaded(20.0, 1.0)
    controller.state.samples = 599
    assert controller.sampled(RequestSample(30.0, 20, is_drop=True)) == 20
    assert (controller.state.unloaded_s, controller.state.samples) == (30.0, 0)


def test_a_probe_comes_with_the_sample_that_reaches_its_number() -> None:
    controller = loaded(20.0, 1.0)
    controller.state.jitter, controller.state.samples = 0.5, 298  # 0.5 * 30 * 20 = 300
    controller.sampled(RequestSample(30.0, 0))
    assert controller.state.unloaded_s == 1.0
    controller.sampled(RequestSample(30.0, 0))
    assert controller.state.unloaded_s == 30.0


def test_quirk_a_fast_sample_once_is_the_measure_for_long() -> None:
    """One quick answer, and all that follow look like a queue: the limit falls to its middle."""
    controller = loaded(100.0, 1.0)
    found = [controller.sampled(RequestSample(2.0, 100)) for _ in range(150)]
    assert found[-2:] == [12, 12]  # half of 13 is a queue of 7, half of 12 one of 6: it stays


def test_quirk_the_middle_changes_nothing() -> None:
    assert vegas_limit(DEFAULT, 64.0, 61.0, RequestSample(64.0, 64)) == 64.0
    assert vegas_limit(DEFAULT, 64.0, 58.0, RequestSample(64.0, 64)) == 64.0


def test_the_draws_come_from_the_seed_and_lie_between_a_half_and_one() -> None:
    drawn = [DEFAULT.make(SITE, seed=seed).state.jitter for seed in range(200)]
    assert drawn == [DEFAULT.make(SITE, seed=seed).state.jitter for seed in range(200)]
    assert 0.5 <= min(drawn) < 0.52
    assert 0.98 < max(drawn) < 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smoothing": -0.1}, r"smoothing is -0\.1"),
        ({"initial_limit": 0}, "initial_limit is 0"),
        ({"max_limit": 0}, "max_limit is 0"),
        ({"alpha": 0}, "alpha is 0"),
        ({"beta": 0}, "beta is 0"),
        ({"probe_multiplier": 0}, "probe_multiplier is 0"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetflixVegasParams(**changes)
