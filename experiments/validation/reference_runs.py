"""Runs of another simulator: a folder with an `index.json` and a csv.gz of requests for each run.

The index gives a run's parameters and percentiles; the file gives its requests and, where the
columns `ttft_s` and `e2e_s` are there, what became of each.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from ...envs.sim.params import EngineParams
from ...envs.workload.request import MAX_TOKENS, Requests
from ...envs.workload.text_files import UNREADABLE, one_line
from ...envs.workload.trace import load_trace

INDEX: Final = "index.json"
PERCENTILES: Final = (50, 90, 95, 99)
LATENCIES: Final = {"ttft_s": "TTFT", "e2e_s": "e2e"}
_COEFFICIENTS: Final = {
    "base_s": ("base_ms", 1e3),
    "per_seq_s": ("per_seq_ms", 1e3),
    "per_ctx_token_s": ("per_1k_ctx_tokens_ms", 1e6),
    "per_prefill_token_s": ("per_prefill_token_ms", 1e3),
}
"""Of the step model: the engine's name to the index's, and how many of its units are one."""
_SETTINGS: Final = ("max_num_seqs", "chunk_tokens", "kv_blocks", "block_tokens")
_LARGEST_MISMATCH: Final = 0.01
"""By how much index and file may differ; the index is rounded to 0.1 ms."""
_ROUNDING_S: Final = 5e-5


class ReferenceRunError(ValueError):
    """A folder of reference runs that cannot be used: one line with file, key, value."""


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """One run of the other simulator."""

    name: str
    requests: Requests
    params: EngineParams | None
    """`None`: the engine refuses them."""
    refused: str
    """Why, where it does."""
    replicas: int
    latencies_s: Mapping[str, NDArray[np.float64]]
    """`ttft_s` and `e2e_s` of every request, where the file has them."""
    percentiles_s: Mapping[str, tuple[float, ...]]
    """Of `ttft_s` and `e2e_s` at `PERCENTILES`: from the requests, else as the index states."""
    restarts: int
    """Evictions for want of KV blocks."""
    wall_s: float | None
    """Time of the other simulator's loop, where it is stated."""

    @property
    def is_kv_bound(self) -> bool:
        """Whether the KV cache was short."""
        return self.restarts > 0 or "kvbound" in self.name


def load_runs(folder: Path) -> tuple[ReferenceRun, ...]:
    """Reads every run of a folder.

    Raises:
        ReferenceRunError: The index, an entry or a file is missing or malformed.
        TraceError: The requests of a run are malformed.
    """
    index = folder / INDEX
    try:
        entries = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{index}: not a readable index of reference runs ({one_line(error)})"
        raise ReferenceRunError(msg) from error
    if not isinstance(entries, dict) or not entries:
        msg = f"{index}: expected an object with an entry for each run"
        raise ReferenceRunError(msg)
    return tuple(_load(folder, name, _Entry(f"{index}: {name}", e)) for name, e in entries.items())


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the index says of one run, or a part of it, with its place for errors."""

    place: str
    values: Any

    def number(self, key: str) -> float:
        return self._number(key, self._value(key))

    def whole(self, key: str) -> int:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TOKENS:
            wanted = f"a whole number from 1 to {MAX_TOKENS:,}"
            raise self._error(key, f"is {value!r}, expected {wanted}")
        return value

    def count(self, key: str) -> int:
        """A whole number from 0; 0 where it is not stated."""
        return self.whole(key) if self.values.get(key) else 0

    def text(self, key: str) -> str:
        value = self._value(key)
        if not isinstance(value, str):
            raise self._error(key, f"is {value!r}, expected a text")
        return value

    def percentiles(self, key: str) -> tuple[float, ...]:
        value = self._value(key)
        if not isinstance(value, list) or len(value) != len(PERCENTILES):
            raise self._error(key, f"is {value!r}, expected {len(PERCENTILES)} numbers")
        return tuple(self._number(key, figure) for figure in value)

    def part(self, key: str) -> _Entry:
        return _Entry(f"{self.place}: {key}", self._value(key))

    def _number(self, key: str, value: Any) -> float:  # noqa: ANN401  # whatever JSON holds
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not abs(value) <= sys.float_info.max:
            raise self._error(key, f"is {value!r}, expected a number")
        return float(value)

    def _value(self, key: str) -> Any:  # noqa: ANN401  # whatever JSON holds
        if not isinstance(self.values, dict) or key not in self.values:
            raise self._error(key, "is missing")
        return self.values[key]

    def _error(self, key: str, what: str) -> ReferenceRunError:
        return ReferenceRunError(f"{self.place}: {key} {what}")


def _load(folder: Path, name: str, entry: _Entry) -> ReferenceRun:
    path = folder / f"{name}.csv.gz"
    requests = load_trace(path)
    latencies_s, restarts = _results(path)
    step = entry.part("step")
    given: dict[str, Any] = {ours: step.number(k) / n for ours, (k, n) in _COEFFICIENTS.items()}
    given |= {key: entry.whole(key) for key in _SETTINGS}
    params, refused = None, ""
    try:
        params = EngineParams(router=entry.text("router"), **given)
    except ReferenceRunError:
        raise
    except ValueError as error:
        refused = str(error)
    percentiles_s = {}
    for key in LATENCIES:
        stated = entry.percentiles(f"{key}_p50_p90_p95_p99")
        percentiles_s[key] = stated
        if key in latencies_s:
            found = np.percentile(latencies_s[key], PERCENTILES)
            if (np.abs(found - stated) > _LARGEST_MISMATCH * found + _ROUNDING_S).any():
                msg = f"{entry.place}: {key}_p50_p90_p95_p99 is {stated}, {path.name} gives {found}"
                raise ReferenceRunError(msg)
            percentiles_s[key] = tuple(found.tolist())
    return ReferenceRun(
        name,
        requests,
        params,
        refused,
        entry.whole("replicas"),
        latencies_s,
        percentiles_s,
        entry.count("restarts") if restarts is None else restarts,
        entry.number("vidur_wall_s") if "vidur_wall_s" in entry.values else None,
    )


def _results(path: Path) -> tuple[dict[str, NDArray[np.float64]], int | None]:
    """Latencies of every request and all restarts, as far as the file has them."""
    try:
        with gzip.open(path) as file:
            table = pa_csv.read_csv(file)
        columns = {
            name: table[name].to_numpy().astype(np.float64)
            for name in (*LATENCIES, "restarts")
            if name in table.column_names
        }
    except (*UNREADABLE, pa.ArrowException, ValueError) as error:
        msg = f"{path}: not a readable file of requests ({one_line(error)})"
        raise ReferenceRunError(msg) from error
    for name, values in columns.items():
        good = np.isfinite(values) & (values >= 0)
        if not good.all():
            row = int(np.argmin(good))
            msg = f"{path}: row {row + 1}, {name}: {values[row]:g} is not a number of at least 0"
            raise ReferenceRunError(msg)
    restarts = columns.pop("restarts", None)
    return columns, None if restarts is None else int(restarts.sum())
