"""The pull on the threshold acts only while nothing fails."""

import numpy as np
import pytest

from gatepilot.agents.learning_aids import threshold_rest
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS


def rows(threshold: float, **values: float) -> np.ndarray:
    row = np.zeros((1, len(FIELDS)))
    row[0, FIELD_INDEX["breaker_threshold"]] = threshold
    for name, value in values.items():
        row[0, FIELD_INDEX[name]] = value
    return row


@pytest.mark.parametrize(
    ("after", "rest_steps", "expected"),
    [
        (rows(0.5), 10, 0.0),
        (rows(0.6), 10, -0.004),
        (rows(0.05), 10, -0.018),
        (rows(0.4), 8, 0.0),
        (rows(0.5), 8, -0.004),
        (rows(0.6, error_rate=np.nan, replica_error_spread=np.nan), 10, -0.004),  # no trouble known
        (rows(0.6, error_rate=0.01), 10, 0.0),
        (rows(0.6, replicas_ejected=1.0), 10, 0.0),
        (rows(0.6, replica_error_spread=0.2), 10, 0.0),
    ],
)
def test_price_of_a_distance(after: np.ndarray, rest_steps: int, expected: float) -> None:
    found = threshold_rest(after, np.array([rest_steps]), weight=0.002)
    assert found == pytest.approx([expected])
