"""The bias of the expected latency, by hand."""

import numpy as np
import pytest

from gatepilot.agents.baselines.planner.bias import moved


@pytest.mark.parametrize(
    ("before", "measured", "expects", "after"),
    [
        (0.0, 0.5, 0.1, 0.08),  # a fifth of 0.4
        (0.0, -0.3, 0.1, -0.04),  # a tenth of -0.4
        (0.3, 0.5, 0.1, 0.32),  # 0.3 was known of it
        (0.0, 9.0, 0.0, 0.14),  # 0.7 counts
        (0.0, -9.0, 0.0, -0.07),
        (0.95, 9.0, 0.0, 1.0),
        (-0.99, -9.0, 0.0, -1.0),
    ],
)
def test_it_moves_a_fifth_of_the_way_up_and_a_tenth_down(
    before: float, measured: float, expects: float, after: float
) -> None:
    found = moved(np.array([before]), np.array([measured]), np.array([expects]), 0.2)
    assert found == pytest.approx([after])
