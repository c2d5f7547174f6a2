"""Measured rows of real engines: which are read, how they were measured, whose they are."""

import dataclasses
import gzip
from pathlib import Path

import pytest

from gatepilot.envs.profiles.fit import FitError
from gatepilot.envs.profiles.profile import load_profile, profile_ids
from gatepilot.experiments.closed_loops import LoopProtocol
from gatepilot.experiments.silicon_rows import (
    FILE_NAME,
    VENDOR_ORIGIN,
    load_silicon_rows,
    runs_of,
)

HEADER = (
    "model,gpu,engine,engine_version,precision,tp,pp,attn_dp,moe_tp,moe_ep,isl,osl,"
    "client_concurrency,concurrency_per_replica,ttft_ms,tpot_ms,origin,measured\n"
)
ROW = (
    "meta-llama/Llama-3.1-70B,h100_sxm,vllm,,fp8,2.0,1.0,1.0,2.0,1.0,1024,1024,4.0,4.0,"
    "121.308,17.4072,benchmark-export-2026-04-06,2025-10-29\n"
)


def write(path: Path, *rows: str) -> Path:
    path.write_bytes(gzip.compress((HEADER + "".join(rows)).encode()))
    return path


def test_one_row(tmp_path: Path) -> None:
    (found,) = load_silicon_rows(write(tmp_path / "rows.csv.gz", ROW))
    assert found.row.concurrency == 4
    assert found.row.tpot_s == pytest.approx(0.0174072)
    assert found.row.ttft_s == pytest.approx(0.121308)
    assert found.matches(load_profile("llama-3.1-70b-fp8-h100_sxm-tp2-vllm"))
    assert not found.matches(load_profile("llama-3.1-70b-fp8-h100_sxm-tp4-vllm"))
    assert not found.matches(load_profile("llama-3.1-70b-fp8-h200_sxm-tp2-vllm"))
    other = dataclasses.replace(found, engine_version="0.12.0")
    assert not other.matches(load_profile("llama-3.1-70b-fp8-h100_sxm-tp2-vllm"))
    assert other.matches_hardware(load_profile("llama-3.1-70b-fp8-h100_sxm-tp2-vllm"))


def test_what_is_left_out(tmp_path: Path) -> None:
    rows = [
        ROW,
        ROW.replace("2026-04-06", "2026-03-25"),  # the same in another export
        ROW.replace(",4.0,4.0,", ",8.0,4.0,"),  # of two replicas
        ROW.replace(",4.0,4.0,", ",,4.0,"),  # unclear
        ROW.replace("fp8,2.0,1.0,", "fp8,2.0,2.0,"),  # pipeline
        ROW.replace(",1.0,2.0,1.0,1024", ",2.0,2.0,1.0,1024"),  # data parallel
        ROW.replace(",1.0,2.0,1.0,1024", ",1.0,1.0,2.0,1024"),  # expert parallel
    ]
    assert len(load_silicon_rows(write(tmp_path / "rows.csv.gz", *rows))) == 1


def test_how_they_were_measured(tmp_path: Path) -> None:
    trtllm = ROW.replace("vllm", "trtllm")
    rows = load_silicon_rows(
        write(
            tmp_path / "rows.csv.gz",
            ROW,
            trtllm,
            trtllm.replace("meta-llama/Llama-3.1-70B", "openai/gpt-oss-120b"),
            ROW.replace("benchmark-export-2026-04-06", VENDOR_ORIGIN).replace("fp8", ""),
            ROW.replace("benchmark-export-2026-04-06", VENDOR_ORIGIN).replace("vllm", "sglang"),
        )
    )
    assert [row.protocol for row in rows] == [
        LoopProtocol(10, 0.8, 8192),
        LoopProtocol(10, 0.8, 2248),
        LoopProtocol(10, 0.8, 20_000),
        LoopProtocol(10, 1.0, 512 + 1024 + 1500),
        LoopProtocol(10, 1.0, 1024 + 1500),
    ]
    assert rows[3].precision == "bf16"


def test_rows_that_the_cache_binds(tmp_path: Path) -> None:
    profile = load_profile("llama-3.1-70b-fp8-h100_sxm-tp2-vllm")
    assert profile.kv_capacity_tokens == 232_456
    rows = load_silicon_rows(
        write(tmp_path / "r.csv.gz", ROW, ROW.replace(",4.0,4.0,", ",128.0,128.0,"))
    )
    free, bound = runs_of(rows, profile)
    assert [run.row.concurrency for run in free] == [4]
    assert [run.row.concurrency for run in bound] == [128]
    assert free[0].protocol.kv_tokens == 232_456


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.csv\.gz: cannot be read"):
        load_silicon_rows(tmp_path / "none.csv.gz")
    path = tmp_path / "plain.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"plain\.csv: no column model; expected the columns of"):
        load_silicon_rows(path)
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"broken\.csv\.gz: cannot be read"):
        load_silicon_rows(broken)


def test_a_file_that_was_cut_short_or_damaged(tmp_path: Path) -> None:
    whole = write(tmp_path / "rows.csv.gz", *(ROW.replace("121.308", str(i)) for i in range(900)))
    content = whole.read_bytes()
    damaged = content[:20] + 40 * b"\xff" + content[60:]
    for some in (content[: len(content) // 2], damaged):
        whole.write_bytes(some)
        with pytest.raises(FitError, match=r"rows\.csv\.gz: cannot be read \([^\n]+\)$"):
            load_silicon_rows(whole)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW.replace("17.4072", "fast"), "line 3: tpot_ms: 'fast' is not a number"),
        (ROW.replace("17.4072", "-1"), "line 3: tpot_ms: '-1' is not a number above 0"),
        (ROW.replace("121.308", "nan"), "line 3: ttft_ms: 'nan' is not a number"),
        (ROW.replace("1024,1024", "1024,0.5"), "line 3: osl: '0.5' is not a whole number of at"),
        (ROW.replace("fp8,2.0,1.0", "fp8,2.0,"), "line 3: pp: '' is not a number"),
        (ROW.replace("fp8,", ""), "line 3: has not as many values as the file has columns"),
        (ROW.strip() + ",9\n", "line 3: has not as many values"),
    ],
)
def test_bad_rows(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path / "rows.csv.gz", ROW, row)
    with pytest.raises(FitError, match=r"^[^\n]+$") as caught:
        load_silicon_rows(path)
    assert f"{path}: {message}" in str(caught.value)


def test_every_measured_profile_has_rows(traces_dir: Path) -> None:
    rows = load_silicon_rows(traces_dir / FILE_NAME)
    for name in profile_ids():
        profile = load_profile(name)
        if profile.kind == "measured-fit":
            free, _ = runs_of([row for row in rows if row.matches(profile)], profile)
            assert len(free) == profile.fit.points, name
            low, high = profile.fit.concurrency
            assert {low, high} <= {run.row.concurrency for run in free}, name
