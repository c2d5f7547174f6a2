"""Scaling down: what is kept of the rate and of the bursts."""

import numpy as np
import pytest

from gatepilot.envs.workload.arrivals import local_dispersion
from gatepilot.envs.workload.request import Requests, superpose
from gatepilot.envs.workload.thinning import fewer_tenants

SPAN_S = 20_000.0


def bursty(tenants: int, seed: int = 0) -> Requests:
    """Tenants that all send bursts of twelve within three seconds."""
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(tenants), 600)
    bursts = np.repeat(rng.uniform(0, SPAN_S - 3, client.size // 12), 12)
    arrival_s = bursts + rng.uniform(0, 3, client.size)
    order = np.argsort(arrival_s)
    ones = np.ones(client.size, np.int32)
    names = tuple(f"t{i}" for i in range(tenants))
    return Requests(
        arrival_s[order],
        ones,
        ones,
        SPAN_S,
        client=client[order].astype(np.int32),
        client_names=names,
    )


def dispersion(requests: Requests) -> float:
    return local_dispersion(requests.arrival_s, SPAN_S, 15.0)


def test_dropping_requests_evens_bursts_out_as_the_formula_says() -> None:
    load = bursty(10)
    full = dispersion(load)
    assert full > 8
    for share in (0.5, 0.2):
        thin = [dispersion(superpose(load, share, seed=s, max_shift_s=0)) for s in range(10)]
        assert np.mean(thin) == pytest.approx(1 + share * (full - 1), rel=0.05)


def test_dropping_tenants_keeps_bursts() -> None:
    load = bursty(20)
    for share in (0.5, 0.2):
        kept = [fewer_tenants(load, share, seed=s) for s in range(10)]
        assert np.mean([dispersion(k) for k in kept]) == pytest.approx(dispersion(load), rel=0.12)
        assert np.mean([len(k) for k in kept]) == pytest.approx(share * len(load), rel=0.02)


def test_tenants_are_kept_whole_but_one() -> None:
    load = bursty(7)
    assert load.client is not None
    kept = fewer_tenants(load, 0.5, seed=3)
    assert kept.client is not None
    counts = np.bincount(kept.client, minlength=7)
    assert (counts == 600).sum() == 3
    assert (counts == 0).sum() == 3
    assert kept.span_s == load.span_s
    assert kept.client_names == load.client_names
    assert len(fewer_tenants(load, 1.0, seed=3)) == len(load)
    again = fewer_tenants(load, 0.5, seed=3)
    assert again.arrival_s.tobytes() == kept.arrival_s.tobytes()


def test_refusals() -> None:
    load = bursty(2)
    for scale in (0.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="scale: "):
            fewer_tenants(load, scale, seed=0)
    nameless = Requests(load.arrival_s, load.prompt_tokens, load.output_tokens, SPAN_S)
    with pytest.raises(ValueError, match="name no tenants"):
        fewer_tenants(nameless, 0.5, seed=0)
