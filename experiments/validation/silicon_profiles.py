"""A profile against the measured rows of its hardware, each concurrency left out of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...envs.profiles.fit import FitError
from ...envs.profiles.profile import Profile
from ..closed_loop_fit import fit_first_token, fit_through_engine
from ..closed_loops import FirstToken, LoopRun, predict
from ..silicon_rows import VENDOR_ORIGIN, SiliconRow, runs_of

MEASURED: Final = "measured-fit"
KERNEL: Final = "kernel-model"
"""Kinds of profiles."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to run."""

    repeats: int
    """Runs with other lengths that a prediction is the mean of."""
    evaluations: int
    """Tries of the search for what a first token takes besides; 0: none is made."""


FULL: Final = Effort(repeats=3, evaluations=50)
QUICK: Final = Effort(repeats=1, evaluations=0)


@dataclass(frozen=True, slots=True)
class Point:
    """One measured row and what was predicted for it."""

    run: LoopRun
    tpot_s: float
    """Mean time a token."""
    ttft_s: float
    """Mean time to the first token, from the coefficients of the times a token alone."""
    fitted_ttft_s: float | None = None
    """The same with what a first token takes besides; None: not fitted."""

    @property
    def tpot_error(self) -> float:
        """Predicted over measured, less 1."""
        return self.tpot_s / self.run.row.tpot_s - 1

    @property
    def ttft_error(self) -> float:
        """Predicted over measured, less 1."""
        return self.ttft_s / self.run.row.ttft_s - 1

    @property
    def fitted_ttft_error(self) -> float:
        """Predicted over measured, less 1; as `ttft_error` where nothing was fitted."""
        ttft_s = self.ttft_s if self.fitted_ttft_s is None else self.fitted_ttft_s
        return ttft_s / self.run.row.ttft_s - 1


def left_out_points(
    runs: Sequence[LoopRun],
    *,
    expert_share: float,
    effort: Effort,
    seed: int,
) -> list[Point]:
    """Predicts each row by a fit to the rows of all other concurrencies.

    A concurrency without which nothing can be fitted, for too few rows are left, is not predicted.

    Args:
        runs: Rows of one profile that the KV cache does not bind.
        expert_share: Share of the experts a token activates; 0: a dense model.
        effort: How much to run.
        seed: Of drawn lengths.
    """
    points = []
    for concurrency in sorted({run.row.concurrency for run in runs}):
        others = [run for run in runs if run.row.concurrency != concurrency]
        try:
            step = fit_through_engine(others, expert_share=expert_share, seed=seed)
        except FitError:
            continue
        first: FirstToken | None = None
        if effort.evaluations:
            first = fit_first_token(others, step, seed=seed, evaluations=effort.evaluations)
        for run in runs:
            if run.row.concurrency != concurrency:
                continue
            plain = predict(run, step, seed=seed, repeats=effort.repeats)
            fitted_s = None
            if first is not None:
                fitted = predict(run, step, seed=seed, first=first, repeats=effort.repeats)
                fitted_s = fitted.ttft_s
            points.append(Point(run, plain.tpot_s, plain.ttft_s, fitted_s))
    return points


def shipped_points(
    profile: Profile, runs: Sequence[LoopRun], *, effort: Effort, seed: int
) -> list[Point]:
    """Predicts rows by a profile as it is shipped.

    Args:
        profile: Its coefficients are used as they are.
        runs: Rows; nothing is left out.
        effort: How much to run.
        seed: Of drawn lengths.
    """
    found = []
    for run in runs:
        one = predict(run, profile.step, seed=seed, repeats=effort.repeats)
        found.append(Point(run, one.tpot_s, one.ttft_s))
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One profile against its rows."""

    profile: Profile
    points: tuple[Point, ...]
    """Rows of concurrencies left out of the fit; of a kernel model: all rows."""
    shipped: tuple[Point, ...]
    """The same rows by the catalogue's coefficients."""
    bound: tuple[Point, ...]
    """KV-bound rows by the catalogue's coefficients and capacity, that of a 16-bit cache."""
    bound_8_bit: tuple[Point, ...]
    """The same rows if the cache held twice as many tokens, as one of 8 bits does."""
    left: int
    """Rows that could not be predicted: without their concurrency too few are left."""
    vendor: bool
    """Whether they are the vendor's own runs."""
    engines: tuple[str, ...]
    """Engines and versions they were measured with."""

    @property
    def is_fitted(self) -> bool:
        """Whether the front end was fitted."""
        return any(point.fitted_ttft_s is not None for point in self.points)


def compare(
    profile: Profile,
    rows: Sequence[SiliconRow],
    *,
    effort: Effort,
    seed: int,
) -> Compared:
    """One profile against measured rows.

    Args:
        profile: Of the catalogue.
        rows: Rows of its hardware, at least one.
        effort: How much to run.
        seed: Of drawn lengths.
    """
    free, bound = runs_of(rows, profile)
    shipped = shipped_points(profile, free, effort=effort, seed=seed)
    points = shipped
    if profile.kind == MEASURED:
        points = left_out_points(free, expert_share=profile.expert_share, effort=effort, seed=seed)
    return Compared(
        profile,
        tuple(points),
        tuple(shipped),
        tuple(shipped_points(profile, bound, effort=effort, seed=seed)),
        tuple(shipped_points(profile, _in_8_bit(bound), effort=effort, seed=seed)),
        len(free) - len(points),
        all(row.origin == VENDOR_ORIGIN for row in rows),
        tuple(sorted({f"{row.engine} {row.engine_version}".strip() for row in rows})),
    )


def _in_8_bit(runs: Sequence[LoopRun]) -> list[LoopRun]:
    """The same rows with a cache of half as many bytes a token."""
    return [
        replace(run, protocol=replace(run.protocol, kv_tokens=2 * (run.protocol.kv_tokens or 0)))
        for run in runs
    ]
