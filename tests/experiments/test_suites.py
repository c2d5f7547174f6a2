"""The suites: every shipped scenario is in one, and keeps to what the suite promises."""

from pathlib import Path

import pytest

from gatepilot.envs.scenario import load_scenario, scenario_names
from gatepilot.experiments.suites import SUITES, SuiteError, suite

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAX_PLOT_BYTES = 60_000


def test_every_shipped_scenario_is_in_a_suite_and_every_named_one_ships() -> None:
    assert set().union(*SUITES.values()) == set(scenario_names())
    assert not set(SUITES["core"]) & set(SUITES["full"])
    for part in ("quick", "threshold"):
        assert set(SUITES[part]) < set(SUITES["full"])


@pytest.mark.parametrize("name", suite("full"))
def test_a_scenario_of_the_suite_is_of_a_size_to_learn_on(name: str) -> None:
    scenario = load_scenario(name)
    assert 60 <= scenario.control.episode_ticks <= 240
    assert 4 <= scenario.cluster.max_replicas <= 16
    assert scenario.workload.model is not None, "it needs no trace"


@pytest.mark.parametrize("name", suite("threshold"))
def test_where_the_threshold_matters_both_cures_are_called_for(name: str) -> None:
    kinds = {fault.kind for fault in load_scenario(name).faults}
    assert {"sick_replica", "brown_out"} <= kinds
    assert all(fault.mean_interval_s is not None for fault in load_scenario(name).faults)


def test_an_unknown_suite_is_told_the_known_ones() -> None:
    with pytest.raises(SuiteError, match="expected one of core, quick, full, threshold"):
        suite("fullx")
