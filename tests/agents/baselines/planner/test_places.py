"""Gateways that stand at different sites: each is planned for as if it were alone."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.planner.advisor import PlannerAdvisor
from gatepilot.agents.baselines.planner.breaker import BreakerParams
from gatepilot.agents.baselines.planner.forecast import (
    ForecastParams,
    ForecastState,
    Horizon,
    expected,
    see,
)
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Planner
from gatepilot.agents.baselines.planner.sizing import Load, cheapest_sizes
from gatepilot.agents.baselines.planner.table import table_of
from gatepilot.agents.baselines.site import ReplicaSpec, Site, SiteError
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.advice import ADVICE_ENTRIES
from gatepilot.envs.schema.settings import Limits
from gatepilot.reward.slo import Slo

from .places_kit import Neighbours, live, random_rows

SLOW = StepModel(0.0167, 3.5e-5, 6.3e-8, 8.2e-5)
FAST = StepModel(0.0064, 1.0e-5, 4.2e-8, 1.8e-5)
USUAL = Site(Limits(1, 12), replica=ReplicaSpec(SLOW, 110.0))
ANY_CARE = st.builds(
    PlannerParams,
    forecast=st.builds(
        ForecastParams,
        level_weight=st.sampled_from([0.3, 0.9]),
        trend_weight=st.sampled_from([0.02, 0.3]),
        damping=st.sampled_from([0.75, 1.0]),
        error_prior=st.sampled_from([0.0, 0.3]),
    ),
    breaker=st.builds(BreakerParams, failing_steps=st.integers(1, 4)),
    violation_weight=st.sampled_from([0.1, 1.0]),
    errors=st.sampled_from([0.3, 1.3]),
    capacity_error=st.sampled_from([0.06, 0.3]),
    reserve=st.integers(0, 3),
    floor_replicas=st.integers(0, 9),
    peak_share=st.sampled_from([0.0, 1.0]),
    headroom=st.sampled_from([0.8, 1.2]),
    arrival_scv=st.sampled_from([0.7, 1.0]),
    bias_weight=st.sampled_from([0.0, 0.35]),
    mix_weight=st.just(1.0),
    hold_ticks=st.integers(0, 20),
)
SITES = [
    USUAL,
    Site(Limits(2, 30), replica=ReplicaSpec(FAST, 25.3, chunk_tokens=256)),
    Site(Limits(1, 5), replica=ReplicaSpec(SLOW, 300.0)),
    Site(Limits(6, 8), replica=ReplicaSpec(FAST, 0.0)),
]


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    params=st.lists(ANY_CARE, min_size=len(SITES), max_size=len(SITES)),
)
def test_each_is_advised_as_alone_wherever_it_stands(
    seed: int, params: list[PlannerParams]
) -> None:
    live(Neighbours(SITES, params, 6), 95, seed)


def test_there_are_as_many_parameters_as_sites_or_one_set() -> None:
    with pytest.raises(ValueError, match=r"^3 parameters of a planner for 4 sites$"):
        Planner(SITES, [PlannerParams()] * 3)


def test_an_advisor_of_unequal_care_is_another_one() -> None:
    careful = PlannerParams(reserve=3)
    unequal = PlannerAdvisor(SITES[:2], [PlannerParams(), careful])
    alike = PlannerAdvisor(SITES[:2], [careful, careful])
    assert alike.identity == PlannerAdvisor(SITES[:1], careful).identity
    assert unequal.identity["params"] == [asdict(PlannerParams()), asdict(careful)]
    with pytest.raises(ValueError, match=r"^origin: another advisor"):
        alike.copy_rows(np.array([0]), np.array([0]), unequal)


def test_the_order_of_the_sites_is_only_their_numbers() -> None:
    rng, params, order = np.random.default_rng(0), PlannerParams(mix_weight=1.0), [2, 0, 3, 1]
    one = PlannerAdvisor(SITES, params, 8)
    other = PlannerAdvisor([SITES[i] for i in order], params, 8)
    places, rows = rng.integers(0, 4, 8), random_rows(rng, 8)
    first = one.begin(np.arange(8), rows, places)
    np.testing.assert_array_equal(first, other.begin(np.arange(8), rows, np.argsort(order)[places]))
    for _ in range(30):
        rows = random_rows(rng, 8)
        np.testing.assert_array_equal(one.advise(rows), other.advise(rows))


def test_sites_bind_their_own_gateways_and_lead_to_other_plans() -> None:
    """The same rows everywhere: sizes within each site's limits, and no two sites alike."""
    planner = Planner(SITES, PlannerParams(mix_weight=1.0)).fresh(np.arange(4))
    rng, found = np.random.default_rng(1), []
    for _ in range(40):
        plan = planner.see(np.repeat(random_rows(rng, 1), 4, axis=0))
        if not np.isnan(plan.prefill_work).any():  # else what is there stays
            found.append(plan.need)
    needs = np.array(found)
    assert np.all((needs >= [1, 2, 1, 6]) & (needs <= [12, 30, 5, 8]))
    assert needs.max(axis=0).tolist() == [12, 30, 5, 8]
    assert len({tuple(column) for column in needs.T.tolist()}) == 4


def test_all_stand_at_the_first_site_until_told_otherwise() -> None:
    rng, params = np.random.default_rng(2), PlannerParams()
    advisor, alone = PlannerAdvisor(SITES, params, 3), PlannerAdvisor(SITES[:1], params, 3)
    assert advisor.planner.places.tolist() == [0, 0, 0]
    rows = random_rows(rng, 3)
    np.testing.assert_array_equal(advisor.advise(rows), alone.advise(rows))
    advisor.begin(np.array([1, 2]), rows[1:], np.array([3, 2]))
    assert advisor.planner.places.tolist() == [0, 3, 2]
    advisor.begin(np.array([1]), rows[1:2])
    assert advisor.planner.places.tolist() == [0, 0, 2]
    advisor.copy_rows(np.array([2, 0]), np.array([0, 1]))
    assert advisor.planner.places.tolist() == [2, 0, 2]


def test_a_moment_at_which_nobody_begins_changes_nothing() -> None:
    advisor, nobody = PlannerAdvisor(SITES, PlannerParams(), 2), np.zeros(0, np.int64)
    rows, before = random_rows(np.random.default_rng(7), 2), advisor.saved()
    advice = advisor.begin(nobody, rows[nobody], nobody)
    assert advice.shape == (0, len(ADVICE_ENTRIES))
    assert advisor.saved() == before


def test_what_one_site_writes_down_names_no_place_and_several_do() -> None:
    assert "places" not in PlannerAdvisor(SITES[:1], PlannerParams(), 2).saved()
    advisor = PlannerAdvisor(SITES, PlannerParams(), 2)
    advisor.begin(np.array([1]), random_rows(np.random.default_rng(3), 1), np.array([2]))
    assert advisor.saved()["places"] == [0, 2]


def test_who_advises_is_the_same_at_any_sites() -> None:
    params = PlannerParams()
    assert PlannerAdvisor(SITES, params).identity == PlannerAdvisor(SITES[1:], params).identity


# --- parts --------------------------------------------------------------------------------------


@given(
    borne=st.lists(st.floats(0.02, 2) | st.just(np.inf), min_size=1, max_size=6),
    data=st.data(),
)
def test_bounds_of_a_row_are_its_own(borne: list[float], data: st.DataObject) -> None:
    n = len(borne)
    numbers = st.lists(st.integers(1, 20), min_size=n, max_size=n)
    one, other = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    least, most = np.minimum(one, other), np.maximum(one, other)
    logs = np.array(data.draw(st.lists(st.floats(-4, 3), min_size=n, max_size=n)))
    found = cheapest_sizes([Load(logs, 0.2)], np.array(borne), least, most, 0.5)
    for k in range(n):
        row = slice(k, k + 1)
        alone = cheapest_sizes(
            [Load(logs[row], 0.2)], np.array(borne[row]), least[row], most[row], 0.5
        )
        assert least[k] <= found[k] == alone[0] <= most[k]


def test_horizons_of_any_length_are_looked_ahead_side_by_side() -> None:
    params, ticks = ForecastParams(trend_weight=0.3), [1, 2, 7, 22]
    together = ForecastState.start(np.full(4, params.error_prior), 22)
    alone = [ForecastState.start(np.array([params.error_prior]), h) for h in ticks]
    horizons = [Horizon.of([params], [h]) for h in ticks]
    rng = np.random.default_rng(4)
    for _ in range(60):
        load = np.where(rng.random(4) < 0.1, np.nan, rng.uniform(0, 9, 4))
        see(together, load, table_of([params] * 4), Horizon.of([params] * 4, ticks))
        now, later = expected(together, Horizon.of([params] * 4, ticks))
        for k, (state, horizon) in enumerate(zip(alone, horizons, strict=True)):
            see(state, load[k : k + 1], table_of([params]), horizon)
            own = expected(state, horizon)
            assert (now[k], later[k]) == (own[0][0], own[1][0])
            assert together.error_sq[k] == state.error_sq[0]
    assert len(set(together.error_sq.tolist())) == 4


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tick_s": 5.0}, "sites: tick_s is 5.0 at site 1 and 15.0 at site 0"),
        ({"window_s": 30.0}, "sites: window_s is 30.0 at site 1 and 60.0 at site 0"),
        ({"slo": Slo(latency_limit_s=2.0)}, r"sites: slo is Slo\(latency_limit_s=2.0.* at site 1"),
    ],
)
def test_sites_of_another_rhythm_or_promise_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Planner([USUAL, replace(USUAL, **changes)], PlannerParams())


def test_no_site_and_a_site_of_which_too_little_is_known_are_refused() -> None:
    with pytest.raises(ValueError, match="sites: none given, expected one or more"):
        Planner([], PlannerParams())
    with pytest.raises(SiteError, match="planner needs to know what a replica can do"):
        Planner([USUAL, Site(Limits(1, 4))], PlannerParams())


@pytest.mark.parametrize("place", [-1, 4])
def test_a_place_that_is_none_is_named_and_nothing_has_changed(place: int) -> None:
    advisor = PlannerAdvisor(SITES, PlannerParams(), 2)
    rows, before = random_rows(np.random.default_rng(5), 2), advisor.saved()
    with pytest.raises(ValueError, match=f"place {place}: expected 0-3, an index of the sites"):
        advisor.begin(np.arange(2), rows, np.array([0, place]))
    with pytest.raises(ValueError, match=f"place {place}: expected 0-3"):
        advisor.restore(before | {"places": [place, 0]})
    assert advisor.saved() == before


def test_places_are_as_many_as_gateways() -> None:
    advisor, rows = (
        PlannerAdvisor(SITES, PlannerParams(), 2),
        random_rows(np.random.default_rng(6), 2),
    )
    with pytest.raises(ValueError, match="1 places for 2 gateways"):
        advisor.begin(np.arange(2), rows, np.array([0]))


def test_nothing_is_copied_from_other_sites() -> None:
    origin = PlannerAdvisor(SITES[::-1], PlannerParams(), 2)
    with pytest.raises(ValueError, match="origin: another advisor, or one of other sites"):
        PlannerAdvisor(SITES, PlannerParams(), 2).copy_rows(np.array([0]), np.array([1]), origin)
