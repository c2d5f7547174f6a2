"""The planner: known answers, what it does not know, and what others are blamed for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.agents.baselines.planner.controller import PlannerController
from gatepilot.agents.baselines.planner.forecast import ForecastParams
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Planner
from gatepilot.agents.baselines.site import ReplicaSpec, Site, SiteError
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot
from gatepilot.reward.slo import Slo

REPLICA = ReplicaSpec(StepModel(0.0128, 5e-5, 3e-8, 7.5e-5), 110.0)
SITE = Site(Limits(1, 16), replica=REPLICA)
BUSY_S = 0.1 + 100 * 8.15e-5
"""Work of 1000 prompt and 100 output tokens, by hand in test_capacity."""
PLAIN = PlannerParams(
    forecast=ForecastParams(error_prior=0.0),
    capacity_error=1e-9,
    reserve=0,
    peak_share=0.0,
    headroom=0.9,
    bias_weight=0.0,
    mix_weight=1.0,
    hold_ticks=0,
)
"""Nothing but work over capacity."""


def snapshot(rate_rps: float | None, replicas: int = 4, **others: Any) -> MetricsSnapshot:  # noqa: ANN401
    rate = rate_rps or 0.0
    known = MetricsSnapshot(
        replicas_requested=replicas,
        breaker_threshold=0.5,
        replicas_ready=replicas,
        replicas_starting=0.0,
        replicas_ejected=0.0,
        request_rate_rps=rate_rps,
        samples=60 * rate,
        prompt_token_rate_tps=1000 * rate,
        output_token_rate_tps=100 * rate,
        prompt_tokens_p50=800.0 if rate else None,
        prompt_tokens_p95=2500.0 if rate else None,
        running=3 * rate,
        waiting=0.0,
        ttft_p95_s=0.4 if rate else None,
    )
    return replace(known, **others)


class Loop:
    """A planner whose wishes come true at once."""

    def __init__(self, params: PlannerParams = PLAIN, site: Site = SITE, replicas: int = 4) -> None:
        self.planner = Planner([site], params)
        self.controller = PlannerController(self.planner)
        self.settings = GatewaySettings(replicas)

    def tick(self, rate_rps: float | None, **others: Any) -> int:  # noqa: ANN401
        seen = snapshot(rate_rps, self.settings.replicas, **others)
        self.settings = self.controller.decide(seen, self.settings)
        return self.settings.replicas


def share(params: PlannerParams = PLAIN) -> float:
    mix = np.array([[800.0], [2500.0], [BUSY_S]])
    curves = Planner([SITE], params).capacity.curves(np.array([0]), *mix)
    return float(curves.busiest_share(np.zeros(1))[0])


@pytest.mark.parametrize("rate_rps", [1.0, 10.0, 25.0, 40.0])
def test_the_size_is_work_over_what_a_replica_bears(rate_rps: float) -> None:
    wanted = int(np.ceil(rate_rps * BUSY_S / (0.9 * share())))
    assert Loop().tick(rate_rps) == min(wanted, 16)


def test_work_is_told_apart_into_prompts_and_outputs() -> None:
    plan = Planner([SITE], PLAIN).see(snapshot(20.0).to_row()[None])
    assert plan.prefill_work == pytest.approx([20 * 0.1])
    assert plan.decode_work == pytest.approx([20 * 100 * 8.15e-5])


def test_reserve_peak_ejected_and_waiting_each_add_what_they_should() -> None:
    bare, unit = 20 * BUSY_S, 0.9 * share()

    def size(params: PlannerParams = PLAIN, **others: Any) -> int:  # noqa: ANN401
        return Loop(params).tick(20.0, **others)

    assert size() == np.ceil(bare / unit)
    assert size(replace(PLAIN, reserve=2)) == np.ceil(bare / unit) + 2
    assert size(replicas_ejected=2.0) == np.ceil(bare / unit) + 2
    assert size(waiting=60.0) == np.ceil((bare + 60 * BUSY_S / 60) / unit)
    assert size(waiting=6000.0) == np.ceil(1.25 * bare / unit)
    loop = Loop(replace(PLAIN, peak_share=0.5, peak_kept=1.0))
    loop.tick(40.0)
    for _ in range(50):
        after = loop.tick(4.0)
    assert after == np.ceil(0.5 * 40 * BUSY_S / unit)


def test_a_floor_is_kept_at_any_hour_and_binds_nobody_above_it() -> None:
    loop = Loop(replace(PLAIN, floor_replicas=5))
    assert [loop.tick(rate) for rate in (0.0, 1.0, 0.0)] == [5, 5, 5]
    assert Loop(loop.planner.params[0]).tick(60.0) == Loop().tick(60.0) > 5
    assert Loop(replace(PLAIN, floor_replicas=99)).tick(1.0) == 16


def test_a_rising_load_is_met_before_it_comes() -> None:
    params = replace(PLAIN, forecast=replace(PLAIN.forecast, trend_weight=0.3, damping=0.95))
    ahead, blind = Loop(params), Loop(replace(PLAIN, forecast=replace(params.forecast, damping=0)))
    for k in range(12):
        rising, following = ahead.tick(5 * 1.1**k), blind.tick(5 * 1.1**k)
    assert rising >= following + 2


def test_a_slow_cluster_is_noticed_by_its_latency() -> None:
    """The same load on replicas half as fast: the formula alone would never know."""
    watching, blind = Loop(replace(PLAIN, bias_weight=0.2)), Loop()
    for _ in range(30):
        seen, unseen = watching.tick(20.0, ttft_p95_s=1.6), blind.tick(20.0, ttft_p95_s=1.6)
    assert seen > unseen


# --- what is not known --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gap", ["request_rate_rps", "samples", "prompt_token_rate_tps", "prompt_tokens_p95"]
)
def test_without_rate_or_lengths_replicas_stay(gap: str) -> None:
    assert Loop(replicas=7).tick(2.0, **{gap: None}) == 7
    loop = Loop()
    loop.tick(20.0)
    assert loop.tick(20.0, **{gap: None}) == loop.settings.replicas


def test_counters_that_stand_still_while_requests_run_are_no_idle_night() -> None:
    loop = Loop(replicas=7)
    assert loop.tick(0.0, running=3.0) == 7
    assert loop.tick(0.0, running=0.0) == 1


@pytest.mark.parametrize("gap", ["waiting", "replicas_ejected"])
def test_nothing_shrinks_while_load_may_be_unseen(gap: str) -> None:
    loop = Loop(replicas=9)
    assert loop.tick(2.0, **{gap: None}) == 9
    for _ in range(3):
        assert loop.tick(60.0, **{gap: None}) >= 9
    assert loop.settings.replicas > 9
    assert loop.tick(2.0) < 9


def test_it_refuses_a_site_of_which_too_little_is_known() -> None:
    with pytest.raises(SiteError, match="planner needs to know what a replica can do"):
        Planner([Site(Limits(1, 4))], PLAIN)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("headroom", 0.0), ("peak_share", 1.1), ("reserve", -1), ("catch_up_s", float("inf"))),
        *(("violation_weight", 0.0), ("capacity_error", 0.0)),
    ],
)
def test_parameters_out_of_range_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        PlannerParams(**{name: value})  # type: ignore[arg-type]


# --- batches ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.floats(0, 80), st.none() | st.floats(0.05, 9), st.integers(1, 16)),
        min_size=2,
        max_size=40,
    ),
    st.integers(0, 39),
)
def test_many_gateways_at_once_are_planned_as_each_alone(
    ticks: list[tuple[float | None, float | None, int]], reset_at: int
) -> None:
    params = PlannerParams()
    together, alone, other = (Planner([SITE], params, n) for n in (3, 1, 1))
    for k, (rate, latency_s, replicas) in enumerate(ticks):
        if k == reset_at:
            other = Planner([SITE], params)
            together.copy_rows(np.zeros(2, np.int64), np.array([1, 2]), other)
        row = snapshot(rate, replicas, ttft_p95_s=latency_s).to_row()
        plan, first, second = (
            planner.see(np.tile(row, (n, 1)))
            for planner, n in ((together, 3), (alone, 1), (other, 1))
        )
        assert plan.replicas.tolist() == [first.replicas[0], *[second.replicas[0]] * 2]
        np.testing.assert_array_equal(plan.work_mean[:2], [first.work_mean[0], second.work_mean[0]])


def test_only_what_the_docstring_names_is_read() -> None:
    """CPU spikes of starting replicas (kubernetes#72775, #98914) cannot reach it."""
    read = {
        *("request_rate_rps", "waiting", "samples", "prompt_token_rate_tps"),
        *("output_token_rate_tps", "prompt_tokens_p50", "prompt_tokens_p95", "ttft_p95_s"),
        *("replicas_ready", "replicas_ejected", "replicas_requested", "running"),
        "replica_error_spread",
    }
    rng = np.random.default_rng(0)
    one, other = Planner([SITE], PlannerParams()), Planner([SITE], PlannerParams())
    for _ in range(30):
        row = snapshot(float(rng.uniform(1, 40))).to_row()
        odd = np.array(
            [v if f in read else rng.uniform() for f, v in zip(FIELD_INDEX, row, strict=True)]
        )
        assert one.see(row[None]).replicas == other.see(odd[None]).replicas


def test_nothing_shrinks_before_there_is_enough_to_look_back_on() -> None:
    """knative PR#4795: a restart loses the history, and the first thing it does is to shrink."""
    loop = Loop(replace(PLAIN, hold_ticks=5), replicas=12)
    assert [loop.tick(5.0) for _ in range(7)] == [12, 12, 12, 12, 12, 1, 1]


# --- complaints about today's systems -----------------------------------------------------------


def test_llm_d_380_no_load_never_scales_up() -> None:
    """10,000 ticks without a request, on gateways of every size at once."""
    planner = Planner([SITE], PlannerParams(), 16)
    rows = np.stack([snapshot(0.0, size).to_row() for size in range(1, 17)])
    sizes = np.arange(1, 17)
    for _ in range(625):
        rows[:, [FIELD_INDEX["replicas_requested"], FIELD_INDEX["replicas_ready"]]] = sizes[:, None]
        following = planner.see(rows).replicas
        assert np.all(following <= sizes)
        sizes = following
    assert np.all(sizes == 1)


def test_dynamo_11624_an_unreachable_limit_does_not_hold_replicas_after_the_traffic() -> None:
    site = replace(SITE, slo=Slo(latency_limit_s=0.01))
    loop = Loop(PlannerParams(), site)
    for _ in range(40):
        loop.tick(20.0)
    assert loop.settings.replicas >= 4
    sizes = [loop.tick(0.0) for _ in range(600)]
    assert sizes[-1] == 1


@pytest.mark.parametrize("rate_rps", [0.5, 2.0, 5.0, 9.0, 14.0, 23.0, 37.0, 60.0])
def test_dynamo_9294_a_constant_load_never_turns_back(rate_rps: float) -> None:
    loop = Loop(PlannerParams())
    sizes = [loop.tick(rate_rps) for _ in range(400)]
    settled = np.diff(sizes[120:])
    directions = np.sign(settled[settled != 0])
    assert np.all(directions[1:] == directions[:-1])


def test_dynamo_4420_edits_from_outside_are_taken_up() -> None:
    """10,000 edits: whatever somebody set, it is back where it wants to be a hold later."""
    forecast = ForecastParams(error_prior=0.0)
    params = PlannerParams(forecast, bias_weight=0.0, peak_share=0.0, hold_ticks=3)
    rng = np.random.default_rng(0)
    rates = rng.uniform(0, 60, 500)
    planner = Planner([SITE], params, len(rates))
    rows = np.stack([snapshot(float(rate)).to_row() for rate in rates])

    def tick(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        rows[:, [FIELD_INDEX["replicas_requested"], FIELD_INDEX["replicas_ready"]]] = sizes[:, None]
        return planner.see(rows).replicas

    wanted = np.full(len(rates), 4)
    for _ in range(300):
        wanted = tick(wanted)
    for _ in range(20):
        sizes = rng.integers(1, 17, len(rates))
        for _ in range(params.hold_ticks + 1):
            sizes = tick(sizes)
        np.testing.assert_array_equal(sizes, wanted)


def test_dynamo_14251_replicas_that_never_come_are_made_up_for() -> None:
    """Two of those asked for cannot be scheduled: after two cold starts they count as lost."""
    loop = Loop()
    wanted = [loop.tick(30.0) for _ in range(5)][-1]
    sizes = [loop.tick(30.0, replicas_ready=wanted - 2.0) for _ in range(40)]
    assert sizes[:14] == [wanted] * 14
    assert max(sizes) >= wanted + 2
    back = [loop.tick(30.0) for _ in range(3)]
    assert back[-1] == wanted


def test_keda_965_an_outage_of_any_length_keeps_what_was_there() -> None:
    blind = dict.fromkeys(
        [
            *("request_rate_rps", "samples", "prompt_token_rate_tps", "output_token_rate_tps"),
            *("prompt_tokens_p50", "prompt_tokens_p95", "waiting", "ttft_p95_s"),
            *("replicas_ready", "replicas_ejected"),
        ]
    )
    for minutes in (1, 10, 60):
        loop = Loop(PlannerParams())
        before = [loop.tick(20.0) for _ in range(60)][-1]
        assert {loop.tick(None, **blind) for _ in range(4 * minutes)} == {before}


def test_keda_4249_a_source_that_comes_and_goes_moves_nothing() -> None:
    loop = Loop(PlannerParams())
    for _ in range(200):
        loop.tick(20.0)
    sizes = [loop.tick(20.0 if k % 8 < 4 else None, waiting=0.0) for k in range(400)]
    assert np.count_nonzero(np.diff(sizes)) <= 1  # of fifty outages, as the first errors fade


def test_aibrix_1159_a_load_that_ends_is_followed_to_the_minimum_in_bounded_time() -> None:
    loop = Loop(PlannerParams())
    for _ in range(100):
        loop.tick(40.0)
    sizes = [loop.tick(0.0) for _ in range(400)]
    assert sizes[0] > 4
    bound = PlannerParams().hold_ticks + 1
    # The remembered peak fades by 1 % a tick: half of it is below one replica's share after this.
    fading = np.ceil(np.log(0.5 * 40 * BUSY_S / (0.7 * share())) / -np.log(0.99))
    assert sizes[int(fading) + bound] == 1


def test_ray_46497_noise_around_a_steady_load_makes_no_thrash() -> None:
    rng = np.random.default_rng(1)
    loop = Loop(PlannerParams())
    sizes = [loop.tick(20.0 * float(rng.normal(1, 0.05))) for _ in range(480)]
    changes = np.count_nonzero(np.diff(sizes[60:]))
    assert changes <= 12  # in an hour and three quarters


def test_knative_9121_after_a_spike_the_size_falls_to_the_need_and_not_below() -> None:
    loop = Loop(PlannerParams())
    before = [loop.tick(15.0) for _ in range(200)][-1]
    for _ in range(8):
        loop.tick(60.0)
    after = [loop.tick(15.0) for _ in range(300)]
    assert min(after) >= before
    assert after[-1] <= before + 3  # the remembered peak fades
