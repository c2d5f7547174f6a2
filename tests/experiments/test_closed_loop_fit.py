"""Benchmarks against a replica, and fits through the engine: what was put in comes out."""

import dataclasses

import numpy as np
import pytest

from gatepilot.envs.profiles.fit import MeasuredRow, fit_step
from gatepilot.envs.profiles.step import StepModel
from gatepilot.experiments.closed_loop_fit import (
    fit_first_token,
    fit_through_engine,
    leave_one_out,
)
from gatepilot.experiments.closed_loops import (
    PLAIN,
    FirstToken,
    LoopProtocol,
    LoopRun,
    engine_of,
    predict,
)

from .loop_kit import DENSE, EXPERTS, RANDOM, loop_runs


def test_a_benchmark_of_one_client_by_hand() -> None:
    run = LoopRun(MeasuredRow(1, 1000, 101, 0.0, 0.0), LoopProtocol())
    found = predict(run, DENSE, seed=0, first=FirstToken(front_end_s=0.5))
    assert found.ttft_s == pytest.approx(0.5 + 0.0167 + 1000 * 8.2e-5)
    assert found.tpot_s == pytest.approx(0.0167 + 3.5e-5 + 6.3e-8 * (1001 + 1100) / 2)


def test_a_prefill_token_of_its_own() -> None:
    run = LoopRun(MeasuredRow(1, 1000, 101, 0.0, 0.0), LoopProtocol())
    found = predict(run, DENSE, seed=0, first=FirstToken(per_prefill_token_s=1e-3))
    assert found.ttft_s == pytest.approx(0.0167 + 1.0)


def test_the_engine_has_a_slot_for_every_client() -> None:
    run = LoopRun(MeasuredRow(300, 10, 10, 0.0, 0.0), LoopProtocol(chunk_tokens=256))
    params = engine_of(run, DENSE, PLAIN)
    assert params.max_num_seqs == params.chunk_tokens == 300


def test_a_row_is_the_same_whatever_else_is_run() -> None:
    first, second = loop_runs(DENSE)[:2]
    assert predict(second, DENSE, seed=3) == predict(second, DENSE, seed=3)
    assert predict(second, DENSE, seed=3) != predict(second, DENSE, seed=4)
    again = [predict(run, DENSE, seed=3) for run in (first, second)]
    assert again[1] == predict(second, DENSE, seed=3)


@pytest.mark.parametrize("step", [DENSE, EXPERTS])
@pytest.mark.parametrize(("seed", "off"), [(7, 0.005), (1, 0.15)])
def test_known_coefficients_come_back(step: StepModel, seed: int, off: float) -> None:
    """Exactly if the fit draws the lengths that were measured; the times come back anyway."""
    runs = loop_runs(step, seed=7)
    found = fit_through_engine(runs, expert_share=step.expert_share, seed=seed)
    np.testing.assert_allclose(found.coefficients, step.coefficients, rtol=off, atol=1e-9)
    errors = [predict(run, found, seed=seed).tpot_s / run.row.tpot_s - 1 for run in runs]
    assert abs(np.mean(errors)) < 0.002
    assert max(map(abs, errors)) < 0.02


def test_the_identity_alone_comes_out_low_in_the_engine() -> None:
    """Why fits go through the engine: clients in step hardly see each other's prompts."""
    runs = loop_runs(DENSE, protocol=LoopProtocol())
    by_identity = fit_step([run.row for run in runs])
    through_engine = fit_through_engine(runs)

    def bias(step: StepModel) -> float:
        found = [predict(run, step, seed=0).tpot_s / run.row.tpot_s - 1 for run in runs]
        return float(np.median(found))

    assert bias(by_identity) < -0.03
    assert abs(bias(through_engine)) < 0.01


def test_each_row_left_out() -> None:
    runs = loop_runs(DENSE)
    told: list[int] = []
    errors = leave_one_out(runs, seed=7, advance=told.append)
    assert len(told) == len(errors) == len(runs)
    assert max(abs(error) for error in errors if error is not None) < 0.02
    assert None not in errors
    # a wrong row is not predicted by the others, and hardly spoils them
    spoilt = [dataclasses.replace(runs[0], row=dataclasses.replace(runs[0].row, tpot_s=0.05))]
    errors = leave_one_out([*spoilt, *runs[1:]], seed=7)
    assert errors[0] is not None
    assert errors[0] < -0.5


def test_a_row_that_the_others_cannot_predict() -> None:
    assert leave_one_out(loop_runs(DENSE)[:5], seed=7) == [None] * 5


def test_answers_of_one_token_have_no_time_a_token() -> None:
    run = LoopRun(MeasuredRow(2, 100, 1, 0.0, 0.0), LoopProtocol())
    with pytest.raises(ValueError, match="concurrency 2, answers of up to 1 tokens: all that"):
        predict(run, DENSE, seed=0)


def test_front_end_and_prefill_come_back() -> None:
    first = FirstToken(front_end_s=0.006, per_prefill_token_s=1.1e-4)
    runs = loop_runs(DENSE, first=first)
    found = fit_first_token(runs, DENSE, seed=7, evaluations=120)
    assert found.front_end_s == pytest.approx(0.006, rel=0.1)
    assert found.per_prefill_token_s == pytest.approx(1.1e-4, rel=0.02)
    unseen = loop_runs(DENSE, first=first, concurrencies=(24,))
    for run in unseen:
        predicted = predict(run, DENSE, seed=7, first=found).ttft_s
        assert predicted == pytest.approx(run.row.ttft_s, rel=0.03)


def test_different_ranges_of_lengths_are_refused() -> None:
    mixed = [*loop_runs(DENSE)[:4], *loop_runs(DENSE, protocol=LoopProtocol())[:4]]
    with pytest.raises(ValueError, match="different ranges of lengths"):
        fit_through_engine(mixed)
    with pytest.raises(ValueError, match="0 rows: a fit of four"):
        fit_through_engine([])


def test_lengths_are_those_of_the_protocol() -> None:
    assert RANDOM.mean_share == pytest.approx(0.9)
    run = LoopRun(MeasuredRow(4, 1000, 1000, 0.0, 0.0), LoopProtocol(shortest_share=0.5))
    # context grows with the lengths: a time a token that is nothing but context tells the mean
    context_only = StepModel(1e-9, 0.0, 1e-6, 1e-12)
    found = predict(run, context_only, seed=0, repeats=20)
    assert found.tpot_s == pytest.approx(4 * 1e-6 * (750 + 375), rel=0.05)
