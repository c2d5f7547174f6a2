"""What a load is like, in figures: rates, burstiness, lengths, tenants, prefix reuse."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .arrivals import countable, local_dispersion, window_counts
from .lengths import rank_correlation
from .request import Requests

WINDOWS_S: Final = (1.0, 15.0, 60.0)
"""Windows in which arrivals are counted: a second, a tick, a minute."""
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Quantiles of the lengths."""


@dataclass(frozen=True)
class WindowStatistics:
    """Arrivals counted in windows of one length."""

    window_s: float
    """Length of the windows; an incomplete last one is left out."""
    peak_rate_rps: float
    """Highest rate of a window."""
    dispersion: float | None
    """Variance of the counts over their mean (Poisson: 1); slow swings of the rate are in it.
    None: every arrival lies in the incomplete last window."""
    local_dispersion: float | None
    """Half the mean squared difference of neighbouring counts over their mean: without them."""


@dataclass(frozen=True)
class LengthStatistics:
    """Lengths of prompts or outputs, tokens."""

    mean: float
    """Mean."""
    quantiles: dict[str, float]
    """By name, p5 to p99."""
    maximum: int
    """The longest."""


@dataclass(frozen=True)
class ClientStatistics:
    """One tenant."""

    name: str
    """Its name."""
    requests_fraction: float
    """Its share of the requests."""
    mean_rate_rps: float
    """Requests per second over the whole range."""
    local_dispersion: float | None
    """Of its own counts in windows of 15 s; None: it sends too little to tell."""
    prompt_tokens_p50: float
    """Median prompt."""
    output_tokens_p50: float
    """Median output."""


@dataclass(frozen=True)
class PrefixStatistics:
    """What a cache that forgets nothing could reuse."""

    requests_fraction: float
    """Share of requests with a hit."""
    tokens_fraction: float
    """Share of prompt tokens that are hits."""


@dataclass(frozen=True)
class LoadStatistics:
    """All figures of a load."""

    requests: int
    """Number of requests."""
    span_s: float
    """Length of the range."""
    mean_rate_rps: float
    """Requests per second over the range."""
    windows: tuple[WindowStatistics, ...]
    """By window; those with fewer than two windows in the range, or too many to count, are left
    out."""
    gap_cv: float | None
    """Coefficient of variation of the times between arrivals (Poisson with a level rate: 1)."""
    distinct_arrivals_fraction: float
    """Distinct arrival times over requests: far below 1 where times were rounded."""
    prompt: LengthStatistics
    """Prompt tokens."""
    output: LengthStatistics
    """Output tokens."""
    rank_correlation: float
    """Spearman's, of prompt and output lengths."""
    clients: tuple[ClientStatistics, ...]
    """Tenants, the busiest first; empty where they are unknown."""
    prefix: PrefixStatistics | None
    """Prefix reuse; None where it is unknown."""

    def as_dict(self) -> dict[str, Any]:
        """Plain content for JSON."""
        return asdict(self)


def load_statistics(requests: Requests) -> LoadStatistics:
    """Works the figures of a load out.

    Raises:
        ValueError: There is no request.
    """
    if not len(requests):
        raise ValueError("requests: there are none to describe")
    gaps = np.diff(requests.arrival_s)
    spread = gaps.size > 1 and gaps.mean() > 0
    return LoadStatistics(
        requests=len(requests),
        span_s=requests.span_s,
        mean_rate_rps=requests.mean_rate_rps,
        windows=tuple(
            _window(requests, window_s)
            for window_s in WINDOWS_S
            if requests.span_s >= 2 * window_s and countable(requests.span_s, window_s)
        ),
        gap_cv=float(gaps.std() / gaps.mean()) if spread else None,
        distinct_arrivals_fraction=np.unique(requests.arrival_s).size / len(requests),
        prompt=_lengths(requests.prompt_tokens),
        output=_lengths(requests.output_tokens),
        rank_correlation=rank_correlation(requests.prompt_tokens, requests.output_tokens),
        clients=_clients(requests),
        prefix=_prefix(requests),
    )


def quantile_name(probability: float) -> str:
    """A quantile's name, e.g. p95."""
    return f"p{100 * probability:g}"


def _window(requests: Requests, window_s: float) -> WindowStatistics:
    counts = window_counts(requests.arrival_s, requests.span_s, window_s)
    if not counts.any():
        return WindowStatistics(window_s, 0.0, None, None)
    return WindowStatistics(
        window_s,
        float(counts.max() / window_s),
        float(counts.var() / counts.mean()),
        local_dispersion(requests.arrival_s, requests.span_s, window_s),
    )


def _lengths(tokens: NDArray[np.int32]) -> LengthStatistics:
    values = np.quantile(tokens, QUANTILES)
    names = [quantile_name(probability) for probability in QUANTILES]
    return LengthStatistics(
        float(tokens.mean()),
        {name: float(value) for name, value in zip(names, values, strict=True)},
        int(tokens.max()),
    )


def _clients(requests: Requests) -> tuple[ClientStatistics, ...]:
    if requests.client is None:
        return ()
    found = []
    for number, name in enumerate(requests.client_names):
        rows = requests.client == number
        count = int(rows.sum())
        if not count:
            continue
        arrival_s, tick_s = requests.arrival_s[rows], WINDOWS_S[1]
        enough = False
        if countable(requests.span_s, tick_s):
            counts = window_counts(arrival_s, requests.span_s, tick_s)
            enough = counts.size > 1 and bool(counts.any())
        found.append(
            ClientStatistics(
                name,
                count / len(requests),
                count / requests.span_s,
                local_dispersion(arrival_s, requests.span_s, tick_s) if enough else None,
                float(np.median(requests.prompt_tokens[rows])),
                float(np.median(requests.output_tokens[rows])),
            )
        )
    return tuple(sorted(found, key=lambda client: -client.requests_fraction))


def _prefix(requests: Requests) -> PrefixStatistics | None:
    hit = requests.prefix_hit_tokens
    if hit is None:
        return None
    total = int(requests.prompt_tokens.sum(dtype=np.int64))
    return PrefixStatistics(float((hit > 0).mean()), int(hit.sum(dtype=np.int64)) / total)
