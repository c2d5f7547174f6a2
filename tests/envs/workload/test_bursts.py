"""Bursts: the closed form against what is drawn, and the mean rate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.workload.arrivals import local_dispersion
from gatepilot.envs.workload.bursts import Bursts
from gatepilot.envs.workload.group import Facts, Group
from gatepilot.envs.workload.lengths import LengthLaw, QuantileTable
from gatepilot.envs.workload.model import WorkloadModel

EITHER = [Bursts(8.0, 25.0, 0.5), Bursts(20.0, 0.0, 1.0), Bursts(5.0, 60.0, 0.0)]
ONE = QuantileTable(np.array([0.0, 1.0]), np.ones(2))


def model(bursts: Bursts | None, rate_rps: float = 3.0, span_s: float = 4000.0) -> WorkloadModel:
    rates = np.array([rate_rps, rate_rps])
    law = LengthLaw(ONE, ONE, 0.0)
    return WorkloadModel(
        Facts("a", "b", "c", "d", "e", "f"),
        span_s,
        (Group("g", rates, "gamma", np.ones(2), law, bursts),),
    )


@pytest.mark.parametrize("bursts", EITHER, ids=str)
def test_the_closed_form_is_what_is_drawn(bursts: Bursts) -> None:
    """Poisson arrivals of a switching rate, drawn here without the engine of renewal processes."""
    rng, span_s, rate_rps = np.random.default_rng(0), 400_000.0, 3.0
    edges, level = bursts.draw(rng, span_s)
    counts = rng.poisson(np.diff(edges) * level * rate_rps)
    arrival_s = np.sort(
        np.repeat(edges[:-1], counts) + rng.random(counts.sum()) * np.repeat(np.diff(edges), counts)
    )
    for window_s in (1.0, 15.0, 60.0):
        seen = local_dispersion(arrival_s, span_s, window_s)
        assert seen == pytest.approx(1 + bursts.local_dispersion(rate_rps, window_s), rel=0.1)


@pytest.mark.parametrize("bursts", EITHER, ids=str)
def test_a_model_bunches_as_the_closed_form_says(bursts: Bursts) -> None:
    drawn = [model(bursts).sample(0.0, 80_000.0, seed).arrival_s for seed in range(3)]
    for window_s in (1.0, 15.0):
        seen = np.mean([local_dispersion(a, 80_000.0, window_s) for a in drawn])
        assert seen == pytest.approx(1 + bursts.local_dispersion(3.0, window_s), rel=0.12)
    # The standard error of the mean level: its variance, remembered for about a busy time.
    assert np.mean([a.size for a in drawn]) == pytest.approx(240_000, rel=0.05)


@given(st.floats(0.01, 1e4), st.floats(0, 1e4), st.floats(0, 4), st.floats(0.01, 1e5))
@settings(max_examples=60, deadline=None)
def test_any_course_covers_the_range(
    busy_s: float, quiet_s: float, level_cv: float, span_s: float
) -> None:
    span_s = min(span_s, 1e5 * (busy_s + quiet_s))
    edges, level = Bursts(busy_s, quiet_s, level_cv).draw(np.random.default_rng(1), span_s)
    assert edges[0] == 0
    assert edges[-1] == span_s
    assert (np.diff(edges) >= 0).all()
    assert level.size == edges.size - 1
    assert (level >= 0).all()
    if level.size > 1 and quiet_s > 0:
        quiet = level == 0
        assert quiet[::2].all() or quiet[1::2].all()


def test_busy_and_quiet_last_as_long_as_they_should() -> None:
    bursts = Bursts(10.0, 30.0, 0.0)
    edges, level = bursts.draw(np.random.default_rng(3), 1e6)
    lengths_s = np.diff(edges)
    assert lengths_s[level > 0].mean() == pytest.approx(10.0, rel=0.03)
    assert lengths_s[level == 0].mean() == pytest.approx(30.0, rel=0.03)
    assert set(level.tolist()) == {0.0, 4.0}
    starts = [bursts.draw(np.random.default_rng(seed), 1.0)[1][0] > 0 for seed in range(2000)]
    assert np.mean(starts) == pytest.approx(0.25, abs=0.04)


def test_without_bursts_nothing_is_drawn_for_them() -> None:
    """The traffic of a model without bursts is what it was before there were any."""
    group = model(None).groups[0]
    both = replace(model(None), groups=(group, replace(group, label="h", bursts=EITHER[0])))
    assert len(both.sample(0.0, 4000.0, 0)) > len(model(None).sample(0.0, 4000.0, 0))
    one, two = (model(None).sample(0.0, 4000.0, 5).arrival_s for _ in range(2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.0, 1.0, 1.0), r"bursts\.busy_s: 0\.0 .* above 0"),
        ((1.0, -1.0, 1.0), r"bursts\.quiet_s: -1\.0 .* at least 0"),
        ((1.0, 1.0, math.nan), r"bursts\.level_cv: nan"),
        ((math.inf, 1.0, 1.0), r"bursts\.busy_s: inf"),
    ],
)
def test_bad_numbers(values: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bursts(*values)
