"""Section `queueing`: the right engine meets its claims, a wrong one does not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.experiments.validation.claim import ValidationContext
from gatepilot.experiments.validation.queueing import BAR, Cell, run
from gatepilot.experiments.validation.queues import (
    FULL,
    HEAVY,
    LOADS,
    MEAN_STEPS,
    QUEUES,
    QUICK,
    Effort,
    MeanWait,
    Queue,
    bounded_pareto,
    measure,
)

SMALL = Effort(1 << 15, 1 << 10, 16, 0.015, 80)
BY_NAME = {queue.name: queue for queue in QUEUES}


def cell(name: str, load: float, effort: Effort = SMALL, **wrong: Any) -> Cell:  # noqa: ANN401
    queue = BY_NAME[name]
    params = replace(queue.params, **wrong)
    return Cell(queue, load, measure(queue, load, effort, seed=0, params=params), None)


@pytest.mark.parametrize(
    ("name", "load"),
    [("M/M/1", 0.5), ("M/D/1", 0.7), ("M/M/2", 0.7), ("M/M/8", 0.7), ("M/M/1-PS", 0.7)],
)
def test_the_right_engine_meets_its_claim(name: str, load: float) -> None:
    found = cell(name, load).claim()
    assert found.passed, found
    assert found.interval is not None
    assert found.interval[1] - found.interval[0] < 2 * BAR


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param("M/M/1", {"base_s": 1.01 / MEAN_STEPS}, id="1 % more load"),
        pytest.param("M/D/1", {"base_s": 0.99 / MEAN_STEPS}, id="1 % less load"),
        pytest.param("M/M/1", {"max_num_seqs": 2}, id="two servers for one"),
        pytest.param("M/M/8", {"max_num_seqs": 9}, id="nine servers for eight"),
        pytest.param("M/M/8", {"max_num_seqs": 7}, id="seven servers for eight"),
        pytest.param("M/M/1-PS", {"per_seq_s": 1.01 / MEAN_STEPS}, id="sharing 1 % slower"),
        pytest.param("M/M/1-PS", {"base_s": 0.1 / MEAN_STEPS}, id="an iteration has a base"),
        pytest.param("M/M/1-PS", {"max_num_seqs": 8}, id="the ninth waits"),
    ],
)
def test_a_wrong_engine_does_not(name: str, wrong: dict[str, float]) -> None:
    """At load 0.9 a percent of load is ten of wait."""
    load = 0.9
    if name == "M/M/1-PS" and "max_num_seqs" in wrong:
        name, load = "M/G/1-PS, heavy tail", 0.7  # with an exponential service nothing would change
    effort = replace(SMALL, most_runs=SMALL.pilot_runs)
    assert not cell(name, load, effort, **wrong).claim().passed


def test_a_mean_that_is_not_known_well_enough_is_not_met() -> None:
    queue = BY_NAME["M/M/1"]
    for half_width_s, passed in ((0.019, True), (0.021, False)):
        exact = Cell(queue, 0.5, MeanWait(1.0, half_width_s, 16, 1000), None)
        assert exact.claim().passed is passed
    off = Cell(queue, 0.5, MeanWait(1.021, 0.001, 16, 1000), None)
    assert not off.claim().passed


def test_a_run_without_an_answer_is_not_met() -> None:
    none = cell("M/M/1", 0.5, Effort(1 << 10, 1 << 6, 4, 0.01, 8), request_timeout_s=1e-9)
    assert math.isnan(none.error)
    assert not none.claim().passed


def test_more_runs_where_the_spread_asks_for_them() -> None:
    queue = BY_NAME["M/M/1"]
    low, high = (measure(queue, load, SMALL, seed=1) for load in (0.3, 0.7))
    assert low.runs < high.runs < SMALL.most_runs
    assert high.half_width_s <= SMALL.half_width * high.mean_s
    assert high == measure(queue, 0.7, SMALL, seed=1)
    assert high.mean_s != measure(queue, 0.7, SMALL, seed=2).mean_s


def test_the_engine_can_count_the_iterations_of_a_run() -> None:
    """At most 2**39: the place of the count in a running sequence's key."""
    for effort in (FULL, QUICK):
        assert effort.run_requests * MEAN_STEPS < 2**39


class EvenlySpread:
    """Stands for a generator whose draws fill the unit interval evenly: moments without chance."""

    def random(self, size: int) -> NDArray[np.float64]:
        return (np.arange(size) + 0.5) / size


def test_the_heavy_tail_has_the_moments_it_says_and_ends_where_it_says() -> None:
    rng = cast("np.random.Generator", EvenlySpread())
    services = bounded_pareto(rng, 2_000_000, MEAN_STEPS)
    assert services.mean() == pytest.approx(MEAN_STEPS, rel=1e-4)
    assert services.var() / services.mean() ** 2 == pytest.approx(2.461, rel=3e-3)
    assert 800 < services.max() / services.min() <= 1000.01
    assert BY_NAME["M/G/1-PS, heavy tail"].law is HEAVY


def test_every_load_of_the_bar_is_claimed_for_each_kind_of_queue() -> None:
    for name in ("M/M/1", "M/D/1", "M/M/2", "M/M/1-PS", "M/G/1-PS, heavy tail"):
        assert BY_NAME[name].loads == LOADS
    assert len(BY_NAME) == len(QUEUES)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_quick_section_meets_all_its_bars() -> None:
    section = run(ValidationContext(traces=None, reference=None, quick=True))
    assert len(section.claims) == 12
    assert section.missed == ()
    assert len({figure.name for figure in section.figures}) == len(section.figures) == 2


def test_a_queue_says_what_it_is() -> None:
    queue = Queue("M/M/3", BY_NAME["M/M/1"].law, servers=3)
    assert queue.params.max_num_seqs == 3
    assert queue.params.per_seq_s == 0.0
    assert queue.stepped_s(0.5) == pytest.approx(queue.formula_s(0.5), rel=1e-4)
