from fractions import Fraction

import pytest

from gatepilot.envs.schema.settings import (
    MAX_THRESHOLD_STEPS,
    MIN_THRESHOLD_STEPS,
    GatewaySettings,
    Limits,
)

LIMITS = Limits(1, 16)


@pytest.mark.parametrize("steps", range(MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS + 1))
def test_every_threshold_is_the_double_nearest_to_its_decimal(steps: int) -> None:
    assert GatewaySettings(4, steps).threshold == float(Fraction(5 * steps, 100))


def test_up_and_down_again_ends_exactly_at_the_start() -> None:
    start = settings = GatewaySettings(4)
    for step in [1] * 9 + [-1] * 18 + [1] * 9:
        settings = settings.stepped(0, step, LIMITS)
    assert settings == start
    assert settings.threshold == 0.5


def test_a_step_beyond_a_bound_changes_nothing() -> None:
    top = GatewaySettings(16, MAX_THRESHOLD_STEPS)
    assert top.stepped(1, 1, LIMITS) == top
    bottom = GatewaySettings(1, MIN_THRESHOLD_STEPS)
    assert bottom.stepped(-1, -1, LIMITS) == bottom


def test_a_step_keeps_the_admission_limit() -> None:
    assert GatewaySettings(4, 10, 7).stepped(1, -1, LIMITS) == GatewaySettings(5, 9, 7)


@pytest.mark.parametrize(
    ("replicas", "steps", "outstanding", "named"),
    [
        (-1, 10, None, "replicas is -1"),
        (4, 0, None, "threshold_steps is 0"),
        (4, 20, None, "threshold_steps is 20"),
        (4, 10, -1, "max_outstanding is -1"),
    ],
)
def test_settings_out_of_range_are_refused(
    replicas: int, steps: int, outstanding: int | None, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        GatewaySettings(replicas, steps, outstanding)


@pytest.mark.parametrize(("low", "high"), [(0, 4), (5, 4), (-1, -1)])
def test_an_empty_range_of_replicas_is_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="replica limits"):
        Limits(low, high)


def test_clip_goes_to_the_nearest_allowed_number() -> None:
    assert [Limits(2, 5).clip(n) for n in (0, 2, 4, 5, 9)] == [2, 2, 4, 5, 5]
