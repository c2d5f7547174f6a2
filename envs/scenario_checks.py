"""What the parts of a scenario ask of each other; each message starts with the key."""

from __future__ import annotations

import math
from typing import Final

from .profiles.memory import memory_problem
from .profiles.profile import Profile
from .scenario_spec import ClusterSpec, ControlSpec, TelemetrySpec

WATERMARK: Final = 0.01
"""Share of the KV blocks that admission leaves free (vLLM's default, and the engine's)."""


def kv_capacity_tokens(cluster: ClusterSpec, profile: Profile) -> int | None:
    """Tokens that a replica's KV cache holds; None: not known."""
    if cluster.kv_blocks is not None:
        return cluster.kv_blocks * cluster.block_tokens
    return profile.kv_capacity_tokens


def kv_blocks(cluster: ClusterSpec, profile: Profile) -> int | None:
    """Blocks of a replica's KV cache; None: not known, and not modelled."""
    if cluster.kv_blocks is not None or profile.kv_capacity_tokens is None:
        return cluster.kv_blocks
    return profile.kv_capacity_tokens // cluster.block_tokens


def check_kv_cache(cluster: ClusterSpec, profile: Profile, profile_name: str) -> None:
    """Checks that weights and KV cache fit on the GPUs, and a block into the KV cache.

    Raises:
        ValueError: They do not.
    """
    tokens = kv_capacity_tokens(cluster, profile)
    problem = memory_problem(profile, tokens)
    if problem is not None:
        raise ValueError(f"profile: {profile_name}: {problem}")
    if kv_blocks(cluster, profile) == 0:
        raise ValueError(
            f"cluster.block_tokens: {cluster.block_tokens} must not exceed the KV cache of a "
            f"replica ({tokens} tokens)"
        )


def check_prompt(longest_tokens: int, cluster: ClusterSpec, profile: Profile) -> None:
    """Checks that a prompt can be let into the KV cache, with one token of its answer.

    Raises:
        ValueError: It never can: the gateway would fail it.
    """
    blocks = kv_blocks(cluster, profile)
    if blocks is None:
        return
    most = (blocks - int(WATERMARK * blocks)) * cluster.block_tokens - 1
    if longest_tokens > most:
        raise ValueError(
            f"workload.max_prompt_tokens: a prompt of {longest_tokens} tokens is longer than the "
            f"KV cache of a replica ({blocks * cluster.block_tokens} tokens) lets in "
            f"(at most {most}); leave longer ones out"
        )


def check_rhythm(telemetry: TelemetrySpec, control: ControlSpec) -> None:
    """Checks that snapshots fall on scrapes: otherwise one would mix two instants.

    Raises:
        ValueError: A window, tick or warm-up is no multiple of the scrape interval.
    """
    scrape_s = telemetry.scrape_interval_s
    for key, value in (
        ("telemetry.window_s", telemetry.window_s),
        ("control.tick_s", control.tick_s),
        ("control.warmup_s", control.warmup_s),
    ):
        scrapes = round(value / scrape_s)
        close = scrapes > 0 and math.isclose(value / scrape_s, scrapes, abs_tol=1e-9)
        if not close and not (key == "control.warmup_s" and value == 0):
            raise ValueError(
                f"{key}: {value} must be a multiple of telemetry.scrape_interval_s ({scrape_s})"
            )
