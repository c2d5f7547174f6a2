"""The step model and the closed-loop identity, by hand."""

import numpy as np
import pytest

from gatepilot.envs.profiles.profile import load_profile, profile_ids
from gatepilot.envs.profiles.step import StepModel, closed_loop_columns

STEP = StepModel(0.01, 1e-3, 1e-6, 2e-5)


def test_identity_by_hand() -> None:
    # 8 sequences of 1,000 + 200 / 2 tokens; 8 prompts of 1,000 tokens every 200 iterations
    expected = 0.01 + 8 * 1e-3 + 8 * 1100 * 1e-6 + 8 * 1000 / 200 * 2e-5
    assert float(STEP.tpot_s(8, 1000, 200)) == pytest.approx(expected)


def test_experts_that_tokens_activate_by_counting() -> None:
    """The share of experts that nobody chose, by drawing choices."""
    rng = np.random.default_rng(0)
    for tokens in (1, 8, 40):
        chosen = rng.random((2000, tokens, 128)).argsort(axis=-1)[..., :4]
        read = np.mean([len(np.unique(draw)) / 128 for draw in chosen])
        column = closed_loop_columns(tokens, 100, 100, 4 / 128)[..., 4]
        assert float(column) == pytest.approx(read, rel=0.01)


def test_one_row_or_many() -> None:
    many = STEP.tpot_s([1, 2, 64], [100, 100, 4000], [50, 60, 70])
    assert many.shape == (3,)
    assert many[1] == STEP.tpot_s(2, 100, 60)


def test_coefficients_and_back() -> None:
    for step in (STEP, StepModel(0.01, 1e-3, 1e-6, 2e-5, 0.004, 0.25)):
        assert StepModel.of_coefficients(step.coefficients, step.expert_share) == step


@pytest.mark.parametrize("name", profile_ids())
def test_a_profile_hands_its_coefficients_on(name: str) -> None:
    profile = load_profile(name)
    assert profile.step.base_s == profile.base_s
    assert (profile.step.experts_s > 0) == ("gpt-oss" in name)
