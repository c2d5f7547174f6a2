"""Mean prompt and mean answer of a request, from the rates that a snapshot holds.

Tokens in the telemetry window / first tokens in it: what the autoscalers upstream read as
`rate(..._tokens_sum) / rate(..._tokens_count)` of finished requests. Not over arrivals: those that
wait or are shed have no tokens yet.
"""

from __future__ import annotations

from ...envs.schema.snapshot import MetricsSnapshot


def mean_prompt_tokens(snapshot: MetricsSnapshot, window_s: float) -> float | None:
    """Prompt tokens a request; 0 without first tokens, `None` where a rate is not known."""
    return _per_request(snapshot.prompt_token_rate_tps, snapshot.samples, window_s)


def mean_output_tokens(snapshot: MetricsSnapshot, window_s: float) -> float | None:
    """Answer tokens a request; 0 without first tokens, `None` where a rate is not known."""
    return _per_request(snapshot.output_token_rate_tps, snapshot.samples, window_s)


def _per_request(rate_tps: float | None, requests: float | None, window_s: float) -> float | None:
    if rate_tps is None or requests is None:
        return None
    return rate_tps * window_s / requests if requests > 0 else 0.0
