"""LiteLLM's cool-down: golden vectors, a second implementation, its quirks, its complaints."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.litellm import LitellmParams
from gatepilot.agents.baselines.litellm_cooldown import (
    CooldownParams,
    ModelGroup,
    cools_down,
    counts_for_cooldown,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .looks import each, look, played, vectors_of

VECTORS = vectors_of("litellm")
SITE = Site(Limits(1, 8))


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["rule"])
def test_rule(vector: dict[str, Any]) -> None:
    params = CooldownParams(**vector.get("params", {}))
    names = ("status", "successes", "failures", "group_size")
    assert cools_down(params, *(vector[name] for name in names)) is vector["wanted"], vector["why"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    controller = LitellmParams(**vector["params"]).make(SITE, seed=0)
    shown = [look(replicas_ready=ready) for ready in vector["ready"]]
    found = played(controller, shown, GatewaySettings(4, 7, 50))
    assert [one.threshold_steps for one in found] == vector["wanted"], vector["why"]
    assert {(one.replicas, one.max_outstanding) for one in found} == {(4, 50)}


# --- a second implementation --------------------------------------------------------------------


def reference(
    size: int, events: list[tuple[float, int, int]], now: float, params: CooldownParams
) -> list[int]:
    """Who gets requests: scans all events of each deployment; a status of 200 is a success."""
    found = []
    for number in range(size):
        mine = [(at, status) for at, who, status in events if who == number]
        ends = [float("-inf")]
        for i, (at, status) in enumerate(mine):
            if status == 200:
                continue
            minute = [one for when, one in mine[: i + 1] if int(when) // 60 == int(at) // 60]
            failed = sum(one != 200 for one in minute)
            share = Fraction(failed, len(minute))
            reasons = {
                "rate limit": status == 429 and size > 1,
                "all failed": failed == len(minute) >= params.all_failed_requests,
                "share": size > 1 and len(minute) >= params.minimum_requests and 2 * share > 1,
                "not retried": status not in {408, 409, 429} and status < 500,
            }
            is_seen = status in {401, 404, 408, 429} or status // 100 != 4
            if is_seen and any(reasons.values()) and at > ends[-1]:
                ends.append(at + params.cooldown_s)
        if now >= ends[-1]:
            found.append(number)
    return found


@settings(deadline=None, max_examples=300)
@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.0, 3.0, 20.0]),
            st.integers(0, 3),
            st.sampled_from([200, 200, 200, 500, 503, 429, 401, 400, 408, 409]),
        ),
        max_size=60,
    ),
)
def test_groups_agree(size: int, steps: list[tuple[float, int, int]]) -> None:
    params = CooldownParams(all_failed_requests=8)
    group, now, events = ModelGroup(size, params), 0.0, []
    for passed, number, status in steps:
        now, who = now + passed, number % size
        events.append((now, who, status))
        if status == 200:
            group.succeeded(who, now)
        else:
            group.failed(who, now, status)
        assert group.available(now) == reference(size, events, now, params)
        assert group.available(now + 5.0) == reference(size, events, now + 5.0, params)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_the_counts_start_anew_with_every_clock_minute() -> None:
    group = ModelGroup(2)
    for second in (56.0, 57.0, 58.0, 59.0):
        group.failed(0, second, 500)
    group.failed(0, 60.0, 500)
    assert group.available(60.0) == [0, 1]


def test_quirk_it_comes_back_after_5_s_whatever_it_is_like() -> None:
    group = ModelGroup(2)
    for _ in range(5):
        group.failed(0, 10.0, 500)
    assert group.available(14.999) == [1]
    assert group.available(15.0) == [0, 1]


def test_quirk_failures_while_it_cools_down_do_not_extend_the_time() -> None:
    """BerriAI/litellm#40130: the cache keeps the first deadline."""
    group = ModelGroup(2)
    group.failed(0, 10.0, 429)
    group.failed(0, 14.0, 429)
    assert group.available(14.9) == [1]
    assert group.available(15.0) == [0, 1]


def test_quirk_a_clients_errors_are_never_looked_at_but_for_four() -> None:
    seen = [status for status in range(400, 500) if counts_for_cooldown(status)]
    assert seen == [401, 404, 408, 429]


def test_quirk_the_controller_is_a_constant_threshold_beside_a_second_replica() -> None:
    """The honest label: LiteLLM is the threshold 0.5, where scenarios start anyway."""
    shown = [look(replicas_ready=4, error_rate=rate) for rate in (0.0, 0.3, 0.9)]
    controller = LitellmParams().make(SITE, seed=0)
    assert {one.threshold for one in played(controller, shown, GatewaySettings(4))} == {0.5}


# --- complaints ---------------------------------------------------------------------------------


def test_litellm_3646_all_deployments_cool_down_and_nobody_is_left() -> None:
    """The fault is there: nothing keeps a last deployment, so traffic fails for 5 s."""
    group = ModelGroup(3)
    for number in range(3):
        for _ in range(5):
            group.failed(number, 10.0, 503)
    assert group.available(10.0) == []
    assert group.available(14.9) == []


def test_litellm_3646_one_429_from_each_is_enough() -> None:
    group = ModelGroup(3)
    for number in range(3):
        group.failed(number, 10.0, 429)
    assert group.available(12.0) == []


def test_litellm_pr_8668_the_only_deployment_is_kept_until_all_of_1000_failed() -> None:
    """Without `allowed_fails`: 999 failures in a row change nothing, the thousandth does."""
    group = ModelGroup(1)
    for _ in range(999):
        group.failed(0, 10.0, 500)
    assert group.available(10.0) == [0]
    group.failed(0, 10.0, 500)
    assert group.available(10.0) == []


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=f"failure_fraction is {share}"):
        LitellmParams(share)
