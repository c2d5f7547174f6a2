"""The formulas: known values, their limits, and the engine where its steps are coarse."""

from __future__ import annotations

import math

import pytest

from gatepilot.experiments.validation.queueing_theory import (
    erlang_c,
    erlang_mean_wait,
    pollaczek_khinchine,
    sharing_mean_delay,
    stepped_mean_wait,
)
from gatepilot.experiments.validation.queues import (
    EXPONENTIAL,
    HEAVY,
    LOADS,
    QUEUES,
    Effort,
    Queue,
    measure,
)


def birth_and_death(load: float, servers: int) -> tuple[float, float]:
    """Probability of waiting and mean wait of M/M/c, from its chain state by state."""
    share, shares = 1.0, [1.0]
    for n in range(1, 4000):
        share *= load * servers / min(n, servers)
        shares.append(share)
    total = math.fsum(shares)
    waiting = math.fsum((n - servers) * s for n, s in enumerate(shares) if n > servers)
    return math.fsum(shares[servers:]) / total, waiting / total / (load * servers)


@pytest.mark.parametrize("servers", [1, 2, 8, 32])
@pytest.mark.parametrize("load", LOADS)
def test_erlang_c_is_the_birth_and_death_chain(load: float, servers: int) -> None:
    probability, mean_wait = birth_and_death(load, servers)
    assert erlang_c(load, servers) == pytest.approx(probability, rel=1e-9)
    assert erlang_mean_wait(load, servers) == pytest.approx(mean_wait, rel=1e-9)


def test_known_values() -> None:
    assert pollaczek_khinchine(0.5, 1.0) == 1.0
    assert pollaczek_khinchine(0.5, 0.0) == 0.5
    assert pollaczek_khinchine(0.9, 1.0) == pytest.approx(9.0)
    assert erlang_mean_wait(0.5, 2) == pytest.approx(1 / 3)
    assert sharing_mean_delay(0.9) == pytest.approx(9.0)


@pytest.mark.parametrize("mean_steps", [1.5, 5, 100])
@pytest.mark.parametrize("load", [0.1, 0.7, 0.95])
def test_one_stepped_server_is_pollaczeks_with_a_geometric_service(
    load: float, mean_steps: float
) -> None:
    """Two ways to the same mean: the chain over iterations, and the service's second moment."""
    expected = pollaczek_khinchine(load, 1.0 - 1.0 / mean_steps)
    assert stepped_mean_wait(load, 1, mean_steps) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("load", [0.3, 0.9])
def test_fine_steps_lead_to_continuous_time(load: float) -> None:
    for servers in (2, 8):
        expected = erlang_mean_wait(load, servers)
        assert stepped_mean_wait(load, servers, 1e8) == pytest.approx(expected, rel=1e-4)
    found = stepped_mean_wait(load, 1, 1e8, shared=True)
    assert found == pytest.approx(sharing_mean_delay(load), rel=1e-5)


@pytest.mark.parametrize(
    "queue",
    [
        Queue("one server", EXPONENTIAL, mean_steps=3),
        Queue("three servers", EXPONENTIAL, servers=3, mean_steps=4),
        Queue("shared", EXPONENTIAL, shared=True, mean_steps=2),
    ],
    ids=lambda queue: queue.name,
)
@pytest.mark.parametrize("load", [0.3, 0.7])
def test_the_engine_waits_as_the_stepped_queue_where_steps_are_coarse(
    queue: Queue, load: float
) -> None:
    """Here the textbook is off by more than the interval; the stepped formula is not."""
    exact, textbook = queue.stepped_s(load), queue.formula_s(load)
    found = measure(queue, load, Effort(1 << 16, 1 << 11, 24, 0.01, 24), seed=4)
    assert exact is not None
    assert abs(found.mean_s - exact) < 1.5 * found.half_width_s
    assert abs(found.mean_s - textbook) > 2.5 * found.half_width_s


def test_the_steps_of_what_is_claimed_change_next_to_nothing() -> None:
    for queue in QUEUES:
        for load in queue.loads[:2]:  # the fewer wait, the more a step weighs
            exact = queue.stepped_s(load)
            if exact is None:
                assert queue.law is HEAVY
            else:
                assert exact == pytest.approx(queue.formula_s(load), rel=0.0015)
