"""Section `silicon`: replicas of the catalogue against measured serving engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...envs.profiles.fit import FitError
from ...envs.profiles.profile import Profile, load_profile, profile_ids
from ..compilation import compile_closed_loop_with_notice
from ..silicon_rows import FILE_NAME, SiliconRow, load_silicon_rows
from .claim import Claim, Interval, Section, ValidationContext, skipped_section
from .silicon_figures import silicon_figures
from .silicon_profiles import FULL, KERNEL, MEASURED, QUICK, Compared, Point, compare

TPOT_BAR: Final = 0.05
"""Largest median error of the mean time a token, on concurrencies left out of the fit."""
TTFT_AIM: Final = 0.2
"""Median error of the mean time to the first token that is aimed at; no bar."""
QUICK_PROFILES: Final = (
    "llama-3.1-70b-fp8-h100_sxm-tp2-vllm",
    "qwen3-32b-bf16-h100_sxm-tp4-vllm",
    "gpt-oss-120b-fp4-h100_sxm-tp2-vllm",
)
ALL: Final = "all measured profiles"
_RESAMPLES: Final = 2000
_TITLE: Final = "Measured silicon"
_INTRO: Final = (
    "Closed-loop benchmark runs of real serving engines (serving-silicon-points.csv.gz, from "
    "aiconfigurator-core 0.12.0, NVIDIA, Apache-2.0) against a simulated replica in the same loop: "
    "the same concurrency, lengths and number of requests. Left out: for each concurrency the "
    "step coefficients are fitted to the rows of the others alone, through the engine, and the "
    "mean time a token (TPOT) of the left-out rows is predicted. Met: the median error is at most "
    f"{100 * TPOT_BAR:g} %. The mean time to the first token (TTFT) is reported twice, both with "
    "the left-out rows unseen: from the TPOT coefficients alone, and with two figures fitted to "
    "the TTFT of the other concurrencies (front end, prefill token); aim "
    f"{100 * TTFT_AIM:g} %. KV-bound: rows whose requests need more than a 16-bit cache holds, in "
    "no fit; with such a cache, and with one of 8 bits, which InferenceX' public scripts ask for. "
    "As shipped: the catalogue's coefficients. Kernel models were fitted to none of these rows. "
    "How the rows were measured is not published with them; what is assumed, and the sources, "
    "stand in experiments/silicon_rows.py. Settings of the vendor's rows (lengths, number of "
    "requests, token budget) are the least sure."
)
_WHY: Final = {
    ("sglang", True): "SGLang stops decoding to prefill, and with constant lengths whole waves of "
    "prompts come together: what prefill costs hardly shows in TPOT",
    ("trtllm", True): "with constant lengths TTFT depends on how many prompts come together; "
    "number of requests and token budget of these rows are not published",
    ("vllm", True): "with constant lengths TTFT depends on how many prompts come together; "
    "number of requests and token budget of these rows are not published",
    ("trtllm", False): "TensorRT-LLM was told to hold prompts back for up to 20 iterations, to "
    "batch them (batch_wait_timeout_iters, rows of 1,024 + 1,024 tokens); not modelled",
}
"""Likely reasons for a missed aim, by engine and by whether they are the vendor's own rows."""
_WHY_HERE: Final = {
    "llama-3.1-8b-bf16-h100_sxm-tp1-trtllm": "measured TTFT grows with the length of the answers "
    "at low concurrency, as if one request always waited for a slot; not modelled"
}
"""The same for single profiles."""


def run(context: ValidationContext) -> Section:
    """Compares every profile of the catalogue that has rows.

    Raises:
        FitError: The file cannot be used, or measures none of the profiles.
    """
    path = None if context.traces is None else context.traces / FILE_NAME
    if path is None or not path.is_file():
        reason = f"no {FILE_NAME}: name the folder of the traces with --traces DIR"
        return skipped_section("silicon", _TITLE, _INTRO, reason)
    rows = load_silicon_rows(path)
    names = [name for name in profile_ids() if not context.quick or name in QUICK_PROFILES]
    profiles = [load_profile(name) for name in names]
    effort = QUICK if context.quick else FULL
    work = [
        (profile, matching)
        for profile in profiles
        if (matching := [row for row in rows if _has(profile, row)])
    ]
    compile_closed_loop_with_notice()
    advance = context.progress.start(_TITLE, len(work))
    found = []
    for profile, matching in work:
        found.append(compare(profile, matching, effort=effort, seed=context.seed))
        advance(1)
    claims = [claim for one in found for claim in _claims(one, context.seed)]
    claims += _overall(found, context.seed)
    if not claims:
        msg = f"{path}: no row measures one of the {len(profiles)} profiles that are compared"
        raise FitError(msg)
    return Section(
        "silicon", _TITLE, _INTRO, tuple(claims), figures=silicon_figures(found, TPOT_BAR, TTFT_AIM)
    )


def _has(profile: Profile, row: SiliconRow) -> bool:
    """Whether a row is of a profile's hardware; for a kernel model any engine's will do."""
    return row.matches(profile) or (profile.kind == KERNEL and row.matches_hardware(profile))


def _claims(one: Compared, seed: int) -> list[Claim]:
    """What is said of one profile; only the left-out TPOT has a bar."""
    name = one.profile.id
    if one.profile.kind == KERNEL:
        note = f"{len(one.points)} rows of {', '.join(one.engines)}, none of them in the fit"
        return [
            _claim(name, quantity, errors(one.points), seed, note=note)
            for quantity, errors in (("TPOT", _tpot_errors), ("TTFT", _ttft_errors))
            if one.points
        ]
    claims = _left_out_claims(one, seed) if one.points else []
    if one.shipped:
        alone = "" if one.points else "; too few to predict any of them by the others"
        note = f"{len(one.shipped)} rows; the catalogue's coefficients{alone}"
        claims.append(_claim(name, "TPOT as shipped", _tpot_errors(one.shipped), seed, note=note))
    for bits, points in ((16, one.bound), (8, one.bound_8_bit)):
        if points:
            note = (
                f"{len(points)} rows that a 16-bit KV cache binds, with one of {bits} bits; "
                "the catalogue's coefficients; which one was used is not published"
            )
            claims += [
                _claim(name, f"KV-bound TPOT, {bits} bits", _tpot_errors(points), seed, note=note),
                _claim(name, f"KV-bound TTFT, {bits} bits", _ttft_errors(points), seed, note=note),
            ]
    return claims


def _left_out_claims(one: Compared, seed: int) -> list[Claim]:
    """How the rows of each concurrency are predicted by those of the others."""
    name, rows = one.profile.id, f"{len(one.points)} rows"
    left = f"; {one.left} more not predicted: too few rows beside them" if one.left else ""
    worst = max(one.points, key=lambda point: abs(point.tpot_error))
    tpot_note = (
        f"{rows}{left}; worst {worst.tpot_error:+.1%} at concurrency {worst.run.row.concurrency}, "
        f"{worst.run.row.prompt_tokens:,} + {worst.run.row.output_tokens:,} tokens"
    )
    claims = [
        _claim(name, "TPOT", _tpot_errors(one.points), seed, bar=TPOT_BAR, note=tpot_note),
        _claim(
            name, "TTFT", _ttft_errors(one.points), seed, note=f"{rows}; nothing fitted to TTFT"
        ),
    ]
    if one.is_fitted:
        errors = _fitted_errors(one.points)
        claims.append(
            _claim(name, "TTFT, front end fitted", errors, seed, note=_ttft_note(one, errors))
        )
    return claims


def _overall(found: Sequence[Compared], seed: int) -> list[Claim]:
    """Over the rows of all measured profiles together."""
    measured = [one for one in found if one.profile.kind == MEASURED]
    points = [point for one in measured for point in one.points]
    if not points:
        return []
    rows = f"{len(points)} rows of {len(measured)} profiles"
    claims = [
        _claim(ALL, "TPOT", _tpot_errors(points), seed, note=rows),
        _claim(ALL, "TTFT", _ttft_errors(points), seed, note=rows),
    ]
    if any(one.is_fitted for one in measured):
        within = sum(np.median(np.abs(_fitted_errors(one.points))) <= TTFT_AIM for one in measured)
        note = f"{rows}; {within} profiles have a median within the aim of {TTFT_AIM:.0%}"
        claims.append(
            _claim(ALL, "TTFT, front end fitted", _fitted_errors(points), seed, note=note)
        )
    return claims


def _claim(
    subject: str,
    quantity: str,
    errors: Sequence[float],
    seed: int,
    *,
    note: str,
    bar: float | None = None,
) -> Claim:
    """The median size of relative errors, with its interval over the rows."""
    sizes = [abs(error) for error in errors]
    median = float(np.median(sizes))
    passed = None if bar is None else median <= bar
    return Claim(
        subject, quantity, median, bar, "fraction", passed, note, median_interval(sizes, seed)
    )


def median_interval(sizes: Sequence[float], seed: int) -> Interval:
    """95 % interval of a median: percentiles of the medians of resampled rows.

    Args:
        sizes: `(n,)`.
        seed: Of the resampling.
    """
    values = np.asarray(sizes)
    drawn = np.random.default_rng(seed).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[drawn], axis=1), [2.5, 97.5]).tolist()
    return low, high


def _ttft_note(one: Compared, errors: Sequence[float]) -> str:
    """Rows, whether the aim is met, and why not."""
    if np.median(np.abs(errors)) <= TTFT_AIM:
        return f"{len(errors)} rows; within the aim of {TTFT_AIM:.0%}"
    why = _WHY_HERE.get(
        one.profile.id, _WHY.get((one.profile.engine, one.vendor), "no reason known")
    )
    return f"{len(errors)} rows; misses the aim of {TTFT_AIM:.0%}, probably because: {why}"


def _tpot_errors(points: Sequence[Point]) -> list[float]:
    return [point.tpot_error for point in points]


def _ttft_errors(points: Sequence[Point]) -> list[float]:
    return [point.ttft_error for point in points]


def _fitted_errors(points: Sequence[Point]) -> list[float]:
    return [point.fitted_ttft_error for point in points]
