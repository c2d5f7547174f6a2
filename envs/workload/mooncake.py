"""The public Mooncake format: one JSON object a line, with the prompt's block hashes.

`{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}`

Times are milliseconds, blocks hold 512 tokens, equal ids mean equal blocks behind equal prefixes
(repository kvcache-ai/Mooncake, FAST25-release, and its paper's section on the traces).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .prefix import hits_of_blocks
from .request import MAX_TOKENS
from .text_files import UNREADABLE, one_line, open_text
from .trace_columns import TraceError, check_arrivals

BLOCK_TOKENS = 512
"""Tokens behind one hash."""

_TIME = "timestamp"
_LENGTHS = ("input_length", "output_length")
_BLOCKS = "hash_ids"
_MS_PER_S = 1000.0


def load_mooncake(path: Path) -> dict[str, Any]:
    """Reads a Mooncake trace; the prefix columns are there if the lines hold block hashes.

    Args:
        path: A jsonl or jsonl.gz file.

    Returns:
        Columns by the names of `Requests`' fields.

    Raises:
        TraceError: A line that cannot be used.
    """
    times_ms: list[float] = []
    lengths: list[tuple[int, int]] = []
    blocks: list[list[int]] = []
    try:
        with open_text(path) as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    line = _parsed(path, number, text)
                    times_ms.append(line[_TIME])
                    lengths.append((line[_LENGTHS[0]], line[_LENGTHS[1]]))
                    if _BLOCKS in line:
                        blocks.append(line[_BLOCKS])
    except UNREADABLE as error:
        raise TraceError(f"{path}: not a readable jsonl file ({one_line(error)})") from error
    if len(blocks) not in (0, len(lengths)):
        raise TraceError(f"{path}: only {len(blocks)} of {len(lengths)} lines have {_BLOCKS}")
    tokens = np.array(lengths, dtype=np.int32).reshape(-1, 2)
    arrival_s = np.array(times_ms, dtype=np.float64) / _MS_PER_S
    check_arrivals(path, _TIME, arrival_s)
    columns: dict[str, Any] = {
        "arrival_s": arrival_s,
        "prompt_tokens": tokens[:, 0],
        "output_tokens": tokens[:, 1],
    }
    if blocks:
        columns["prefix_hit_tokens"], columns["prefix_parent"] = hits_of_blocks(
            blocks, tokens[:, 0], BLOCK_TOKENS
        )
    return columns


def _parsed(path: Path, number: int, text: str) -> dict[str, Any]:
    """One line, checked."""
    where = f"{path}: line {number}"
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: not a JSON object ({error})") from error
    if not isinstance(line, dict):
        raise TraceError(f"{where}: expected a JSON object")
    for key in (_TIME, *_LENGTHS):
        if key not in line:
            raise TraceError(f"{where}: {key} is missing; expected {_TIME}, {', '.join(_LENGTHS)}")
    time_ms = line[_TIME]
    if not _is_number(time_ms) or not abs(time_ms) <= sys.float_info.max:
        raise TraceError(f"{where}: {_TIME}: {time_ms!r} is not a number of milliseconds")
    for key in _LENGTHS:
        value = line[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_TOKENS:
            raise TraceError(
                f"{where}: {key}: {value!r} is not a whole number from 1 to {MAX_TOKENS:,}"
            )
    if _BLOCKS in line:
        ids = line[_BLOCKS]
        if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
            raise TraceError(f"{where}: {_BLOCKS}: expected a list of whole numbers")
        if len(ids) > -(-line[_LENGTHS[0]] // BLOCK_TOKENS):
            raise TraceError(
                f"{where}: {_BLOCKS}: {len(ids)} blocks of {BLOCK_TOKENS} tokens are more than "
                f"the prompt's {line[_LENGTHS[0]]}"
            )
    return line


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
