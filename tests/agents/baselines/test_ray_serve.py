"""Ray Serve's autoscaler as a controller, its known quirks, and the complaints about it."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gatepilot.agents.baselines.ray_serve import RayServe, RayServeParams
from gatepilot.agents.baselines.ray_serve_policy import (
    DelayCounter,
    Delays,
    Deployment,
    Gains,
    Policy,
    aggregated,
    scaled_replicas,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .loads import sizes_under, snapshot_of

LIMITS = Limits(1, 32)
AT_ONCE: dict[str, Any] = {"upscale_delay_s": 0.0, "downscale_delay_s": 0.0}


def ray_serve(target: float = 1.0, **params: Any) -> RayServe:  # noqa: ANN401
    return RayServeParams(target, **params).make(Site(LIMITS, 15.0), seed=0)


def asked(wishes: list[int], start: int, delays: Delays, loop_s: float = 0.1) -> list[int]:
    counter, found = DelayCounter(), [start]
    for wish in wishes:
        found.append(counter.delayed(wish, found[-1], delays, loop_s))
    return found[1:]


# --- feeding ------------------------------------------------------------------------------------


def test_the_load_is_running_plus_waiting() -> None:
    snapshot = replace(snapshot_of(4, 4, ready=4), waiting=3.0)
    assert ray_serve(**AT_ONCE).decide(snapshot, GatewaySettings(4)).replicas == 7


@pytest.mark.parametrize("name", ["running", "waiting", "replicas_ready"])
def test_what_is_not_known_holds_and_is_no_loop(name: str) -> None:
    controller, settings = ray_serve(), GatewaySettings(4)
    known = snapshot_of(20, 4, ready=4)
    for _ in range(2):
        assert controller.decide(known, settings) is settings
    unknown = replace(known, **{name: None})  # type: ignore[arg-type]
    for _ in range(10):
        assert controller.decide(unknown, settings) is settings
    assert controller.state.counter.count == 2
    assert controller.decide(known, settings).replicas == 20


def test_only_replicas_move() -> None:
    settings = GatewaySettings(4, 3, 99)
    assert ray_serve(**AT_ONCE).decide(snapshot_of(6, 4, ready=4), settings) == GatewaySettings(
        6, 3, 99
    )


def test_how_samples_become_one_number() -> None:
    assert aggregated([1.0, 2.0, 6.0], "mean") == 3.0
    assert aggregated([1.0, 2.0, 6.0], "max") == 6.0
    assert aggregated([1.0, 2.0, 6.0], "min") == 1.0


# --- parameters ---------------------------------------------------------------------------------


def test_the_defaults_are_upstreams() -> None:
    assert RayServeParams() == RayServeParams(2.0, 1.0, 1.0, 30.0, 600.0, 30.0, "mean")
    assert Policy() == RayServeParams().policy


@pytest.mark.parametrize(
    "name", ["target_ongoing_requests", "upscaling_factor", "downscaling_factor"]
)
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_must_be_above_0(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        RayServeParams(**{name: value})  # type: ignore[arg-type]


def test_what_upstream_refuses_is_refused() -> None:
    with pytest.raises(ValueError, match=r"look_back_period_s is 0\.0"):
        RayServeParams(look_back_period_s=0.0)
    with pytest.raises(ValueError, match=r"upscale_delay_s is -1\.0"):
        RayServeParams(upscale_delay_s=-1.0)
    with pytest.raises(ValueError, match="downscale_delay_s is nan"):
        RayServeParams(downscale_delay_s=math.nan)
    with pytest.raises(ValueError, match="aggregation 'median': expected one of mean, max, min"):
        RayServeParams(aggregation="median")  # type: ignore[arg-type]


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_a_delay_of_0_3_s_is_two_loops_of_0_1_s() -> None:
    """0.3 / 0.1 is 2.9999999999999996."""
    assert asked([5] * 4, 2, Delays(0.3, 0.3)) == [2, 2, 5, 5]
    assert asked([5] * 4, 2, Delays(0.4, 0.4)) == [2, 2, 2, 2]


def test_quirk_shrinking_rounds_up_too_and_is_pushed_if_it_sticks() -> None:
    slow = Gains(down=0.1)
    assert [scaled_replicas(desired, 4, slow) for desired in (3.1, 3.0, 2.0)] == [4, 3, 3]
    sizes = sizes_under(ray_serve(downscaling_factor=0.01, **AT_ONCE), [1] * 5, 5)
    assert sizes == [4, 3, 2, 1, 1]


def test_quirk_no_running_replica_bypasses_the_delay_and_leaves_the_count() -> None:
    policy, counter = Policy(1.0, Gains(up=6.0)), DelayCounter()
    busy, none = Deployment(2, 2, 1, 32), Deployment(0, 2, 1, 32)
    assert policy.decided(9.0, busy, counter, 15.0) == 2
    assert policy.decided(9.0, none, counter, 15.0) == 6
    assert counter.count == 1


def test_quirk_only_one_replica_goes_to_none() -> None:
    assert asked([0] * 3, 9, Delays(0.0, 0.0)) == [1, 0, 0]


def test_quirk_the_wish_is_measured_from_running_and_compared_with_asked_for() -> None:
    """A factor turns the direction while replicas start or stop."""
    starting, stopping = Deployment(2, 8, 1, 32), Deployment(8, 4, 1, 32)
    slow = Policy(1.0, Gains(0.5, 0.5), Delays(0.0, 0.0))
    assert slow.decided(8.0, starting, DelayCounter(), 15.0) == 5
    assert slow.decided(4.0, stopping, DelayCounter(), 15.0) == 6


def test_quirk_binary_noise_adds_a_replica() -> None:
    """58 requests at 2 each are 29 replicas, but 7 x (58 / 14) is 29.000000000000004."""
    policy = Policy(2.0, delays=Delays(0.0, 0.0))
    found = [policy.decided(58.0, Deployment(n, n, 1, 99), DelayCounter(), 15.0) for n in (6, 7, 8)]
    assert found == [29, 30, 29]


def test_replicas_that_start_do_not_add_up() -> None:
    """The wish is the load's, whatever runs, so nothing cascades."""
    loads, ready = [20.0] * 40, [2.0] * 39 + [20.0]
    assert set(sizes_under(ray_serve(upscale_delay_s=0.0), loads, 2, ready)) == {20}


# --- complaints ---------------------------------------------------------------------------------


def test_ray_46497_only_the_last_wish_counts() -> None:
    """Not mended: the wishes during the delay only have to agree in their direction."""
    delays = Delays(50.0, 50.0)
    assert asked([10, 10, 15, 10, 10, 5], 20, delays, 10.0)[-1] == 5
    assert asked([2, 2, 2, 15, 2, 2], 1, delays, 10.0)[-1] == 2
    assert asked([2, 2, 2, 2, 2, 15], 1, delays, 10.0)[-1] == 15


def test_ray_26455_a_delay_below_the_look_back_is_accepted_and_thrashes() -> None:
    """Not mended: nothing compares the two."""
    loads = [12.0, 12.0, 0.0, 0.0] * 10
    restless = sizes_under(ray_serve(look_back_period_s=30.0, **AT_ONCE), loads, 12)
    calm = ray_serve(look_back_period_s=30.0, upscale_delay_s=60.0, downscale_delay_s=60.0)
    assert restless[4:12] == [6, 12, 6, 1] * 2
    assert sum(a != b for a, b in pairwise(restless)) == 38
    assert set(sizes_under(calm, loads, 12)) == {12}
