"""The eight runs of an independent simulator, which lie outside the project."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.envs.sim.params import EngineParams
from gatepilot.envs.sim.whole_run import simulate

from .reference_plant import Rules, run
from .sim_kit import requests_of

RUNS = (
    "v01-8b-conv-r1-low",
    "v02-8b-conv-r1-high",
    "v03-8b-conv-r4-mid",
    "v04-70b-conv-r2-mid",
    "v05-70b-conv-r8-high",
    "v06-32b-code-r2-rr",
    "v07-32b-conv-r4-gamma",
    "v08-8b-conv-r2-kvbound",
)
PERCENTILES = (50, 90, 95, 99)


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    named = os.environ.get("GATEPILOT_REFERENCE")
    traces = os.environ.get("GATEPILOT_TRACES")
    if not named and not traces:
        pytest.skip("neither GATEPILOT_REFERENCE nor GATEPILOT_TRACES is set: no reference runs")
    folder = Path(named) if named else Path(str(traces)).parent / "reference" / "vidur"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: no reference runs")
    return folder


def columns_of(path: Path) -> dict[str, NDArray[np.float64]]:
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.reader(file))
    table = np.array(rows[1:], np.float64)
    return {name: table[:, k] for k, name in enumerate(rows[0])}


def rules_of(entry: dict[str, Any]) -> Rules:
    step = entry["step"]
    return Rules(
        step["base_ms"] / 1e3,
        step["per_seq_ms"] / 1e3,
        step["per_1k_ctx_tokens_ms"] / 1e6,
        step["per_prefill_token_ms"] / 1e3,
        **{
            k: entry[k]
            for k in ("max_num_seqs", "chunk_tokens", "kv_blocks", "block_tokens", "router")
        },
    )


def rows_of(columns: dict[str, NDArray[np.float64]]) -> list[tuple[float, int, int]]:
    prompts = columns["prompt_tokens"].astype(int).tolist()
    outputs = columns["output_tokens"].astype(int).tolist()
    return list(zip(columns["arrival_s"].tolist(), prompts, outputs, strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_a_reference_run_is_reproduced_request_by_request(name: str, reference_dir: Path) -> None:
    entry = json.loads((reference_dir / "index.json").read_text())[name]
    columns = columns_of(reference_dir / f"{name}.csv.gz")
    rules = rules_of(entry)
    params = EngineParams(
        base_s=rules.base_s,
        per_seq_s=rules.per_seq_s,
        per_ctx_token_s=rules.per_ctx_token_s,
        per_prefill_token_s=rules.per_prefill_token_s,
        max_num_seqs=rules.max_num_seqs,
        chunk_tokens=rules.chunk_tokens,
        kv_blocks=rules.kv_blocks,
        block_tokens=rules.block_tokens,
        router=rules.router,
    )
    outcomes = simulate(requests_of(rows_of(columns)), params, replicas=entry["replicas"]).outcomes
    np.testing.assert_array_equal(outcomes.restarts, columns["restarts"])
    np.testing.assert_allclose(outcomes.ttft_s, columns["ttft_s"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(outcomes.e2e_s, columns["e2e_s"], rtol=0, atol=1e-6)
    share = 0.03 if name.startswith("v08") else 0.005
    for found, key in ((outcomes.ttft_s, "ttft_s"), (outcomes.e2e_s, "e2e_s")):
        percentiles = np.percentile(found, PERCENTILES)
        np.testing.assert_allclose(percentiles, entry[f"{key}_p50_p90_p95_p99"], rtol=share)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", RUNS)
def test_the_second_implementation_reproduces_them_too(name: str, reference_dir: Path) -> None:
    """What the engine is compared with elsewhere is itself held to the reference."""
    entry = json.loads((reference_dir / "index.json").read_text())[name]
    columns = columns_of(reference_dir / f"{name}.csv.gz")
    found, _ = run(rules_of(entry), rows_of(columns), entry["replicas"])
    assert [q.restarts for q in found] == columns["restarts"].tolist()
    np.testing.assert_allclose([q.ttft_s for q in found], columns["ttft_s"], rtol=0, atol=1e-6)
    np.testing.assert_allclose([q.e2e_s for q in found], columns["e2e_s"], rtol=0, atol=1e-6)
