"""A small folder of reference runs, made by the second implementation of the plant."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from ...envs.sim.reference_plant import Rules, run

STEP = {
    "base_ms": 6.4209,
    "per_seq_ms": 0.02,
    "per_1k_ctx_tokens_ms": 0.04994,
    "per_prefill_token_ms": 0.019603,
}
ENTRIES: dict[str, dict[str, Any]] = {
    "h01-one": {"replicas": 1, "router": "fewest_waiting", "kv_blocks": 20_000},
    "h02-three-rr": {"replicas": 3, "router": "round_robin", "kv_blocks": 20_000},
    "h03-tight": {"replicas": 2, "router": "fewest_waiting", "kv_blocks": 90},
}


def write_runs(folder: Path, *, requests: int = 300, results: bool = True) -> Path:
    """A folder with `index.json` and one csv.gz a run.

    Args:
        folder: Made here.
        requests: Of each run.
        results: Whether the files say what became of each request.
    """
    folder.mkdir()
    index = {}
    for seed, (name, changes) in enumerate(ENTRIES.items()):
        entry = {
            "step": STEP,
            "max_num_seqs": 64,
            "chunk_tokens": 256,
            "block_tokens": 16,
            "vidur_wall_s": 1.0,
            **changes,
        }
        rng = np.random.default_rng(seed)
        arrivals = np.round(np.cumsum(rng.gamma(0.5, 0.2, requests)), 6).tolist()
        prompts = rng.integers(1, 500, requests).tolist()
        outputs = rng.integers(1, 300, requests).tolist()
        rules = Rules(
            STEP["base_ms"] / 1e3,
            STEP["per_seq_ms"] / 1e3,
            STEP["per_1k_ctx_tokens_ms"] / 1e6,
            STEP["per_prefill_token_ms"] / 1e3,
            max_num_seqs=64,
            chunk_tokens=256,
            kv_blocks=changes["kv_blocks"],
            block_tokens=16,
            router=changes["router"],
        )
        rows = list(zip(arrivals, prompts, outputs, strict=True))
        found, _ = run(rules, rows, changes["replicas"])
        for key, values in (
            ("ttft_s", [q.ttft_s for q in found]),
            ("e2e_s", [q.e2e_s for q in found]),
        ):
            figures = np.percentile(values, (50, 90, 95, 99))
            entry[f"{key}_p50_p90_p95_p99"] = np.round(figures, 4).tolist()
        entry["restarts"] = sum(q.restarts for q in found)
        index[name] = entry
        header = "arrival_s,prompt_tokens,output_tokens" + (
            ",ttft_s,e2e_s,restarts" if results else ""
        )
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.write(header + "\n")
            for row, q in zip(rows, found, strict=True):
                told = f",{q.ttft_s:.6f},{q.e2e_s:.6f},{q.restarts}" if results else ""
                file.write(",".join(map(str, row)) + told + "\n")
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def change_entry(folder: Path, name: str, **changes: Any) -> None:  # noqa: ANN401
    """Rewrites keys of one run in the index; `None` removes one."""
    path = folder / "index.json"
    index = json.loads(path.read_text())
    index[name] |= changes
    index[name] = {key: value for key, value in index[name].items() if value is not None}
    path.write_text(json.dumps(index))
