"""The pull on the threshold acts only while nothing fails, and is a part of its own."""

import numpy as np
import pytest

from gatepilot.agents.learning_aids import AID_PART, ThresholdRest
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS
from gatepilot.reward.documented import default_reward


def rows(threshold: float, **values: float) -> np.ndarray:
    row = np.zeros((1, len(FIELDS)))
    row[0, FIELD_INDEX["breaker_threshold"]] = threshold
    for name, value in values.items():
        row[0, FIELD_INDEX[name]] = value
    return row


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (rows(0.5), 0.0),
        (rows(0.6), -0.004),
        (rows(0.05), -0.018),
        (
            rows(0.6, error_rate=np.nan, replica_error_spread=np.nan),
            -0.004,
        ),  # not known: no trouble
        (rows(0.6, error_rate=0.01), 0.0),
        (rows(0.6, replicas_ejected=1.0), 0.0),
        (rows(0.6, replica_error_spread=0.2), 0.0),
    ],
)
def test_price_of_a_distance(after: np.ndarray, expected: float) -> None:
    choice = np.zeros(1, np.int64)
    parts = ThresholdRest(default_reward, 0.002)(rows(0.5), choice, after)
    assert parts[AID_PART] == pytest.approx(expected)
    bare = default_reward(rows(0.5), choice, after)
    assert {name: part.tolist() for name, part in parts.items() if name != AID_PART} == {
        name: part.tolist() for name, part in bare.items()
    }


def test_rest_is_where_the_scenario_starts() -> None:
    aid = ThresholdRest(default_reward, 0.01, rest_steps=8)
    parts = aid(rows(0.4), np.zeros(1, np.int64), rows(0.4))
    assert parts[AID_PART] == pytest.approx(0.0)
