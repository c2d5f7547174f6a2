"""Fits coefficients to measured closed loops through the engine that will use them.

The closed-loop identity (`envs/profiles/step.py`) takes a request that waits or prefills for one
that decodes, so what is fitted with it comes out a few percent low once the engine runs the same
loop. Here the identity is only the way to a linear fit: each measured time is scaled by what the
identity says over what the engine says, until both say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from scipy.optimize import minimize

from ..envs.profiles.fit import FitError, fit_step
from ..envs.profiles.step import StepModel
from .closed_loops import FirstToken, LoopRun, predict

ROUNDS: Final = 4
"""Times the scales are renewed; from the third on the coefficients move by less than a percent."""
_FRONT_END_STARTS_S: Final = (0.002, 0.01)
"""Where the search for the front end begins: a few milliseconds of HTTP and tokenising."""


def fit_through_engine(
    runs: Sequence[LoopRun], *, expert_share: float = 0.0, seed: int = 0
) -> StepModel:
    """The step model with which the engine reproduces measured times a token.

    Args:
        runs: Measured rows; all with the same `shortest_share`.
        expert_share: Share of the experts a token activates; 0: a dense model.
        seed: Of the drawn lengths.

    Raises:
        FitError: Too few rows, rows that differ in `shortest_share`, or no fit that has a duration.
    """
    shares = {run.protocol.mean_share for run in runs}
    if len(shares) > 1:
        msg = "rows of benchmarks with different ranges of lengths cannot be fitted together"
        raise FitError(msg)
    rows = [run.row for run in runs]
    measured = np.array([row.tpot_s for row in rows])
    share = shares.pop() if shares else 1.0
    target = measured
    for _ in range(ROUNDS):
        step = fit_step(rows, tpot_s=target, length_share=share, expert_share=expert_share)
        by_identity = step.tpot_s(
            [row.concurrency for row in rows],
            [share * row.prompt_tokens for row in rows],
            [share * row.output_tokens for row in rows],
        )
        by_engine = np.array([predict(run, step, seed=seed).tpot_s for run in runs])
        target = measured * by_identity / by_engine
    return fit_step(rows, tpot_s=target, length_share=share, expert_share=expert_share)


def leave_one_out(
    runs: Sequence[LoopRun],
    *,
    expert_share: float = 0.0,
    seed: int = 0,
    advance: Callable[[int], None] = lambda steps: None,
) -> list[float | None]:
    """Relative error of each row's time a token, predicted by a fit to the others.

    None: nothing can be fitted to the others, e.g. for they are too few.

    Args:
        runs: Measured rows.
        expert_share: Share of the experts a token activates.
        seed: Of the drawn lengths.
        advance: Told after each row.
    """
    errors: list[float | None] = []
    for i, left_out in enumerate(runs):
        others = [run for j, run in enumerate(runs) if j != i]
        try:
            step = fit_through_engine(others, expert_share=expert_share, seed=seed)
        except FitError:
            errors.append(None)
        else:
            errors.append(predict(left_out, step, seed=seed).tpot_s / left_out.row.tpot_s - 1)
        advance(1)
    return errors


def fit_first_token(
    runs: Sequence[LoopRun], step: StepModel, *, seed: int = 0, evaluations: int = 50
) -> FirstToken:
    """What a first token takes beside the step model, from measured times to the first token.

    Two figures: the front end's time a request, and a prefill token's time, which the times a token
    tell only roughly. The mean size of the logarithm of predicted over measured is made small.

    Args:
        runs: Rows whose time to the first token was measured.
        step: The step model; it stays as it is.
        seed: Of the drawn lengths.
        evaluations: Most tries from each start.
    """
    measured = np.log([run.row.ttft_s for run in runs])

    def first_of(logs: np.ndarray) -> FirstToken:
        front_end_s, per_prefill_token_s = np.exp(logs).tolist()
        return FirstToken(front_end_s, per_prefill_token_s)

    def loss(logs: np.ndarray) -> float:
        found = [predict(run, step, seed=seed, first=first_of(logs)).ttft_s for run in runs]
        return float(np.abs(np.log(found) - measured).mean())

    per_prefill_token_s = max(step.per_prefill_token_s, 1e-6)
    tries = [
        minimize(
            loss,
            np.log([front_end_s, per_prefill_token_s]),
            method="Nelder-Mead",
            options={"maxfev": evaluations, "xatol": 0.02, "fatol": 1e-3},
        )
        for front_end_s in _FRONT_END_STARTS_S
    ]
    return first_of(min(tries, key=lambda found: float(found.fun)).x)
