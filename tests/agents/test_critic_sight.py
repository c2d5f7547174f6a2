"""What the critic is told: the load ahead, and the faults that will be on."""

from __future__ import annotations

import numpy as np
import pytest

from gatepilot.agents.critic_sight import AHEAD_TICKS, SIZE, CriticSight
from gatepilot.agents.layouts import Layouts
from gatepilot.envs.episodes import Episode
from gatepilot.envs.scenario import Scenario, load_scenario
from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.workload.request import Requests

from .training_helpers import SCENARIO

TICK_S, TICKS = 15.0, 40
LOADS = len(AHEAD_TICKS)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(str(SCENARIO))


def arrivals(*ticks_and_rates: tuple[int, float]) -> Requests:
    """Requests of one kind, so many a tick for so many ticks."""
    counts = [rate for ticks, rate in ticks_and_rates for _ in range(ticks)]
    arrival_s = np.concatenate(
        [(i + (np.arange(n) + 0.5) / n) * TICK_S for i, n in enumerate(map(int, counts))]
    )
    n = len(arrival_s)
    return Requests(arrival_s, np.full(n, 4000), np.full(n, 100), len(counts) * TICK_S)


def sight(scenario: Scenario, *loads: Requests) -> CriticSight:
    layouts = Layouts((scenario,) * len(loads), loads, (0,) * len(loads))
    return CriticSight(layouts, 2, TICKS, TICK_S)


def begun(told: CriticSight, start_s: float = 0.0, *faults: Fault) -> CriticSight:
    told.begin(np.arange(2), np.arange(2), [Episode(start_s, 0, faults, ())] * 2)
    return told


def test_loads_ahead_are_told_against_the_next_tick(scenario: Scenario) -> None:
    steady, doubling = arrivals((80, 1000)), arrivals((10, 1000), (70, 2000))
    told = begun(sight(scenario, steady, doubling))
    seen = told.look(np.array([8, 8]))
    assert seen.shape == (2, SIZE)
    assert seen[0, 0] == pytest.approx(seen[1, 0])  # the next tick is the same
    assert seen[0, 1:LOADS] == pytest.approx(0.0, abs=1e-5)
    assert seen[1, 1] == pytest.approx(0.0, abs=1e-5)  # tick 2
    twice = seen[1, 2:LOADS]  # from tick 3 on
    assert twice == pytest.approx(twice[0])
    assert np.log(1.8) < twice[0] <= np.log(2)  # a little is added to both
    half_way = begun(told, 0.5 * TICK_S).look(np.array([8, 8]))
    assert 0 < half_way[1, 1] < twice[0]


def test_a_load_begins_anew_at_its_end(scenario: Scenario) -> None:
    load = arrivals((30, 1000), (15, 3000))
    told = begun(sight(scenario, load, load), 40 * TICK_S)
    early, late = told.look(np.array([2, 5]))
    assert early[0] > late[0]
    assert late[1:4] == pytest.approx(0.0, abs=1e-5)
    assert early[3] == pytest.approx(late[0] - early[0], abs=1e-5)  # ticks 5 to 8


def test_faults_are_told_by_the_share_of_ticks_they_are_on(scenario: Scenario) -> None:
    load = arrivals((80, 1000))
    alone = Fault("replica_errors", 10 * TICK_S, 12 * TICK_S, 0.5, 1.0, 0.0, 0.0)
    all_of_them = Fault("brown_out", 11.5 * TICK_S, 13 * TICK_S, 0.1, 1.0, 0.0, 0.0)
    told = begun(sight(scenario, load, load), 0.0, alone, all_of_them)
    far, near = told.look(np.array([0, 9]))[:, LOADS:].reshape(2, 3, 4)
    assert far.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [2 / 16, 2 / 16, 0, 0]]
    assert near.tolist() == [[0, 0, 0, 0], [2 / 4, 2 / 4, 0, 0], [2 / 16, 2 / 16, 0, 0]]
    on, after = told.look(np.array([11, 13]))[:, LOADS:].reshape(2, 3, 4)
    assert on[0].tolist() == [1, 1, 0, 0]
    assert (after == 0).all()
    crash = Fault("crash", 9 * TICK_S, 9 * TICK_S, 0.0, 1.0, 0.0, 0.0)
    told.begin(np.array([0]), np.array([1]), [Episode(0.0, 0, (crash,), ())])
    assert told.look(np.array([9, 9]))[0, LOADS] == 1
    assert told.look(np.array([10, 9]))[0, LOADS] == 0
    told.begin(np.array([0]), np.array([1]), [Episode(0.0, 0, (), ())])
    assert (told.look(np.array([9, 9]))[0, LOADS:] == 0).all()  # a new episode without faults
    assert (told.look(np.array([9, 9]))[1, LOADS:] != 0).any()
