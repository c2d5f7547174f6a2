"""Sentinel's system rule on load: golden vectors, a second implementation, its quirks."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.sentinel_bbr import (
    Bucket,
    SentinelBbrParams,
    capacity,
    most_at_once,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("sentinel_bbr")
SITE = Site(Limits(1, 8))


def looks_of(rows: list[list[float | None]]) -> list[Any]:
    return [look(cpu_utilization=cpu, e2e_p95_s=rtt, samples=n) for cpu, rtt, n in rows]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["capacity"])
def test_capacity(vector: dict[str, Any]) -> None:
    buckets = [Bucket(i, *bucket) for i, bucket in enumerate(vector["buckets"])]
    found = capacity(buckets, vector["bucket_s"], vector["longest_rt_s"])
    assert found == pytest.approx(vector["wanted"]), vector["why"]


@each(VECTORS["at_once"])
def test_at_once(vector: dict[str, Any]) -> None:
    assert most_at_once(vector["product"]) == vector["wanted"], vector["why"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    controller = SentinelBbrParams(**vector["params"]).make(
        Site(Limits(1, 8), vector["tick_s"]), seed=0
    )
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------


@dataclass
class System:
    """Request by request, in milliseconds, with upstream's ring of two buckets of 500 ms."""

    threads: int = 0
    ring: list[list[int] | None] = field(default_factory=lambda: [None, None])  # start, n, min

    def bucket(self, now_ms: int) -> list[int]:
        place, start = now_ms // 500 % 2, now_ms - now_ms % 500
        one = self.ring[place]
        if one is None or one[0] != start:
            one = self.ring[place] = [start, 0, 5000]
        return one

    def completed(self, now_ms: int, rt_ms: int) -> None:
        one = self.bucket(now_ms)
        one[1] += 1
        one[2] = min(one[2], rt_ms, 5000)

    def admits(self, now_ms: int) -> bool:
        """While load is over its limit."""
        self.bucket(now_ms)
        valid = [one for one in self.ring if one is not None and now_ms - one[0] <= 1000]
        qps = max(1, *(one[1] for one in valid), 0) * 2
        least_ms = max(1, min([5000] + [one[2] for one in valid]))
        return not (self.threads > 1 and self.threads > Fraction(qps * least_ms, 1000))


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 7000)), max_size=60),
    st.integers(0, 5000),
)
def test_so_many_get_in_at_once(completions: list[tuple[int, int]], now_ms: int) -> None:
    """Requests ask until one is refused: as many got in as the rule says."""
    system = System()
    past = sorted(one for one in completions if one[0] <= now_ms)
    for at_ms, rt_ms in past:
        system.completed(at_ms, rt_ms)
    while system.admits(now_ms):
        system.threads += 1
    present = now_ms // 500
    buckets = []
    for number in (present - 1, present):
        rts = [rt_ms / 1000 for at_ms, rt_ms in past if at_ms // 500 == number]
        if rts:
            buckets.append(Bucket(number, len(rts), min(rts)))
    product = capacity(buckets, 0.5, 5.0)
    if abs(product - round(product)) > 1e-9 or product == int(product):
        assert most_at_once(product) == system.threads


def reference(
    params: SentinelBbrParams, rows: list[list[float | None]], start: int | None
) -> list[int | None]:
    """Scans the whole history at each look."""
    found: list[int | None] = []
    is_on = False
    for now, row in enumerate(rows):
        if None in row or not row[1]:
            found.append(found[-1] if found else start)
            continue
        recent = [
            (rtt, n)
            for cpu, rtt, n in rows[max(0, now - params.buckets + 1) : now + 1]
            if cpu is not None and rtt and n is not None
        ]
        is_on = row[0] is not None and row[0] > params.highest_load
        best = max(max(n / 4, 1.0) for _, n in recent) / 15
        least = min(min(rtt, params.longest_rt_s) for rtt, _ in recent)
        found.append(int(max(best * max(least, 0.001), 1.0)) + 1 if is_on else start)
    return found


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 0.2, 0.8, 0.9, 1.0]),
            st.sampled_from([None, 0.0, 0.3, 2.1, 7.3, 40.0]),
            st.sampled_from([None, 0, 10, 77, 480]),
        ).map(list),
        max_size=30,
    ),
    st.integers(1, 5),
    st.sampled_from([5.0, 60.0]),
    st.sampled_from([None, 64]),
)
def test_histories_agree(
    rows: list[list[float | None]], buckets: int, longest_rt_s: float, start: int | None
) -> None:
    params = SentinelBbrParams(buckets=buckets, longest_rt_s=longest_rt_s)
    found = limits(params.make(SITE, seed=0), looks_of(rows), start)
    assert found == reference(params, rows, start)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_an_idle_second_counts_as_ten_in_progress() -> None:
    assert capacity([], 0.5, 5.0) == 10.0
    assert System().admits(0)


def test_quirk_the_first_two_are_never_refused() -> None:
    assert most_at_once(0.0) == 2


def test_quirk_best_rate_and_least_time_need_not_be_of_the_same_bucket() -> None:
    fast, slow = Bucket(0, 10, 0.1), Bucket(1, 40, 0.4)
    assert [capacity([one], 0.5, 5.0) for one in (fast, slow)] == [2.0, 32.0]
    assert capacity([fast, slow], 0.5, 5.0) == 8.0


def test_quirk_answers_longer_than_the_cap_are_let_in_too_few() -> None:
    """Four a second for 20 s each are 80 in flight; the rule lets 21 in."""
    rows: list[list[float | None]] = [[0.9, 20.0, 240]]
    assert limits(SentinelBbrParams().make(SITE, seed=0), looks_of(rows)) == [21]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"highest_load": 1.1}, r"highest_load is 1\.1"),
        ({"buckets": 0}, "buckets is 0"),
        ({"longest_rt_s": 0.0}, r"longest_rt_s is 0\.0"),
    ],
)
def test_what_upstream_refuses_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SentinelBbrParams(**changes)
