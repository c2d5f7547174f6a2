"""Numbers that a scenario may hold, with bounds far beyond any plant's.

What lies beyond them would not mean anything new: it would overflow, fill the memory or never end.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field

from .workload.trace_columns import LAST_ARRIVAL_S

SPEC_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""Unknown keys, texts in place of numbers, and infinities are errors."""

MOST_COUNT: Final = 2**31 - 1
"""Most of what is only counted and compared."""
MOST_REPLICAS: Final = 4096
"""Most replicas: each has its arrays."""
MOST_SEQUENCES: Final = 65_536
"""Most sequences a replica holds at once: each has a place in every replica."""
MOST_BLOCK_TOKENS: Final = 1_000_000
"""Most tokens of a KV block: a cache without a limit still has a number of tokens."""
MOST_RETRIES: Final = 1000
"""Most further attempts of the gateway."""
MOST_CLIENT_RETRIES: Final = 100
"""Most further attempts of a client: each makes room for all requests once more."""
MOST_SCALE: Final = 10_000.0
"""Largest factor on the rate of a workload."""
MOST_REQUESTS: Final = 100_000_000
"""Most requests of an offered load, some gigabytes."""
MOST_LOAD_S: Final = LAST_ARRIVAL_S
"""Longest workload: what a trace may last."""
DAY_S: Final = 86_400.0
"""Longest time of the plant and of its measurement."""
MOST_TIMEOUT_S: Final = 1e6
"""Longest timeout of a request, eleven days: a run ends only after its last request."""
LEAST_INTERVAL_S: Final = 0.01
"""Shortest interval of what recurs: each time costs the engine a step."""

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=DAY_S)]
PositiveSeconds = Annotated[float, Field(gt=0, le=DAY_S)]
Interval = Annotated[float, Field(ge=LEAST_INTERVAL_S, le=DAY_S)]
LoadSeconds = Annotated[float, Field(ge=0, le=MOST_LOAD_S)]
PositiveLoadSeconds = Annotated[float, Field(gt=0, le=MOST_LOAD_S)]
FaultSeconds = Annotated[float, Field(ge=LEAST_INTERVAL_S, le=MOST_LOAD_S)]
Range = tuple[LoadSeconds, LoadSeconds]
Rate = Annotated[float, Field(gt=0, le=1e9)]
Count = Annotated[int, Field(ge=1, le=MOST_COUNT)]
CountFromZero = Annotated[int, Field(ge=0, le=MOST_COUNT)]
"""A count that may be 0."""
Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]
Percent = Annotated[int, Field(ge=0, le=100)]
