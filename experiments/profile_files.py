"""Profiles of one's own: measured rows in, a profile's JSON out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..envs.profiles.keys import ProfileError
from ..envs.profiles.memory import memory_problem
from ..envs.profiles.profile import load_profile, parse_profile, profile_content
from ..envs.profiles.step import StepModel
from .closed_loop_fit import fit_through_engine, leave_one_out
from .closed_loops import LoopRun, predict

_DIGITS: Final = 6
"""Significant digits of a fitted figure; the rows have four or five."""
_OF_THE_OTHER: Final = (
    "id",
    "published_step",
    "published_fit",
    "measured_ttft_ms_at_lowest_concurrency",
)
"""Keys of a profile that are not taken over from one that is only alike."""
_ANY_STEP: Final = StepModel(0.01, 0.0, 0.0, 0.0)
"""Stands for the coefficients while what does not depend on them is checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a profile says beside its coefficients; `None` leaves it as in `like`, or unsaid."""

    like: str | None = None
    """Catalogue id or file to take everything else from."""
    model: str | None = None
    gpu: str | None = None
    gpus_per_replica: int | None = None
    engine: str | None = None
    precision: str | None = None
    weights_gib_per_gpu: float | None = None
    vram_gib_per_gpu: float | None = None
    kv_capacity_tokens: int | None = None
    expert_share: float | None = None


def fitted_profile(
    runs: Sequence[LoopRun],
    description: Description,
    *,
    rows: Path,
    seed: int = 0,
) -> dict[str, Any]:
    """Fits a profile through the engine and writes down how well it does.

    Args:
        runs: Measured rows; those that the KV cache binds are left out.
        description: The rest of the profile.
        rows: File of the rows, named as the source.
        seed: Of drawn lengths.

    Returns:
        A profile's JSON, see `parse_profile`.

    Raises:
        ProfileError: Too few rows, rows that nothing fits, no such profile to be like, or a
            description that no replica can have.
    """
    content = _described(description, rows)
    share = description.expert_share
    if share is None:
        share = 0.0 if description.like is None else load_profile(description.like).expert_share
    free = [run for run in runs if not run.is_kv_bound]
    step = fit_through_engine(free, expert_share=share, seed=seed)
    errors = [abs(predict(run, step, seed=seed).tpot_s / run.row.tpot_s - 1) for run in free]
    left_out = leave_one_out(free, expert_share=share, seed=seed)
    predicted = [error for error in left_out if error is not None]
    loo_mape = float(np.mean(np.abs(predicted))) if len(predicted) == len(free) else None
    concurrency = [run.row.concurrency for run in free]
    return content | {
        "step": step_content(step),
        "fit": {
            "target": "mean TPOT, through the engine's closed loop",
            "n_points": len(free),
            "n_kv_bound_points_excluded": len(runs) - len(free),
            "mape": _rounded(float(np.mean(errors))),
            "max_ape": _rounded(max(errors)),
            "loo_mape": None if loo_mape is None else _rounded(loo_mape),
            "concurrency": [min(concurrency), max(concurrency)],
            "isl": sorted({run.row.prompt_tokens for run in free}),
            "osl": sorted({run.row.output_tokens for run in free}),
        },
    }


def _described(description: Description, rows: Path) -> dict[str, Any]:
    """All of a profile but its coefficients and how well they do.

    Raises:
        ProfileError: A value is out of range, or no GPU can hold this.
    """
    content = {} if description.like is None else profile_content(description.like)
    for name in _OF_THE_OTHER:
        content.pop(name, None)
    content |= {"source": f"fitted by gatepilot to {rows.name}", "kind": "measured-fit"}
    given = {
        name: value
        for name in ("model", "gpu", "gpus_per_replica", "engine", "precision")
        if (value := getattr(description, name)) is not None
    }
    memory = {
        name: value
        for name in ("weights_gib_per_gpu", "vram_gib_per_gpu", "kv_capacity_tokens")
        if (value := getattr(description, name)) is not None
    }
    content |= given
    if memory:
        content["memory"] = {**content.get("memory", {}), **memory}
    where = f"the profile of {rows}"
    profile = parse_profile(content | {"step": step_content(_ANY_STEP)}, where=where, name="")
    problem = memory_problem(profile)
    if problem is not None:
        msg = f"{where}: {problem}"
        raise ProfileError(msg)
    return content


def step_content(step: StepModel) -> dict[str, float]:
    """A step model as the JSON of a profile has it, in milliseconds."""
    content = {
        "base_ms": 1e3 * step.base_s,
        "per_seq_ms": 1e3 * step.per_seq_s,
        "per_1k_ctx_tokens_ms": 1e6 * step.per_ctx_token_s,
        "per_prefill_token_ms": 1e3 * step.per_prefill_token_s,
    }
    if step.experts_s > 0:  # a share of experts that take no time is no valid profile
        content |= {"experts_ms": 1e3 * step.experts_s, "expert_share": step.expert_share}
    return {name: _rounded(value) for name, value in content.items()}


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
