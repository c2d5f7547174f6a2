"""How snapshots become what a policy sees: entries in [-1, 1], missing as 0 with a flag beside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .advice import ADVICE_ENTRIES, Advice, scale_advice
from .fields import FIELD_INDEX, FIELDS, Rows, scale_rows

Preset = Literal["documented", "extended", "advised"]
"""What a policy sees: six fields; all of them and their trends; these and an advisor's advice."""

_PRESET_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    # The source document's state, plus the threshold: without it the state is not Markov.
    "documented": (
        "cpu_utilization",
        "ttft_p95_s",
        "error_rate",
        "replicas_requested",
        "vram_utilization",
        "breaker_threshold",
    ),
    "extended": tuple(field.name for field in FIELDS),
    "advised": tuple(field.name for field in FIELDS),
}
_TREND_FIELDS: Final = ("ttft_p95_s", "request_rate_rps")
"""Fields whose change over `TREND_TICKS` all but the documented preset show."""
_ADVICE_FLAGS: Final = [i for i, entry in enumerate(ADVICE_ENTRIES) if entry.nullable]
_ADVICE_KNOWN: Final = [i for i, entry in enumerate(ADVICE_ENTRIES) if not entry.nullable]
TREND_TICKS: Final = 3
"""Ticks a trend looks back."""
CHANGE_HORIZON_TICKS: Final = 40
"""Ticks since the last change that are scaled to 1 (10 min at 15 s: twice a slow cold start)."""


@dataclass(frozen=True)
class ObservationSpec:
    """Which observation a policy was trained on; part of the fingerprint."""

    preset: Preset = "extended"
    """`documented`, `extended` or `advised`."""
    frame_stack: int = 1
    """How many ticks are shown side by side, newest last. Advice is of the newest tick alone: it
    says by itself what was seen before."""

    def __post_init__(self) -> None:
        """Refuses what does not exist.

        Raises:
            ValueError: An unknown preset or a stack below 1.
        """
        if self.preset not in get_args(Preset):
            known = ", ".join(get_args(Preset))
            msg = f"observation preset {self.preset!r}: expected one of {known}"
            raise ValueError(msg)
        if self.frame_stack < 1:
            msg = f"frame_stack is {self.frame_stack}, expected 1 or more"
            raise ValueError(msg)

    @property
    def has_trends(self) -> bool:
        """Whether differences and the age of the last change are part of it."""
        return self.preset != "documented"

    @property
    def is_advised(self) -> bool:
        """Whether an advisor's advice is part of it."""
        return self.preset == "advised"

    @property
    def history_ticks(self) -> int:
        """Snapshots `encode` needs, the newest included."""
        return self.frame_stack + (TREND_TICKS if self.has_trends else 0)

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Columns of the shown fields."""
        return np.array([FIELD_INDEX[name] for name in _PRESET_FIELDS[self.preset]])

    @cached_property
    def flag_columns(self) -> NDArray[np.intp]:
        """Columns of the shown fields that can be missing, each with a known flag."""
        return np.array([i for i in self.columns if FIELDS[i].nullable])

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """Name of every entry, in order."""
        frame = [FIELDS[i].name for i in self.columns]
        frame += [f"{FIELDS[i].name}_known" for i in self.flag_columns]
        if self.has_trends:
            frame += [f"{name}_change" for name in _TREND_FIELDS]
        stacked = [
            name if age == 0 else f"{name}[-{age}]"
            for age in reversed(range(self.frame_stack))
            for name in frame
        ]
        if self.has_trends:
            stacked.append("ticks_since_change")
        if self.is_advised:
            stacked += [entry.name for entry in ADVICE_ENTRIES]
            stacked += [f"{ADVICE_ENTRIES[i].name}_known" for i in _ADVICE_FLAGS]
        return tuple(stacked)

    @cached_property
    def low(self) -> NDArray[np.float32]:
        """Lower bound of every entry: -1 for changes and for what can be below 0, else 0."""
        signed = {f"{name}_change" for name in _TREND_FIELDS}
        signed |= {entry.name for entry in ADVICE_ENTRIES if entry.is_signed}
        is_signed = [name.partition("[")[0] in signed for name in self.entries]
        return np.where(is_signed, np.float32(-1.0), np.float32(0.0))

    @cached_property
    def high(self) -> NDArray[np.float32]:
        """Upper bound of every entry: 1."""
        return np.ones(len(self.entries), np.float32)


def encode(
    history: Rows,
    ticks_since_change: NDArray[Any],
    spec: ObservationSpec,
    advice: Advice | None = None,
) -> NDArray[np.float32]:
    """Turns the last snapshots into observations.

    Args:
        history: Shape `(n, T, F)`, T = `spec.history_ticks`, oldest first; NaN is missing. Ticks
            before the start are rows of NaN.
        ticks_since_change: Shape `(n,)`: ticks since the number of replicas was last changed.
        spec: What to show.
        advice: Shape `(n, A)`, of the newest tick; NaN is unknown. Given exactly where it is shown.

    Returns:
        Shape `(n, D)`, finite, in `[spec.low, spec.high]`.

    Raises:
        ValueError: Another shape, advice missing or out of place, or something that is always
            known is not.
    """
    wanted = (spec.history_ticks, len(FIELDS))
    if history.ndim != 3 or history.shape[1:] != wanted:
        msg = f"history has shape {history.shape}, expected (n, {wanted[0]}, {wanted[1]})"
        raise ValueError(msg)
    first = spec.history_ticks - spec.frame_stack
    scaled = scale_rows(history[:, first:])
    known = ~np.isnan(scaled)
    always = [i for i in spec.columns if not FIELDS[i].nullable]
    if not known[:, -1, always].all():
        missing = [FIELDS[i].name for i in always if not known[:, -1, i].all()]
        msg = f"{', '.join(missing)} missing in the newest snapshot, but always known"
        raise ValueError(msg)
    filled = np.where(known, scaled, 0.0)
    shown = [filled[..., spec.columns], known[..., spec.flag_columns]]
    if spec.has_trends:
        trend_columns = [FIELD_INDEX[name] for name in _TREND_FIELDS]
        before = scale_rows(history[:, first - TREND_TICKS : -TREND_TICKS])
        change = scaled[..., trend_columns] - before[..., trend_columns]
        shown.append(np.where(np.isnan(change), 0.0, change))
    frames = np.concatenate(shown, axis=-1).reshape(len(history), -1)
    if spec.has_trends:
        age = np.log1p(np.clip(ticks_since_change, 0, CHANGE_HORIZON_TICKS))
        frames = np.column_stack([frames, age / np.log1p(CHANGE_HORIZON_TICKS)])
    if spec.is_advised or advice is not None:
        frames = np.column_stack([frames, _shown_advice(advice, len(history), spec)])
    return frames.astype(np.float32)


def _shown_advice(advice: Advice | None, n: int, spec: ObservationSpec) -> Advice:
    """Scaled advice and its known flags, `(n, ...)`."""
    if advice is None or not spec.is_advised:
        given = "none" if advice is None else "some"
        msg = f"observation preset {spec.preset!r} was given {given} advice"
        raise ValueError(msg)
    if advice.shape != (n, len(ADVICE_ENTRIES)):
        msg = f"advice has shape {advice.shape}, expected ({n}, {len(ADVICE_ENTRIES)})"
        raise ValueError(msg)
    known = ~np.isnan(advice)
    if not known[:, _ADVICE_KNOWN].all():
        names = [ADVICE_ENTRIES[i].name for i in _ADVICE_KNOWN if not known[:, i].all()]
        msg = f"advice {', '.join(names)} is unknown, but must always be known"
        raise ValueError(msg)
    filled = np.where(known, scale_advice(advice), 0.0)
    return np.column_stack([filled, known[:, _ADVICE_FLAGS]])
