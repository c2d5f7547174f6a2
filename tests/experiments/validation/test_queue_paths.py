"""Each single wait of the queueing set-ups against an implementation that knows no iterations.

Here is no sampling error: both get the same arrivals and services.
"""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.envs.workload.request import Requests
from gatepilot.experiments.validation.queues import CONSTANT, EXPONENTIAL, HEAVY, Law, Queue

N = 20_000
STEPS = 10_000


def kiefer_wolfowitz(requests: Requests, step_s: float, servers: int) -> NDArray[np.float64]:
    """Waits of GI/G/c, first come first served: a request takes the server that is free first."""
    free_s = [0.0] * servers
    waits = []
    arrivals, services = requests.arrival_s.tolist(), (step_s * requests.output_tokens).tolist()
    for arrival_s, service_s in zip(arrivals, services, strict=True):
        start_s = max(arrival_s, free_s[0])
        heapq.heapreplace(free_s, start_s + service_s)
        waits.append(start_s - arrival_s)
    return np.array(waits)


def shared_processor(requests: Requests, step_s: float) -> NDArray[np.float64]:
    """Delays of GI/G/1 under processor sharing in continuous time.

    All present get the same service per second, so each leaves when the service that one has got
    since the beginning reaches what it was at its arrival, plus its own.
    """
    inside: list[tuple[float, int]] = []
    ended_s = np.zeros(len(requests))
    t, got_s = 0.0, 0.0
    services = (step_s * requests.output_tokens).tolist()
    for row, arrival_s in enumerate([*requests.arrival_s.tolist(), np.inf]):
        while inside and t + (inside[0][0] - got_s) * len(inside) <= arrival_s:
            target_s, done = inside[0]
            t += (target_s - got_s) * len(inside)
            got_s = target_s
            heapq.heappop(inside)
            ended_s[done] = t
        if row == len(requests):
            break
        if inside:
            got_s += (arrival_s - t) / len(inside)
        t = arrival_s
        heapq.heappush(inside, (got_s + services[row], row))
    delays: NDArray[np.float64] = ended_s - requests.arrival_s - np.array(services)
    return delays


@pytest.mark.parametrize("law", [EXPONENTIAL, CONSTANT, HEAVY], ids=["M/M/1", "M/D/1", "M/G/1"])
@pytest.mark.parametrize("load", [0.1, 0.95])
def test_one_server_has_exactly_these_waits(law: Law, load: float) -> None:
    queue = Queue("", law, mean_steps=STEPS)
    requests = queue.draw(load, N, np.random.default_rng(1))
    waits = queue.waits_s(requests, queue.params)
    expected = kiefer_wolfowitz(requests, queue.step_s, 1)
    np.testing.assert_allclose(waits, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("servers", [2, 8, 32])
@pytest.mark.parametrize("load", [0.3, 0.7, 0.95])
def test_more_servers_start_at_most_one_step_later(servers: int, load: float) -> None:
    """A request that meets an iteration under way waits for its end, and never longer for that."""
    queue = Queue("", EXPONENTIAL, servers=servers, mean_steps=STEPS)
    requests = queue.draw(load, N, np.random.default_rng(2))
    later = queue.waits_s(requests, queue.params)
    later -= kiefer_wolfowitz(requests, queue.step_s, servers)
    assert later.min() > -1e-7
    assert later.max() < queue.step_s + 1e-7
    assert later.max() > 0.9 * queue.step_s


@pytest.mark.parametrize("law", [EXPONENTIAL, HEAVY], ids=["M/M/1-PS", "M/G/1-PS"])
@pytest.mark.parametrize("load", [0.3, 0.7, 0.95])
def test_sharing_delays_by_as_much_as_in_continuous_time(law: Law, load: float) -> None:
    queue = Queue("", law, shared=True, mean_steps=STEPS)
    requests = queue.draw(load, N, np.random.default_rng(3))
    delays = queue.waits_s(requests, queue.params)
    expected = shared_processor(requests, queue.step_s)
    assert expected.max() > 1.0
    # arrivals and ends move to boundaries of iterations, which adds up over a long stay
    np.testing.assert_allclose(delays, expected, rtol=1e-3, atol=100 * queue.step_s)
    assert abs((delays - expected).mean()) < 5 * queue.step_s
