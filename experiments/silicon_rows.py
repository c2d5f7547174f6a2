"""Measured rows of real serving engines, from the trace folder, and how they were measured.

The file is `serving-silicon-points.csv.gz` (aiconfigurator-core 0.12.0, NVIDIA, Apache-2.0). How
its rows were measured it does not say; what is known of that stands here, with its source.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..envs.profiles.fit import FitError, MeasuredRow
from ..envs.profiles.profile import Profile
from ..envs.workload.text_files import UNREADABLE, one_line, open_text
from .closed_loops import DEFAULT_CHUNK_TOKENS, LoopProtocol, LoopRun

FILE_NAME: Final = "serving-silicon-points.csv.gz"
VENDOR_ORIGIN: Final = "nvidia-gap-analysis"
"""Rows of the vendor's own runs; all others are exports of the public InferenceX benchmark."""
_COLUMNS: Final = (
    *("model", "gpu", "engine", "engine_version", "precision", "origin"),
    *("tp", "pp", "attn_dp", "moe_ep", "isl", "osl"),
    *("client_concurrency", "concurrency_per_replica", "ttft_ms", "tpot_ms"),
)
_INFERENCEX_SHARE: Final = 0.8
"""InferenceX draws lengths evenly from 0.8 of the nominal one up to it and sends 10 requests a
client, all clients beginning at once (repository SemiAnalysisAI/InferenceX: RANDOM_RANGE_RATIO 0.8
in `.github/workflows/benchmark-tmpl.yml`; `--num-prompts CONC*10 --max-concurrency CONC
--request-rate inf` and, for vLLM, `max-num-batched-tokens: 8192` in
`benchmarks/70b_fp8_h100_slurm.sh` and its neighbours)."""
_INFERENCEX_GPT_OSS_TRTLLM_TOKENS: Final = 20_000
"""`--max_num_tokens` of `benchmarks/gptoss_fp4_*_trt.sh`."""
_INFERENCEX_TRTLLM_EXTRA: Final = 200
"""`--max_num_tokens` of `benchmarks/70b_*_trt_slurm.sh` is the longest request and so much more."""
_VENDOR_SLOTS: Final = 512
_VENDOR_EXTRA: Final = 1500
"""The vendor's configurator gives vLLM and TensorRT-LLM `512 + isl + 1500` batched tokens, SGLang
`isl + 1500`, and measures with constant lengths and 10 requests a client (repository
ai-dynamo/aiconfigurator: `generator/rule_plugin/*.rule`, `eval/benchmarks/genai_perf_runner.py`).
That its rows were measured so is an assumption. vLLM's default budget of 8,192 tokens was looked at
too: it predicts these rows worse."""


@dataclass(frozen=True, slots=True)
class SiliconRow:
    """One row of the file."""

    row: MeasuredRow
    model: str
    """Label upstream, e.g. "meta-llama/Llama-3.1-70B"."""
    gpu: str
    engine: str
    engine_version: str
    """As stated; "" where it is not."""
    precision: str
    """ "bf16" where none is stated (the caveats of profiles.json)."""
    gpus: int
    """Tensor parallelism."""
    origin: str
    """Which export it is from."""

    def matches(self, profile: Profile) -> bool:
        """Whether it measures the model, GPUs, engine and version of a profile."""
        version = "" if profile.engine_version == "unstated" else profile.engine_version
        return (
            self.matches_hardware(profile)
            and self.engine == profile.engine
            and self.engine_version == version
        )

    def matches_hardware(self, profile: Profile) -> bool:
        """Whether it measures the model and GPUs of a profile, with any engine."""
        return (
            self.model.rsplit("/", 1)[-1].lower().startswith(profile.model)
            and self.gpu == profile.gpu
            and self.precision == profile.precision
            and self.gpus == profile.gpus_per_replica
        )

    @property
    def protocol(self) -> LoopProtocol:
        """How it was measured, as far as that is known."""
        isl, osl = self.row.prompt_tokens, self.row.output_tokens
        if self.origin == VENDOR_ORIGIN:
            slots = 0 if self.engine == "sglang" else _VENDOR_SLOTS
            return LoopProtocol(chunk_tokens=slots + isl + _VENDOR_EXTRA)
        if self.engine != "trtllm":
            chunk_tokens = DEFAULT_CHUNK_TOKENS
        elif "gpt-oss" in self.model:
            chunk_tokens = _INFERENCEX_GPT_OSS_TRTLLM_TOKENS
        else:
            chunk_tokens = isl + osl + _INFERENCEX_TRTLLM_EXTRA
        return LoopProtocol(shortest_share=_INFERENCEX_SHARE, chunk_tokens=chunk_tokens)


def load_silicon_rows(path: Path) -> tuple[SiliconRow, ...]:
    """Reads the rows of one replica without data or expert parallelism, each once.

    Left out are rows whose client concurrency is not that of the replica (the file's README), and
    rows that a later export repeats.

    Args:
        path: The file, plain or compressed.

    Raises:
        FitError: It cannot be read, has other columns, or a value that is none: one line with file,
            line and column.
    """
    try:
        with open_text(path) as file:
            text = file.read()
    except UNREADABLE as error:
        msg = f"{path}: cannot be read ({one_line(error)})"
        raise FitError(msg) from error
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        msg = f"{path}: no column {missing[0]}; expected the columns of {FILE_NAME}"
        raise FitError(msg)
    once: dict[SiliconRow, SiliconRow] = {}
    try:
        for cells in reader:
            line = _Line(f"{path}: line {reader.line_num}", cells)
            if line.is_one_replica:
                row = line.row()
                once.setdefault(replace(row, origin=""), row)
    except csv.Error as error:
        msg = f"{path}: line {reader.line_num}: not a line of a CSV file ({error})"
        raise FitError(msg) from error
    return tuple(once.values())


def runs_of(
    rows: Iterable[SiliconRow], profile: Profile
) -> tuple[tuple[LoopRun, ...], tuple[LoopRun, ...]]:
    """How rows are run against a profile: those its KV cache holds, and those that it binds.

    Args:
        rows: Rows of the profile's hardware.
        profile: Its KV cache is the capacity.
    """
    runs = [
        LoopRun(row.row, replace(row.protocol, kv_tokens=profile.kv_capacity_tokens))
        for row in rows
    ]
    return (
        tuple(run for run in runs if not run.is_kv_bound),
        tuple(run for run in runs if run.is_kv_bound),
    )


class _Line:
    """One line of the file, with its place for errors."""

    def __init__(self, where: str, cells: dict[str, str]) -> None:
        """Refuses a line with too many or too few values: they stand under wrong columns."""
        if None in cells or None in cells.values():
            msg = f"{where}: has not as many values as the file has columns"
            raise FitError(msg)
        self._where = where
        self._cells = cells

    @property
    def is_one_replica(self) -> bool:
        """Whether one replica without data or expert parallelism was measured."""
        return (
            self._cells["client_concurrency"] == self._cells["concurrency_per_replica"]
            and self._number("pp") == self._number("moe_ep") == 1
            and (not self._cells["attn_dp"] or self._number("attn_dp") == 1)
        )

    def row(self) -> SiliconRow:
        """What was measured."""
        cells = self._cells
        return SiliconRow(
            MeasuredRow(
                concurrency=self._whole("concurrency_per_replica"),
                prompt_tokens=self._whole("isl"),
                output_tokens=self._whole("osl"),
                tpot_s=self._above_zero("tpot_ms") / 1000,
                ttft_s=self._above_zero("ttft_ms") / 1000,
            ),
            model=cells["model"],
            gpu=cells["gpu"],
            engine=cells["engine"],
            engine_version=cells["engine_version"],
            precision=cells["precision"] or "bf16",
            gpus=self._whole("tp"),
            origin=cells["origin"],
        )

    def _whole(self, name: str) -> int:
        value = self._number(name)
        if value < 1 or not value.is_integer():
            raise self._error(name, "a whole number of at least 1")
        return int(value)

    def _above_zero(self, name: str) -> float:
        value = self._number(name)
        if value <= 0:
            raise self._error(name, "a number above 0")
        return value

    def _number(self, name: str) -> float:
        try:
            value = float(self._cells[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._error(name, "a number")
        return value

    def _error(self, name: str, wanted: str) -> FitError:
        return FitError(f"{self._where}: {name}: {self._cells[name]!r} is not {wanted}")
