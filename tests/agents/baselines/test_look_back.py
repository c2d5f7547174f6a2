"""Samples of the last ticks, and how many ticks a duration is."""

import pytest

from gatepilot.agents.baselines.look_back import LookBack, whole_ticks


@pytest.mark.parametrize(
    ("duration_s", "tick_s", "ticks"),
    [
        (30.0, 15.0, 2),
        (31.0, 15.0, 3),
        (1.0, 15.0, 1),
        (0.0, 15.0, 1),
        (0.3, 0.1, 3),  # 2.9999999999999996
        (0.7, 0.1, 7),  # 6.999999999999999
        (6.0, 0.6, 10),  # 10.0
        (1.1, 0.1, 11),  # 11.000000000000002
    ],
)
def test_a_duration_is_covered_by_whole_ticks(duration_s: float, tick_s: float, ticks: int) -> None:
    assert whole_ticks(duration_s, tick_s) == ticks


def test_it_reaches_as_far_as_its_ticks() -> None:
    samples = LookBack(3)
    for tick in (0, 1, 2, 4):
        samples.record(tick, 10.0 * tick)
    assert samples.values(4) == [20.0, 40.0]
    assert samples.values(6) == [40.0]
    assert samples.values(7) == []


def test_it_keeps_no_more_than_it_reaches() -> None:
    samples = LookBack(3)
    for tick in range(1000):
        samples.record(tick, 1.0)
        assert len(samples.samples) <= 3


def test_it_goes_on_where_another_stopped() -> None:
    samples, other = LookBack(2), LookBack(2)
    samples.record(7, 0.1)
    other.restore(samples.saved())
    assert other == samples
