"""Section `silicon`: rows that the engine itself would give pass, wrong ones do not."""

import dataclasses
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from gatepilot.envs.profiles.fit import FitError, MeasuredRow
from gatepilot.envs.profiles.profile import load_profile
from gatepilot.envs.profiles.step import StepModel
from gatepilot.experiments.closed_loops import FirstToken, LoopProtocol, LoopRun, predict
from gatepilot.experiments.plots import drawn
from gatepilot.experiments.silicon_rows import FILE_NAME
from gatepilot.experiments.validation.claim import Claim, Section, ValidationContext
from gatepilot.experiments.validation.silicon import ALL, TPOT_BAR, median_interval, run
from gatepilot.experiments.validation.silicon_profiles import FULL, left_out_points

NAME = "llama-3.1-70b-fp8-h100_sxm-tp2-vllm"
HEADER = (
    "model,gpu,engine,engine_version,precision,tp,pp,attn_dp,moe_tp,moe_ep,isl,osl,"
    "client_concurrency,concurrency_per_replica,ttft_ms,tpot_ms,origin,measured\n"
)
STEP = StepModel(0.015, 8e-5, 4e-8, 1e-4)
"""Not the catalogue's: what is predicted comes from the rows alone."""
FRONT_END = FirstToken(front_end_s=0.03)
INFERENCEX = LoopProtocol(shortest_share=0.8)


def write_rows(
    folder: Path,
    spoil: Callable[[int, float], float] = lambda c, tpot: tpot,
    prompts: Sequence[int] = (256, 1024, 4096),
) -> Path:
    """The trace folder with measured rows of one profile, two of them bound by its cache."""
    lines = [HEADER]
    for c, isl, osl in [
        *((c, isl, 128 if c in (4, 16) else 512) for c in (4, 8, 16, 32) for isl in prompts),
        (64, 8192, 256),
        (128, 4096, 256),
    ]:
        row = MeasuredRow(c, isl, osl, 0.0, 0.0)
        capacity = load_profile(NAME).kv_capacity_tokens
        protocol = dataclasses.replace(INFERENCEX, kv_tokens=capacity)
        found = predict(LoopRun(row, protocol), STEP, seed=5, first=FRONT_END)
        lines.append(
            f"meta-llama/Llama-3.1-70B,h100_sxm,vllm,,fp8,2,1,1,2,1,{isl},{osl},{c},{c},"
            f"{1000 * found.ttft_s},{1000 * spoil(c, found.tpot_s)},benchmark-export,2025-10-29\n"
        )
    (folder / FILE_NAME).write_bytes(gzip.compress("".join(lines).encode()))
    return folder


def section(folder: Path, *, quick: bool = True) -> Section:
    return run(ValidationContext(traces=folder, reference=None, quick=quick))


def claim(found: Section, quantity: str, subject: str = NAME) -> Claim:
    (one,) = [c for c in found.claims if (c.subject, c.quantity) == (subject, quantity)]
    return one


def test_rows_of_the_engine_pass(tmp_path: Path) -> None:
    found = section(write_rows(tmp_path))
    tpot = claim(found, "TPOT")
    assert tpot.passed
    assert tpot.bar == TPOT_BAR
    assert tpot.measured < 0.025  # the front end is in no TPOT
    assert tpot.interval is not None
    assert tpot.interval[0] <= tpot.measured <= tpot.interval[1]
    assert tpot.note.startswith("12 rows; worst ")
    # the catalogue's coefficients are other ones
    assert claim(found, "TPOT as shipped").measured > 0.04
    assert claim(found, "TPOT as shipped").passed is None
    sixteen, eight = (claim(found, f"KV-bound TTFT, {bits} bits") for bits in (16, 8))
    assert sixteen.note.startswith("2 rows that a 16-bit KV cache binds, with one of 16 bits")
    # the rows were made with the catalogue's capacity
    assert sixteen.measured < eight.measured
    assert claim(found, "TPOT", ALL).measured == tpot.measured
    assert {c.subject for c in found.claims} == {NAME, ALL}


def test_first_tokens_are_better_once_the_front_end_is_fitted(tmp_path: Path) -> None:
    found = section(write_rows(tmp_path), quick=False)
    plain, fitted = claim(found, "TTFT"), claim(found, "TTFT, front end fitted")
    assert plain.passed is fitted.passed is None
    assert plain.measured > 0.1
    assert fitted.measured < 0.6 * plain.measured
    assert "within the aim of 20%" in fitted.note
    assert "1 profiles have a median within the aim" in claim(found, fitted.quantity, ALL).note


def test_rows_that_no_iteration_explains_do_not_pass(tmp_path: Path) -> None:
    """Times that jump with the concurrency: what others say of one left out is wrong."""
    found = section(write_rows(tmp_path, lambda c, tpot: tpot * (1.3 if c in (8, 32) else 1.0)))
    assert claim(found, "TPOT").passed is False
    assert found.missed == (claim(found, "TPOT"),)


def test_a_left_out_row_does_not_tell_of_itself() -> None:
    """Spoilt rows of one concurrency change what is predicted for others, not for themselves."""
    rows = [
        LoopRun(MeasuredRow(c, isl, 256, 0.01 + 1e-4 * c + isl * 1e-6, 0.3), INFERENCEX)
        for c in (4, 8, 16, 32)
        for isl in (256, 1024, 4096)
    ]
    spoilt = [
        dataclasses.replace(run, row=dataclasses.replace(run.row, tpot_s=1.0, ttft_s=9.0))
        if run.row.concurrency == 16
        else run
        for run in rows
    ]
    effort = dataclasses.replace(FULL, repeats=1, evaluations=10)
    before, after = (
        left_out_points(runs, expert_share=0.0, effort=effort, seed=0) for runs in (rows, spoilt)
    )
    for one, other in zip(before, after, strict=True):
        same = one.run.row.concurrency == 16
        assert (one.tpot_s == other.tpot_s) == same
        assert (one.fitted_ttft_s == other.fitted_ttft_s) == same


def test_without_the_rows_it_is_skipped(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        found = run(ValidationContext(traces=folder, reference=None))
        assert found.skipped is not None
        assert FILE_NAME in found.skipped
        assert not found.claims


def test_a_file_of_other_hardware_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path) / FILE_NAME
    text = gzip.decompress(path.read_bytes()).decode().replace("h100_sxm", "b200_sxm")
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(FitError, match=f"{FILE_NAME}: no row measures one of the 3 profiles"):
        section(tmp_path)


def test_rows_that_are_too_few_for_a_fit_are_compared_as_shipped(tmp_path: Path) -> None:
    path = write_rows(tmp_path) / FILE_NAME
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(lines[:4]).encode()))
    found = section(tmp_path)
    (only,) = found.claims
    assert only.quantity == "TPOT as shipped"
    assert "3 rows; the catalogue's coefficients; too few to predict" in only.note
    assert found.figures == ()


def test_figures_are_drawn(tmp_path: Path) -> None:
    found = section(write_rows(tmp_path))
    assert [figure.name for figure in found.figures] == ["silicon_tpot", "silicon_ttft"]
    for figure in found.figures:
        assert "<svg" in drawn(figure.draw)


def test_interval_of_a_median() -> None:
    assert median_interval([0.3], 0) == (0.3, 0.3)
    rng = np.random.default_rng(0)
    intervals = [median_interval(rng.exponential(1.0, 60).tolist(), seed) for seed in range(150)]
    covered = np.mean([low < np.log(2) < high for low, high in intervals])
    assert 0.9 < covered < 0.99


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_bar_is_met(traces_dir: Path) -> None:
    found = run(ValidationContext(traces=traces_dir, reference=None))
    assert not found.missed
    assert sum(c.passed is True for c in found.claims) == 20


def test_a_profile_of_each_kind_meets_its_bar(traces_dir: Path) -> None:
    found = section(traces_dir)
    assert not found.missed
    assert sum(c.passed is True for c in found.claims) == 3
