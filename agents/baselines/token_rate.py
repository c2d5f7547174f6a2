"""Tokens that a snapshot shows, prompts and answers together."""

from __future__ import annotations

from ...envs.schema.snapshot import MetricsSnapshot


def token_rate_tps(snapshot: MetricsSnapshot) -> float | None:
    """Tokens prefilled and generated a second, over all replicas; `None` if either is unknown."""
    prompt, output = snapshot.prompt_token_rate_tps, snapshot.output_token_rate_tps
    return None if prompt is None or output is None else prompt + output
