"""How long a replica takes to start, by what is there already when it is ordered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .keys import Keys

DEFAULT_COLD_START_S: Final = 110.0
"""For a file that states none: the optimised 70B start-up measured on 4 x H100 (Anyscale)."""
WARM_S: Final = 0.1
"""A standby with loaded weights is switched in: middle of the 0.05 to 0.15 s to the first answer of
warm pods in the source documents (fact B8), a small model's figure; assumed for every profile."""
START_KEYS: Final = ("cold_s", "cached_s", "warm_s", "lazy_ready_s")


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Seconds from the order of a replica, by strategy. None includes ordering a machine."""

    cold_s: float
    """Process, weights from disk, compilation, graph capture; then it takes requests. The image is
    on the machine: pulling 10 GB takes 40 to 600 s more by vendors' figures."""
    cached_s: float
    """The same with the weights in the page cache and a warm compile cache."""
    warm_s: float
    """A standby with loaded weights only has to be switched in."""
    lazy_ready_s: float
    """The process is up and takes requests at once; the first ones wait this long, for weights and
    initialisation of the engine."""
    assumed: frozenset[str]
    """Those of the four that were measured elsewhere or not at all."""
    source: str
    """Where they come from."""


def parse_start_times(cold: Keys, order_to_ready_s: float) -> StartTimes:
    """Reads the start-up times by strategy from a profile's `cold_start`.

    What is not stated is assumed: cold and cached as long as `s`, lazy as cached, warm `WARM_S`.

    Args:
        cold: The keys of `cold_start`.
        order_to_ready_s: Its `s`, or the default.

    Raises:
        ProfileError: A time is out of range.
    """
    stated = {name: cold.optional_number(name) for name in START_KEYS}
    cold_s, cached_s, warm_s, lazy_s = (stated[name] for name in START_KEYS)
    cached_s = order_to_ready_s if cached_s is None else cached_s
    assumed = cold.content.get("strategies_assumed", [])
    return StartTimes(
        cold_s=order_to_ready_s if cold_s is None else cold_s,
        cached_s=cached_s,
        warm_s=WARM_S if warm_s is None else warm_s,
        lazy_ready_s=cached_s if lazy_s is None else lazy_s,
        assumed=frozenset(name for name in START_KEYS if stated[name] is None or name in assumed),
        source=str(cold.content.get("strategies_source", "not stated")),
    )
