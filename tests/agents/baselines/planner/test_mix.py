"""What requests are like: smoothed lengths, and windows that say nothing."""

import numpy as np
import pytest

from gatepilot.agents.baselines.planner.mix import see_mix
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS

WINDOW = {
    "samples": 300.0,
    "prompt_tokens_p50": 400.0,
    "prompt_tokens_p95": 2000.0,
    "prompt_token_rate_tps": 4000.0,
    "output_token_rate_tps": 1000.0,
}


def row(**changes: float) -> np.ndarray:
    rows = np.full((1, len(FIELDS)), np.nan)
    for name, value in (WINDOW | changes).items():
        rows[0, FIELD_INDEX[name]] = value
    return rows


def test_means_are_tokens_a_first_token() -> None:
    mix = np.zeros((1, 4))
    see_mix(mix, row(), 60.0, 0.25)  # five first tokens a second
    assert mix.tolist() == [[400.0, 2000.0, 800.0, 200.0]]
    see_mix(mix, row(prompt_tokens_p50=800.0, output_token_rate_tps=2000.0), 60.0, 0.25)
    assert mix.tolist() == [[500.0, 2000.0, 800.0, 250.0]]


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, value) for name in WINDOW for value in (np.nan, 0.0)), ("samples", 5e-324)],
)
def test_a_window_that_shows_too_little_says_nothing(name: str, value: float) -> None:
    mix = np.array([[1.0, 2.0, 3.0, 4.0]])
    with np.errstate(divide="raise", invalid="raise"):
        see_mix(mix, row(**{name: value}), 60.0, 0.25)
    assert mix.tolist() == [[1.0, 2.0, 3.0, 4.0]]
