"""The engine in set-ups whose answer queueing theory knows: within 2 %, with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.envs.sim.params import EngineParams
from gatepilot.envs.sim.whole_run import simulate
from gatepilot.envs.workload.request import Requests

from .sim_kit import Gateway

N = 400_000
STEP_S = 0.01
MEAN_OUTPUT = 100


def poisson(rng: np.random.Generator, rate: float, outputs: NDArray[np.int32]) -> Requests:
    arrivals = np.cumsum(rng.exponential(1 / rate, len(outputs)))
    return Requests(arrivals, np.ones(len(outputs), np.int32), outputs, float(arrivals[-1]) + 1)


def one_at_a_time() -> EngineParams:
    """One slot: a queue with one server; a request takes one step a token."""
    return EngineParams(
        base_s=STEP_S,
        per_seq_s=0.0,
        per_ctx_token_s=0.0,
        per_prefill_token_s=0.0,
        max_num_seqs=1,
        router="round_robin",
    )


@pytest.mark.parametrize("load", [0.1, 0.5, 0.7])
@pytest.mark.parametrize("law", ["constant", "geometric", "two lengths"])
def test_one_server_waits_as_pollaczek_and_khinchine_say(load: float, law: str) -> None:
    """M/D/1, M/M/1 (steps make it geometric) and M/G/1: mean wait = rate E[S^2] / 2 (1 - load)."""
    rng = np.random.default_rng(7)
    outputs = {
        "constant": np.full(N, MEAN_OUTPUT),
        "geometric": rng.geometric(1 / MEAN_OUTPUT, N),
        "two lengths": rng.choice([20, 180], N),
    }[law].astype(np.int32)
    service_s = STEP_S * outputs
    rate = load / service_s.mean()
    found = simulate(poisson(rng, rate, outputs), one_at_a_time(), replicas=1).outcomes
    waits = found.ttft_s - STEP_S
    expected = rate * np.mean(service_s**2) / (2 * (1 - load))
    assert waits.mean() == pytest.approx(expected, rel=0.02)
    np.testing.assert_allclose(found.e2e_s - waits, service_s, atol=1e-6)


@pytest.mark.parametrize("load", [0.5, 0.95])
def test_every_single_wait_is_lindleys(load: float) -> None:
    """Each wait is the one before plus its service minus the gap, or 0: no sampling error here."""
    rng = np.random.default_rng(7)
    outputs = rng.geometric(1 / MEAN_OUTPUT, N // 4).astype(np.int32)
    requests = poisson(rng, load / (STEP_S * MEAN_OUTPUT), outputs)
    found = simulate(requests, one_at_a_time(), replicas=1).outcomes
    walk = np.cumsum(STEP_S * outputs[:-1] - np.diff(requests.arrival_s))
    walk = np.concatenate([[0.0], walk])
    waits = walk - np.minimum.accumulate(walk)
    np.testing.assert_allclose(found.ttft_s - STEP_S, waits, atol=1e-5)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_batch_whose_step_grows_with_it_shares_the_processor(load: float) -> None:
    """M/G/1-PS: the mean time in the system depends on the mean work alone: E[S] / (1 - load)."""
    rng = np.random.default_rng(11)
    outputs = rng.choice([50, 450], N // 4).astype(np.int32)
    params = EngineParams(
        base_s=1e-9,
        per_seq_s=STEP_S / 10,
        per_ctx_token_s=0.0,
        per_prefill_token_s=STEP_S / 10,
        max_num_seqs=512,
        router="round_robin",
    )
    mean_s = STEP_S / 10 * outputs.mean()
    found = simulate(poisson(rng, load / mean_s, outputs), params, replicas=1).outcomes
    assert found.e2e_s.mean() == pytest.approx(mean_s / (1 - load), rel=0.03)


def test_littles_law_holds_for_what_is_scraped() -> None:
    """Mean of running and waiting, as scraped = arrival rate x mean time in the system."""
    rng = np.random.default_rng(5)
    outputs = rng.geometric(1 / MEAN_OUTPUT, 20_000).astype(np.int32)
    requests = poisson(rng, 6.0, outputs)
    g = Gateway(
        requests,
        replicas=3,
        base_s=0.01,
        per_seq_s=1e-3,
        max_num_seqs=8,
        scrape_interval_s=1.0,
        router="least_outstanding",
    )
    inside = []
    while g.counters["arrived"] < 20_000:
        g.tick(1.0)
        inside.append(g.seen("running") + g.seen("waiting"))
    g.tick(1000.0)
    assert set(g.status) == {"ok"}
    rate = 20_000 / requests.arrival_s[-1]
    assert np.mean(inside) == pytest.approx(rate * g.outcomes.e2e_s.mean(), rel=0.02)
