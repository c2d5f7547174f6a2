"""Request traces from files: the plain columns, and the public Azure and Mooncake formats.

| format | columns or fields | files |
|---|---|---|
| plain | `arrival_s, prompt_tokens, output_tokens`; if there: `client`, and `prefix_hit_tokens` with `prefix_parent` | csv, csv.gz, parquet |
| Azure LLM inference trace | `TIMESTAMP, ContextTokens, GeneratedTokens` | csv, csv.gz, parquet |
| Mooncake | `timestamp` (ms), `input_length`, `output_length`, if there `hash_ids` | jsonl, jsonl.gz |

Other columns are ignored. Azure's wall-clock times become seconds from the first request.
"""  # noqa: E501  # a table's row is a line

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from .mooncake import load_mooncake
from .request import Requests
from .trace_columns import (
    TraceError,
    check_arrivals,
    numbers,
    prefix_columns,
    relative_s,
    tenants,
    whole_numbers,
)
from .trace_table import TableFormat, read_table

__all__ = ["AZURE", "PLAIN", "TraceError", "load_trace"]

_CLIENT = "client"
_HIT, _PARENT = "prefix_hit_tokens", "prefix_parent"
PLAIN = TableFormat(
    "arrival_s",
    "prompt_tokens",
    "output_tokens",
    wall_clock=False,
    optional=(_CLIENT, _HIT, _PARENT),
    texts=(_CLIENT,),
)
AZURE = TableFormat("TIMESTAMP", "ContextTokens", "GeneratedTokens", wall_clock=True)

_TABLES = (".csv", ".csv.gz", ".parquet")
_LINES = (".jsonl", ".jsonl.gz")


def load_trace(path: str | Path) -> Requests:
    """Reads a request trace.

    The span is the last arrival rounded up to a whole second (the next one if it falls on a
    whole second), so a day's trace spans 86,400 s.

    Args:
        path: A file in one of the module's formats.

    Returns:
        The requests, in file order.

    Raises:
        TraceError: The file is missing or malformed.
    """
    path = Path(path)
    name = path.name.lower()
    if not name.endswith(_TABLES + _LINES):
        raise TraceError(f"{path}: expected a file ending in {', '.join(_TABLES + _LINES)}")
    if not path.is_file():
        raise TraceError(f"{path}: no such file")
    columns = load_mooncake(path) if name.endswith(_LINES) else _load_table(path)
    arrival_s = columns["arrival_s"]
    if arrival_s.size == 0:
        raise TraceError(f"{path}: no data rows; at least two requests are needed")
    if arrival_s.size == 1:
        raise TraceError(f"{path}: one request has no time span; at least two are needed")
    return Requests(**columns, span_s=math.floor(arrival_s[-1]) + 1.0)


def _load_table(path: Path) -> dict[str, Any]:
    """The columns of a csv or parquet file, by the names of `Requests`' fields."""
    table, names = read_table(path, lambda found: AZURE if AZURE.arrival in found else PLAIN)
    times = relative_s if names.wall_clock else numbers
    if not table.num_rows:
        return {"arrival_s": np.empty(0)}
    arrival_s = times(path, names.arrival, table[names.arrival])
    check_arrivals(path, names.arrival, arrival_s)
    columns: dict[str, Any] = {"arrival_s": arrival_s}
    for field, name in (("prompt_tokens", names.prompt), ("output_tokens", names.output)):
        values = numbers(path, name, table[name])
        columns[field] = whole_numbers(path, name, values, 1).astype(np.int32)
    if _CLIENT in table.column_names:
        columns["client"], columns["client_names"] = tenants(path, _CLIENT, table[_CLIENT])
    there = [name for name in (_HIT, _PARENT) if name in table.column_names]
    if len(there) == 1:
        raise TraceError(f"{path}: column {there[0]} stands alone; {_HIT} needs {_PARENT}")
    if there:
        prompt_tokens = columns["prompt_tokens"]
        hit, parent = (numbers(path, name, table[name]) for name in there)
        found = prefix_columns(path, hit, parent, prompt_tokens)
        columns |= dict(zip(there, found, strict=True))
    return columns
