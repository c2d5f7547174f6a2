"""The planner's advice: what it says, who it is, and where it goes on from."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gatepilot.agents.baselines.planner.advisor import (
    NAME,
    VERSION,
    PlannerAdvisor,
    advisor_identity,
    identified,
    site_advisor,
)
from gatepilot.agents.baselines.planner.breaker import BreakerParams
from gatepilot.agents.baselines.planner.forecast import ForecastParams
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Planner
from gatepilot.agents.baselines.site import Site, SiteError
from gatepilot.envs.schema.advice import ADVICE_ENTRIES, ADVICE_INDEX, Advice
from gatepilot.envs.schema.fields import FIELD_INDEX, Rows
from gatepilot.envs.schema.settings import Limits
from gatepilot.reward.slo import Slo

from .test_plain_planner import SITE, rows_of, snapshot

PARAMS = PlannerParams()


def moments(n: int, ticks: int, seed: int = 0) -> list[Rows]:
    """Rows of n gateways whose load wanders, with gaps."""
    rng = np.random.default_rng(seed)
    found = []
    for tick in range(ticks):
        rows = rows_of(
            *(snapshot(request_rate_rps=20 + 15 * math.sin(tick / 9 + i)) for i in range(n))
        )
        rows[:, FIELD_INDEX["replicas_requested"]] = rng.integers(1, 12, n)
        rows[:, FIELD_INDEX["ttft_p95_s"]] = rng.uniform(0.1, 1.5, n)
        rows[:, FIELD_INDEX["replica_error_spread"]] = [math.nan, 0.0, 0.5, 0.05][tick % 4]
        rows[rng.random(n) < 0.1, FIELD_INDEX["request_rate_rps"]] = np.nan
        found.append(rows)
    return found


def by_name(advice: Advice, row: int = 0) -> dict[str, float]:
    return {entry.name: float(advice[row, i]) for i, entry in enumerate(ADVICE_ENTRIES)}


def test_it_says_what_the_planner_sees_and_wants() -> None:
    params = replace(PARAMS, peak_share=0.0, hold_ticks=8)
    advisor, planner = PlannerAdvisor([SITE], params), Planner([SITE], params)
    for tick in range(11):
        rate = 60.0 if tick < 5 else 5.0
        at = snapshot(
            request_rate_rps=rate,
            replicas_requested=6.0,
            replicas_ready=6.0,
            breaker_threshold=0.4,
            replica_error_spread=[None, 0.0, 0.5][tick % 3],
        )
        rows = rows_of(at)
        told = by_name(advisor.begin(np.array([0]), rows) if tick == 0 else advisor.advise(rows))
        plan = planner.see(rows)
        assert told["prefill_work"] == plan.prefill_work[0]
        assert told["decode_work"] == plan.decode_work[0]
        assert told["work_peak"] == plan.work_peak[0]
        assert told["work_mean"] == plan.work_mean[0]
        assert told["replicas_wanted"] == plan.replicas[0]
        assert told["replicas_needed"] == plan.need[0]
        assert told["replicas_gap"] == plan.replicas[0] - 6
        assert told["threshold_gap"] == pytest.approx([0.0, 0.5 - 0.4, 0.1 - 0.4][tick % 3])
    assert told["replicas_needed"] < told["replicas_wanted"]  # held since the rush


def test_what_the_planner_does_not_know_is_unknown_and_it_wants_what_there_is() -> None:
    told = by_name(PlannerAdvisor([SITE], PARAMS).advise(rows_of(snapshot(request_rate_rps=None))))
    unknown = {entry.name for entry in ADVICE_ENTRIES if entry.nullable}
    assert {name for name, value in told.items() if math.isnan(value)} == unknown
    assert (told["replicas_wanted"], told["replicas_gap"]) == (4.0, 0.0)


# Advice that policies have been trained with. If this test fails because the planner or its advice
# was meant to change: raise `VERSION`, and note the new figures. (Defaults may change without.)
PINNED_PARAMS = PlannerParams(
    forecast=ForecastParams(level_weight=0.8, trend_weight=0.05, damping=0.85, error_prior=0.2),
    breaker=BreakerParams(failing_steps=2, sound_steps=10, spread=0.08),
    violation_weight=0.5,
    errors=1.0,
    capacity_error=0.15,
    reserve=1,
    peak_share=0.5,
    peak_kept=0.99,
    headroom=0.9,
    arrival_scv=1.0,
    bias_weight=0.2,
    mix_weight=0.5,
    catch_up_s=60.0,
    catch_up_share=0.25,
    hold_ticks=15,
)
PINNED = {
    "prefill_work": 2.0396654343618597,
    "decode_work": 0.16623273290049162,
    "work_peak": 3.481835368143449,
    "work_mean": 2.7868444738963625,
    "replicas_wanted": 9.45,
    "replicas_needed": 9.567307692307692,
    "replicas_gap": 3.341666666666667,
    "threshold_gap": -0.10000000000000005,
}


def test_the_advice_of_this_version_is_the_pinned_one() -> None:
    advisor = PlannerAdvisor([SITE], PINNED_PARAMS, 2)
    first, *others = moments(2, 60)
    advice = [advisor.begin(np.arange(2), first), *(advisor.advise(rows) for rows in others)]
    means = np.nanmean(np.stack(advice), axis=(0, 1))
    assert VERSION == 1
    assert dict(zip(ADVICE_INDEX, means.tolist(), strict=True)) == pytest.approx(PINNED, rel=1e-9)


# --- batches ------------------------------------------------------------------------------------


def test_gateways_that_begin_anew_leave_the_others_alone() -> None:
    together = PlannerAdvisor([SITE], PARAMS, 3)
    alone = [PlannerAdvisor([SITE], PARAMS) for _ in range(3)]
    for tick, rows in enumerate(moments(3, 50)):
        which = np.arange(3) if tick == 0 else np.array([2, 0]) if tick == 23 else np.array([], int)
        advice = np.full((3, len(ADVICE_ENTRIES)), np.nan)
        if tick > 0:
            advice = together.advise(rows)
        for i, one in enumerate(alone):
            own = rows[i : i + 1]
            if tick > 0:
                np.testing.assert_array_equal(one.advise(own)[0], advice[i])
            if i in which:
                alone[i] = PlannerAdvisor([SITE], PARAMS)
        if len(which):
            begun = together.begin(which, rows[which])
            for k, i in enumerate(which.tolist()):
                first = alone[i].begin(np.array([0]), rows[i : i + 1])
                np.testing.assert_array_equal(first[0], begun[k])


def test_what_is_copied_or_written_down_goes_on_alike() -> None:
    one, other, third = (PlannerAdvisor([SITE], PARAMS, 3) for _ in range(3))
    first, *rest = moments(3, 40)
    for advisor in (one, other, third):
        advisor.begin(np.arange(3), first)
    for rows in rest[:20]:
        one.advise(rows)
    other.copy_rows(np.array([2, 0]), np.array([0, 1]), one)
    other.copy_rows(np.array([1]), np.array([2]))
    third.restore(json.loads(json.dumps(one.saved(), allow_nan=False)))
    for rows in rest[20:]:
        advice = one.advise(rows)
        np.testing.assert_array_equal(third.advise(rows), advice)
        np.testing.assert_array_equal(other.advise(rows[[2, 0, 0]]), advice[[2, 0, 0]])


@pytest.mark.parametrize(
    "origin",
    [
        PlannerAdvisor([SITE], PlannerParams(reserve=3), 2),
        PlannerAdvisor([replace(SITE, limits=Limits(1, 9))], PARAMS, 2),
        PlannerAdvisor([replace(SITE, slo=Slo(latency_limit_s=2.0))], PARAMS, 2),
    ],
)
def test_nothing_is_copied_from_another_advisor_or_place(origin: PlannerAdvisor) -> None:
    with pytest.raises(ValueError, match="origin: another advisor"):
        PlannerAdvisor([SITE], PARAMS, 2).copy_rows(np.array([0]), np.array([1]), origin)


# --- identity -----------------------------------------------------------------------------------

CAREFUL = PlannerParams(forecast=ForecastParams(damping=0.9), reserve=3, hold_ticks=3)


def recorded(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """The identity of `CAREFUL` as it comes out of a file, with other content."""
    content: dict[str, Any] = json.loads(json.dumps(advisor_identity(CAREFUL)))
    return content | changes


def test_an_identity_leads_back_to_its_parameters() -> None:
    assert identified(recorded()) == CAREFUL
    assert PlannerAdvisor([SITE], CAREFUL).identity == advisor_identity(CAREFUL) == recorded()
    assert recorded() != advisor_identity(PARAMS)


def test_the_place_is_no_part_of_it_and_the_promise_is() -> None:
    elsewhere = Site(
        Limits(2, 99), 5.0, 30.0, replica=replace(SITE.known_replica(""), max_num_seqs=9)
    )
    assert PlannerAdvisor([elsewhere], PARAMS).identity == PlannerAdvisor([SITE], PARAMS).identity
    stricter = replace(SITE, slo=Slo(latency_limit_s=0.2))
    assert PlannerAdvisor([stricter], PARAMS).identity != PlannerAdvisor([SITE], PARAMS).identity


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        (recorded(version=VERSION + 1), f"advisor planner 2: this version of .* {NAME} {VERSION}"),
        (recorded(name="hpa"), "advisor hpa 1: this version of gatepilot has planner 1"),
        (recorded(slo={"latency_limit_s": 2.0}), "this version of gatepilot has planner 1"),
        (recorded(more=1), "this version of gatepilot has planner 1"),
        (recorded(params={"reserve": 1.0}), "other parameters than planner 1"),
        (recorded(params=7), "other parameters than planner 1"),
        (recorded(params=recorded()["params"] | {"carefulness": 1}), "other parameters than"),
        (recorded(params=recorded()["params"] | {"headroom": 0.0}), "headroom is 0.0, expected"),
        ({}, "advisor None None has other parameters than planner 1"),
    ],
)
def test_an_advisor_that_this_code_does_not_have_is_refused(
    identity: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        identified(identity)
    assert len(str(caught.value).splitlines()) == 1


def test_without_parameters_nobody_advises_and_without_a_replica_nobody_can() -> None:
    assert site_advisor([SITE], 2, None) is None
    assert advisor_identity(None) is None
    with pytest.raises(SiteError, match="needs to know what a replica can do"):
        site_advisor([Site(Limits(1, 4))], 2, PARAMS)
