"""Serving profiles: iteration time, memory, start-up time and CPU of one replica.

One engine iteration lasts `base + per_seq * B + per_ctx * S + per_prefill * p` seconds, with B
decoding sequences, S the sum of their context tokens and p prefill tokens in it. The catalogue
and users' files share one JSON format, see `parse_profile`.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DEFAULT_COLD_START_S = 110.0
"""For a file that states none: the optimised 70B start-up measured on 4 x H100 (Anyscale)."""

_CATALOGUE = Path(__file__).with_name("catalogue.json")
_STEP_KEYS = ("base_ms", "per_seq_ms", "per_1k_ctx_tokens_ms", "per_prefill_token_ms")
_MEMORY_KEYS = (
    "weights_gib_per_gpu",
    "vram_gib_per_gpu",
    "kv_bytes_per_token",
    "kv_capacity_tokens",
)
_CPU_KEYS = ("idle", "per_iteration_s", "per_token_s", "startup")
_COLD_START_KEYS = ("s", "baseline_s", "kind", "source", "assumed", "note")
_FREE_KEYS = (
    "kind",
    "model",
    "gpu",
    "engine",
    "engine_version",
    "precision",
    "kv_dtype",
    "fit",
    "measured_ttft_ms_at_lowest_concurrency",
    "source",
)
_KEYS = ("id", "step", "gpus_per_replica", "memory", "cold_start", "cpu", *_FREE_KEYS)


class ProfileError(ValueError):
    """A profile that cannot be used: one line with file, key and what would be right."""


@dataclass(frozen=True)
class CpuModel:
    """Busy share of a replica's CPU: `clip(idle + per_iteration_s * i + per_token_s * t, 0, 1)`.

    i is iterations per second, t prompt and output tokens processed per second.
    """

    idle: float
    """Share (0-1) of a ready replica that does nothing."""
    per_iteration_s: float
    """CPU share-seconds of one iteration (scheduling, kernel launches)."""
    per_token_s: float
    """CPU share-seconds of one token (tokenising, sampling, streaming)."""
    startup: float
    """Share (0-1) while a replica starts (weights, compilation, graph capture)."""
    assumed: bool
    """Whether the numbers are assumed rather than measured."""


def assumed_cpu(base_s: float, per_prefill_token_s: float) -> CpuModel:
    """The CPU model of a profile without CPU measurements: assumed, from no source.

    The coefficients are chosen so that a replica that decodes one sequence shows about 0.3 and
    one that prefills flat out in 512-token iterations about 0.8.

    Args:
        base_s: Fixed time of an iteration in seconds.
        per_prefill_token_s: Time of one prefill token in seconds.
    """
    flat_out_token_s = base_s / 512 + per_prefill_token_s
    return CpuModel(
        idle=0.05,
        per_iteration_s=0.25 * base_s,
        per_token_s=0.7 * flat_out_token_s,
        startup=0.9,
        assumed=True,
    )


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
    fit_mape: float | None
    """Mean relative error of the step model on the fitted points; None: not known."""


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
    path = Path(id_or_file)
    if path.suffix != ".json":
        near = difflib.get_close_matches(name, _catalogue(), n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(_catalogue())}"
        raise ProfileError(f"{name}: unknown profile; {hint}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ProfileError(f"{path}: not a JSON file ({error})") from error
    return parse_profile(content, where=str(path), name=path.stem)


def parse_profile(content: Any, *, where: str, name: str) -> Profile:  # noqa: ANN401
    """Builds a profile from JSON content.

    Required: `step` with `base_ms`, `per_seq_ms`, `per_1k_ctx_tokens_ms` and
    `per_prefill_token_ms`. Optional: `id`, `gpus_per_replica` (1), `memory` (`weights_gib_per_gpu`,
    `vram_gib_per_gpu`, `kv_bytes_per_token`, `kv_capacity_tokens`), `cold_start` (`s`, `source`,
    `assumed`, `kind`, `note`, `baseline_s`), `cpu` (`idle`, `per_iteration_s`, `per_token_s`,
    `startup`) and descriptive keys (`source`, `kind`, `model`, `gpu`, `engine`, `fit`, ...).

    Args:
        content: The parsed JSON.
        where: File to name in errors.
        name: Id of a profile that states none.

    Raises:
        ProfileError: A key is unknown, missing or out of range.
    """
    keys = _Keys(content, where, "", _KEYS)
    step = keys.inner("step", _STEP_KEYS, required=True)
    base_s = step.number("base_ms") / 1000
    per_seq_s = step.number("per_seq_ms") / 1000
    per_prefill_token_s = step.number("per_prefill_token_ms") / 1000
    if base_s == 0 and 0 in (per_seq_s, per_prefill_token_s):
        raise ProfileError(
            f"{where}: step.base_ms: 0 leaves iterations without duration; "
            "per_seq_ms and per_prefill_token_ms must then be above 0"
        )
    gpus = keys.whole("gpus_per_replica", default=1) or 1
    memory = keys.inner("memory", _MEMORY_KEYS)
    weights = memory.optional_number("weights_gib_per_gpu")
    vram = memory.optional_number("vram_gib_per_gpu")
    cold = keys.inner("cold_start", _COLD_START_KEYS)
    cold_start_s = cold.optional_number("s")
    fit = keys.content.get("fit")
    mape = fit.get("mape") if isinstance(fit, Mapping) else None
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
        cold_start_s=DEFAULT_COLD_START_S if cold_start_s is None else cold_start_s,
        cold_start_source=str(cold.content.get("source", "not stated")),
        cold_start_assumed=cold_start_s is None or bool(cold.content.get("assumed", False)),
        kind=str(keys.content.get("kind", "")),
        source=str(keys.content.get("source", "")),
        fit_mape=None if mape is None else float(mape),
    )


def _cpu(keys: _Keys, base_s: float, per_prefill_token_s: float) -> CpuModel:
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


class _Keys:
    """One JSON object with its allowed keys and its place for error messages."""

    def __init__(self, content: Any, where: str, prefix: str, allowed: tuple[str, ...]) -> None:  # noqa: ANN401
        if not isinstance(content, Mapping):
            place = prefix.rstrip(".") or "the file"
            raise ProfileError(
                f"{where}: {place}: expected an object with keys {', '.join(allowed)}"
            )
        for key in content:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(allowed)}"
                raise ProfileError(f"{where}: {prefix}{key}: unknown key; {hint}")
        self.content: Mapping[str, Any] = content
        self._where = where
        self._prefix = prefix

    def inner(self, key: str, allowed: tuple[str, ...], *, required: bool = False) -> _Keys:
        """The object under a key; empty where it is absent and not required."""
        if required and key not in self.content:
            raise ProfileError(f"{self._where}: {self._prefix}{key}: missing key")
        inner = self.content.get(key, {})
        return _Keys(inner, self._where, f"{self._prefix}{key}.", allowed)

    def number(self, key: str, *, above_zero: bool = False) -> float:
        """A required finite number of at least (or above) 0."""
        if key not in self.content:
            raise ProfileError(f"{self._where}: {self._prefix}{key}: missing key")
        value = self.content[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0 or (above_zero and value == 0):
            wanted = "a number above 0" if above_zero else "a number of at least 0"
            raise ProfileError(f"{self._where}: {self._prefix}{key}: {value!r} is not {wanted}")
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A number, or None where the key is absent or null."""
        return None if self.content.get(key) is None else self.number(key)

    def whole(self, key: str, default: int | None = None) -> int | None:
        """A whole number of at least 1, or the default where the key is absent or null."""
        if self.content.get(key) is None:
            return default
        value = self.number(key, above_zero=True)
        if not value.is_integer():
            raise ProfileError(
                f"{self._where}: {self._prefix}{key}: {self.content[key]!r} is not a whole number"
            )
        return int(value)
