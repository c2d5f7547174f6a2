"""The identity of the contract a policy was trained under: another fingerprint is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .action import ACTION_DIMS, STEPS
from .advice import ADVICE_ENTRIES
from .fields import FIELDS
from .observation import CHANGE_HORIZON_TICKS, TREND_TICKS, ObservationSpec
from .settings import MAX_THRESHOLD_STEPS, MIN_THRESHOLD_STEPS, THRESHOLD_STEP


@dataclass(frozen=True, slots=True)
class Contract:
    """All that must be equal between training and live operation."""

    observation: ObservationSpec
    """What the policy sees."""
    control_interval_s: float = 15.0
    """Seconds between two decisions."""
    window_s: float = 60.0
    """Seconds over which rates and quantiles are taken."""
    minimum_samples: int = 20
    """Samples below which a quantile is missing."""
    advisor: Mapping[str, Any] | None = None
    """Who advises, where the observation shows advice: `Advisor.identity`. Another advisor, or the
    same with other parameters, is another contract."""

    def __post_init__(self) -> None:
        """Refuses advice without an advisor, and an advisor whom nobody hears.

        Raises:
            ValueError: Either.
        """
        if self.observation.is_advised != (self.advisor is not None):
            given = "none" if self.advisor is None else "one"
            msg = f"advisor: observation preset {self.observation.preset!r} was given {given}"
            raise ValueError(msg)

    def as_dict(self) -> dict[str, object]:
        """The contract as plain data, written into logs and manifests."""
        content: dict[str, object] = {
            "fields": [
                {k: v for k, v in asdict(field).items() if k not in ("meaning", "live_source")}
                for field in FIELDS
            ],
            "observation": {
                "preset": self.observation.preset,
                "frame_stack": self.observation.frame_stack,
                "entries": list(self.observation.entries),
                "trend_ticks": TREND_TICKS,
                "change_horizon_ticks": CHANGE_HORIZON_TICKS,
            },
            "action": {
                "dims": list(ACTION_DIMS),
                "steps": list(STEPS),
                "threshold_step": THRESHOLD_STEP,
                "threshold_steps": [MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS],
            },
            "control_interval_s": float(self.control_interval_s),  # 15 and 15.0 are one contract
            "window_s": float(self.window_s),
            "minimum_samples": self.minimum_samples,
        }
        if self.advisor is not None:
            content["advice"] = {
                "entries": [
                    {k: v for k, v in asdict(entry).items() if k != "meaning"}
                    for entry in ADVICE_ENTRIES
                ],
                "advisor": dict(self.advisor),
            }
        return content

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON (sorted keys, no white space), hexadecimal."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()
