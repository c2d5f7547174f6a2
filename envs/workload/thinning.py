"""Scaling a load down by leaving whole tenants out: their bursts stay what they are.

Dropping requests independently (`superpose` with a scale below 1, a model's `rate_scale`) keeps the
mix of lengths and the course of the rate, but makes any load more like a Poisson process: of a
dispersion D, 1 + p (D - 1) is left at a share p. Whole tenants keep it on average, at the price of
another mix. Figures: docs/workloads.md.
"""

from __future__ import annotations

import numpy as np

from .request import Requests


def fewer_tenants(requests: Requests, scale: float, *, seed: int) -> Requests:
    """Keeps tenants, in random order, until a share of the requests is reached.

    The last one is thinned to what is missing, so that the share is met on average.

    Args:
        requests: A load that names its tenants.
        scale: Share of the requests to keep, above 0 and at most 1.
        seed: Of the order and of the thinning; equal arguments give equal bytes.

    Raises:
        ValueError: `scale` lies outside (0, 1], or the tenants are unknown.
    """
    if not 0 < scale <= 1:
        raise ValueError(f"scale: {scale} is not a share above 0")
    if requests.client is None:
        raise ValueError("client: these requests name no tenants")
    rng = np.random.default_rng(seed)
    counts = np.bincount(requests.client, minlength=len(requests.client_names))
    order = rng.permutation(counts.size)
    before = np.cumsum(counts[order]) - counts[order]
    missing = scale * len(requests) - before
    share = np.zeros(counts.size)
    share[order] = np.clip(missing / np.maximum(counts[order], 1), 0.0, 1.0)
    kept = rng.random(len(requests)) < share[requests.client]
    return requests.take(np.flatnonzero(kept))
