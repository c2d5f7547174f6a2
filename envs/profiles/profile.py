"""Serving profiles: iteration time, memory, start-up time and CPU of one replica.

How long an iteration lasts is the `StepModel` of `step.py`. The catalogue and users' files share
one JSON format, see `parse_profile`.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from .cpu import CpuModel, assumed_cpu
from .fit_report import FitReport, parse_fit_report
from .keys import Keys, ProfileError
from .start_times import DEFAULT_COLD_START_S, START_KEYS, StartTimes, parse_start_times
from .step import StepModel

_CATALOGUE: Final = Path(__file__).with_name("catalogue.json")
_TIME_KEYS: Final = ("base_ms", "per_seq_ms", "per_1k_ctx_tokens_ms", "per_prefill_token_ms")
_STEP_KEYS: Final = (*_TIME_KEYS, "experts_ms", "expert_share")
_MEMORY_KEYS: Final = (
    "weights_gib_per_gpu",
    "vram_gib_per_gpu",
    "kv_bytes_per_token",
    "kv_capacity_tokens",
)
_CPU_KEYS: Final = ("idle", "per_iteration_s", "per_token_s", "startup")
_COLD_START_KEYS: Final = (
    *("s", "baseline_s", "kind", "source", "assumed", "note"),
    *(*START_KEYS, "strategies_source", "strategies_assumed"),
)
_FREE_KEYS: Final = (
    "kind",
    "model",
    "gpu",
    "engine",
    "engine_version",
    "precision",
    "kv_dtype",
    "fit",
    "published_step",
    "published_fit",
    "measured_ttft_ms_at_lowest_concurrency",
    "source",
)
_DESCRIPTIONS: Final = (
    "kind",
    "source",
    "model",
    "gpu",
    "engine",
    "engine_version",
    "precision",
)
_KEYS: Final = ("id", "step", "gpus_per_replica", "memory", "cold_start", "cpu", *_FREE_KEYS)


@dataclass(frozen=True)
class Profile:
    """What one replica of a model on some GPUs with some engine can do."""

    id: str
    """Name in the catalogue, or the file's stem."""
    base_s: float
    """Fixed time of an iteration in seconds."""
    per_seq_s: float
    """Seconds per decoding sequence in an iteration."""
    per_ctx_token_s: float
    """Seconds per context token of the decoding sequences in an iteration."""
    per_prefill_token_s: float
    """Seconds per prefill token in an iteration."""
    gpus_per_replica: int
    """GPUs one replica occupies."""
    weights_gib: float | None
    """Weights over all GPUs of a replica in GiB; None: not known."""
    vram_gib: float | None
    """Memory of all GPUs of a replica in GiB; None: not known."""
    kv_bytes_per_token: int | None
    """KV cache bytes of one token over all GPUs of a replica; None: not known."""
    kv_capacity_tokens: int | None
    """Tokens the KV cache of a replica holds; None: not known."""
    cpu: CpuModel
    """CPU share as a function of load."""
    cold_start_s: float
    """From the order to start a replica until it takes requests, in seconds."""
    cold_start_source: str
    """Where that start-up time comes from."""
    cold_start_assumed: bool
    """Whether it was measured elsewhere or not at all, and is assumed for this profile."""
    kind: str
    """How the step coefficients came about, e.g. "measured-fit"; "" if not stated."""
    source: str
    """Where the step coefficients come from; "" if not stated."""
    fit: FitReport
    """What the step coefficients were fitted to, and how well they do."""
    start_times: StartTimes
    """Start-up time by strategy."""
    experts_s: float = 0.0
    """Mixture of experts: seconds to read all experts in an iteration; 0: a dense model."""
    expert_share: float = 0.0
    """Share (0-1) of the experts that one token activates."""
    model: str = ""
    """What is served, e.g. "llama-3.1-70b"; "" if not stated, as the next ones."""
    gpu: str = ""
    engine: str = ""
    engine_version: str = ""
    precision: str = ""

    @property
    def step(self) -> StepModel:
        """How long an iteration lasts."""
        return StepModel(
            self.base_s,
            self.per_seq_s,
            self.per_ctx_token_s,
            self.per_prefill_token_s,
            self.experts_s,
            self.expert_share,
        )

    @property
    def fit_mape(self) -> float | None:
        """Mean relative error of the step model on the fitted points; None: not known."""
        return self.fit.mape


def profile_ids() -> tuple[str, ...]:
    """Ids of the catalogue, in its order."""
    return tuple(_catalogue())


def load_profile(id_or_file: str | Path) -> Profile:
    """Finds a profile in the catalogue or reads it from a JSON file.

    Args:
        id_or_file: An id of the catalogue, or the path of a file ending in `.json`.

    Returns:
        The profile.

    Raises:
        ProfileError: No such profile (near matches are named), or a malformed file: one line with
            file, key and what would be right.
    """
    name = str(id_or_file)
    if name in _catalogue():
        return parse_profile(_catalogue()[name], where=f"{_CATALOGUE.name}: {name}", name=name)
    return parse_profile(_read(id_or_file), where=name, name=Path(id_or_file).stem)


def profile_content(id_or_file: str | Path) -> dict[str, Any]:
    """The JSON behind a profile, to make another one from.

    Args:
        id_or_file: As in `load_profile`.

    Raises:
        ProfileError: As there.
    """
    load_profile(id_or_file)
    found = _catalogue().get(str(id_or_file))
    return copy.deepcopy(dict(_read(id_or_file) if found is None else found))


def _read(id_or_file: str | Path) -> Any:  # noqa: ANN401
    """The JSON content of a user's file."""
    name = str(id_or_file)
    path = Path(id_or_file)
    if path.suffix != ".json":
        near = difflib.get_close_matches(name, _catalogue(), n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(_catalogue())}"
        raise ProfileError(f"{name}: unknown profile; {hint}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{path}: not a JSON file ({error})") from error


def parse_profile(content: Any, *, where: str, name: str) -> Profile:  # noqa: ANN401
    """Builds a profile from JSON content.

    Required: `step` with `base_ms`, `per_seq_ms`, `per_1k_ctx_tokens_ms` and
    `per_prefill_token_ms`; for a mixture of experts also `experts_ms` and `expert_share`.
    Optional: `id`, `gpus_per_replica` (1), `memory` (`weights_gib_per_gpu`, `vram_gib_per_gpu`,
    `kv_bytes_per_token`, `kv_capacity_tokens`), `cold_start` (`s`, `source`, `assumed`, `kind`,
    `note`, `baseline_s`, and by strategy `cold_s`, `cached_s`, `warm_s`, `lazy_ready_s`,
    `strategies_source`, `strategies_assumed`), `cpu` (`idle`, `per_iteration_s`, `per_token_s`,
    `startup`) and descriptive keys (`source`, `kind`, `model`, `gpu`, `engine`, `fit`, ...).

    Args:
        content: The parsed JSON.
        where: File to name in errors.
        name: Id of a profile that states none.

    Raises:
        ProfileError: A key is unknown, missing or out of range.
    """
    keys = Keys(content, where, "", _KEYS)
    step = keys.inner("step", _STEP_KEYS, required=True)
    base_s = step.number("base_ms") / 1000
    per_seq_s = step.number("per_seq_ms") / 1000
    per_prefill_token_s = step.number("per_prefill_token_ms") / 1000
    if base_s == 0 and 0 in (per_seq_s, per_prefill_token_s):
        raise ProfileError(
            f"{where}: step.base_ms: 0 leaves iterations without duration; "
            "per_seq_ms and per_prefill_token_ms must then be above 0"
        )
    experts_s = (step.optional_number("experts_ms") or 0.0) / 1000
    expert_share = step.optional_number("expert_share") or 0.0
    if (experts_s > 0) != (expert_share > 0) or expert_share >= 1:
        raise ProfileError(
            f"{where}: step.expert_share: {expert_share:g} with experts_ms {1000 * experts_s:g}; "
            "expected both above 0 and the share below 1, or neither"
        )
    gpus = keys.whole("gpus_per_replica", default=1) or 1
    memory = keys.inner("memory", _MEMORY_KEYS)
    weights = memory.optional_number("weights_gib_per_gpu")
    vram = memory.optional_number("vram_gib_per_gpu")
    cold = keys.inner("cold_start", _COLD_START_KEYS)
    stated_s = cold.optional_number("s")
    cold_start_s = DEFAULT_COLD_START_S if stated_s is None else stated_s
    described = {name: str(keys.content.get(name, "")) for name in _DESCRIPTIONS}
    return Profile(
        id=str(keys.content.get("id", name)),
        base_s=base_s,
        per_seq_s=per_seq_s,
        per_ctx_token_s=step.number("per_1k_ctx_tokens_ms") / 1e6,
        per_prefill_token_s=per_prefill_token_s,
        gpus_per_replica=gpus,
        weights_gib=None if weights is None else weights * gpus,
        vram_gib=None if vram is None else vram * gpus,
        kv_bytes_per_token=memory.whole("kv_bytes_per_token"),
        kv_capacity_tokens=memory.whole("kv_capacity_tokens"),
        cpu=_cpu(keys, base_s, per_prefill_token_s),
        cold_start_s=cold_start_s,
        cold_start_source=str(cold.content.get("source", "not stated")),
        cold_start_assumed=stated_s is None or bool(cold.content.get("assumed", False)),
        fit=parse_fit_report(keys.content.get("fit", {}), where),
        start_times=parse_start_times(cold, cold_start_s),
        experts_s=experts_s,
        expert_share=expert_share,
        **described,
    )


def _cpu(keys: Keys, base_s: float, per_prefill_token_s: float) -> CpuModel:
    """The profile's own CPU model, or the assumed one."""
    if "cpu" not in keys.content:
        return assumed_cpu(base_s, per_prefill_token_s)
    cpu = keys.inner("cpu", _CPU_KEYS)
    return CpuModel(
        idle=cpu.number("idle"),
        per_iteration_s=cpu.number("per_iteration_s"),
        per_token_s=cpu.number("per_token_s"),
        startup=cpu.number("startup"),
        assumed=False,
    )


@cache
def _catalogue() -> dict[str, Mapping[str, Any]]:
    """The catalogue's entries by id."""
    content = json.loads(_CATALOGUE.read_text(encoding="utf-8"))
    return {entry["id"]: entry for entry in content["profiles"]}
