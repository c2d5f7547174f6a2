"""Lists of scenarios by name."""

from __future__ import annotations

from typing import Final

_THRESHOLD: Final = ("same_rate_opposite_cure", "retry_storm", "brown_out")
_FAULTS: Final = (
    "bad_replica",
    "slow_replica",
    "flapping_replica",
    "brown_out",
    "retry_storm",
    "failed_start",
    "metric_gaps",
    "same_rate_opposite_cure",
)
_COLD_STARTS: Final = ("cold_start_0s", "cold_start_60s", "cold_start_150s", "cold_start_300s")
SUITES: Final[dict[str, tuple[str, ...]]] = {
    "core": ("tenants70b", "tenants70b_faults", "azure70b", "demo", "testbed"),
    "quick": ("steady", "flash_crowd", "bad_replica", "same_rate_opposite_cure"),
    "full": (
        *("steady", "daily", "flash_crowd", "code_bursts", "tenant_surge", "long_prompts"),
        *("idle_night", *_COLD_STARTS, "drift", *_FAULTS),
    ),
    "threshold": _THRESHOLD,
}
"""Suite to shipped scenarios. `full`: one for each thing that happens to a gateway; `quick`: four
of them; `threshold`: those in which the breaker's threshold is worth moving; `core`: those that the
README's figures are about."""


class SuiteError(ValueError):
    """An unknown suite: one line."""


def suite(name: str) -> tuple[str, ...]:
    """The scenarios of a suite.

    Raises:
        SuiteError: There is no such suite.
    """
    if name not in SUITES:
        msg = f"unknown suite {name!r}: expected one of {', '.join(SUITES)}"
        raise SuiteError(msg)
    return SUITES[name]
