"""Fits to closed-loop rows: known coefficients, published ones, files."""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from gatepilot.envs.profiles.fit import FitError, MeasuredRow, fit_step
from gatepilot.envs.profiles.profile import parse_profile
from gatepilot.envs.profiles.step import StepModel
from gatepilot.experiments.silicon_rows import FILE_NAME, load_silicon_rows, runs_of

DENSE = StepModel(0.012, 4e-5, 5e-8, 7e-5)
EXPERTS = StepModel(0.004, 4e-5, 2e-9, 2.5e-5, 0.008, 4 / 128)
SHAPES = [(128, 1024), (1024, 1024), (8192, 512)]


def rows_of(step: StepModel, noise: float = 0.0) -> list[MeasuredRow]:
    """What the identity says, with relative noise."""
    rng = np.random.default_rng(1)
    return [
        MeasuredRow(c, p, o, float(step.tpot_s(c, p, o)) * float(rng.normal(1, noise)), math.nan)
        for c in (4, 8, 16, 32, 64)
        for p, o in SHAPES
    ]


@pytest.mark.parametrize("step", [DENSE, EXPERTS])
def test_known_coefficients_come_back(step: StepModel) -> None:
    found = fit_step(rows_of(step), expert_share=step.expert_share)
    np.testing.assert_allclose(found.coefficients, step.coefficients, rtol=1e-6)
    assert found.expert_share == step.expert_share


@pytest.mark.parametrize(
    "keep",
    [
        lambda row: row.output_tokens == 1024,  # context and prefill are one column then
        lambda row: row.concurrency == 8,
    ],
)
def test_rows_that_cannot_tell_the_coefficients_apart(keep: Callable[[MeasuredRow], bool]) -> None:
    rows = [row for row in rows_of(DENSE) if keep(row)] * 2
    with pytest.raises(FitError, match="cannot tell the coefficients apart; expected runs"):
        fit_step(rows)


def test_shorter_lengths_than_nominal() -> None:
    rows = rows_of(DENSE)
    nominal = [
        dataclasses.replace(
            row, prompt_tokens=row.prompt_tokens * 2, output_tokens=row.output_tokens * 2
        )
        for row in rows
    ]
    found = fit_step(nominal, length_share=0.5)
    np.testing.assert_allclose(found.coefficients, DENSE.coefficients, rtol=1e-6)


def test_relative_errors_are_least_by_another_method() -> None:
    rows = rows_of(DENSE, noise=0.05)
    tpot_s = np.array([row.tpot_s for row in rows])

    def loss(step: StepModel) -> float:
        found = step.tpot_s(*_columns(rows))
        return float(np.square(found / tpot_s - 1).sum())

    best = fit_step(rows)
    scale = DENSE.coefficients
    found = minimize(
        lambda x: loss(StepModel.of_coefficients(np.abs(x) * scale, 0.0)),
        np.ones(4),
        method="Nelder-Mead",
        options={"maxfev": 4000, "xatol": 1e-6, "fatol": 1e-12},
    )
    assert loss(best) <= found.fun + 1e-9
    np.testing.assert_allclose(best.coefficients, np.abs(found.x) * scale, rtol=0.02)


def test_no_coefficient_is_below_zero() -> None:
    rows = [
        dataclasses.replace(row, tpot_s=row.tpot_s - 3e-5 * row.concurrency)
        for row in rows_of(StepModel(0.02, 0.0, 1e-8, 1e-6))
    ]
    assert fit_step(rows).coefficients.min() == 0.0


def test_rows_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="4 rows: a fit of four coefficients needs 5 or more"):
        fit_step(rows_of(DENSE)[:4])
    proportional = [
        MeasuredRow(c, p, o, 1e-4 * c * p / o, math.nan) for c in (1, 2, 4) for p, o in SHAPES
    ]
    with pytest.raises(ValueError, match="leave an iteration without a duration"):
        fit_step(proportional)


def test_the_published_coefficients_follow_from_the_measured_rows(traces_dir: Path) -> None:
    """The identity on nominal lengths, which is how profiles.json says it was fitted."""
    facts = json.loads((traces_dir / "profiles.json").read_text())
    silicon = load_silicon_rows(traces_dir / FILE_NAME)
    compared = 0
    for entry in facts["profiles"]:
        if entry["kind"] != "measured-fit" or entry["model"] == "gpt-oss-120b":
            continue  # its rows stand several times in the published fit
        profile = parse_profile(entry, where="profiles.json", name=entry["id"])
        free, bound = runs_of([row for row in silicon if row.matches(profile)], profile)
        assert len(bound) == entry["fit"]["n_kv_bound_points_excluded"]
        if entry["fit"]["n_outliers_dropped"]:
            continue
        assert len(free) == entry["fit"]["n_points"]
        found = fit_step([run.row for run in free])
        published = parse_profile(entry, where="", name="").step
        np.testing.assert_allclose(found.coefficients, published.coefficients, rtol=2e-3, atol=2e-9)
        compared += 1
    assert compared > 30


def _columns(rows: Sequence[MeasuredRow]) -> tuple[list[int], list[int], list[int]]:
    return (
        [row.concurrency for row in rows],
        [row.prompt_tokens for row in rows],
        [row.output_tokens for row in rows],
    )
