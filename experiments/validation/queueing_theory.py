"""Mean waits that queueing theory knows, in units of the mean service time.

The textbook formulas treat time as continuous; the engine works in iterations. `stepped_mean_wait`
is the exact mean of the engine's own stepped queue, so that what the steps change is known, not
guessed.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import scipy.stats
from numpy.typing import NDArray

_NEGLIGIBLE: Final = 1e-11
"""Probability of longer queues that a chain leaves out."""


def pollaczek_khinchine(load: float, scv: float) -> float:
    """Mean wait of M/G/1, first come first served.

    Pollaczek-Khinchine: load (1 + scv) / (2 (1 - load)). Source: L. Kleinrock, Queueing Systems,
    volume 1 (1975), chapter 5.

    Args:
        load: Arrival rate times mean service, below 1.
        scv: Squared coefficient of variation of the service: 1 for M/M/1, 0 for M/D/1.
    """
    return load * (1.0 + scv) / (2.0 * (1.0 - load))


def erlang_c(load: float, servers: int) -> float:
    """Probability that a request of M/M/c waits.

    Erlang's C formula, through the recursion of his B formula, which cannot overflow. Source:
    L. Kleinrock, Queueing Systems, volume 1 (1975), section 3.5.

    Args:
        load: Of each server, below 1.
        servers: How many.
    """
    offered = load * servers
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    return blocked / (1.0 - load * (1.0 - blocked))


def erlang_mean_wait(load: float, servers: int) -> float:
    """Mean wait of M/M/c, first come first served: `erlang_c` / (servers (1 - load)).

    Args:
        load: Of each server, below 1.
        servers: How many.
    """
    return erlang_c(load, servers) / (servers * (1.0 - load))


def sharing_mean_delay(load: float) -> float:
    """Mean time that sharing the processor adds to a request of M/G/1-PS: load / (1 - load).

    It depends on the service's mean alone, whatever its law. Source: L. Kleinrock, Queueing
    Systems, volume 2 (1976), section 4.4.

    Args:
        load: Arrival rate times mean service, below 1.
    """
    return load / (1.0 - load)


def stepped_mean_wait(
    load: float, servers: int, mean_steps: float, *, shared: bool = False
) -> float:
    """Exact mean wait where time goes in iterations and service is a geometric number of them.

    The number in the system at the boundaries of iterations is a Markov chain. With n > 0 of them,
    k = min(n, servers) are served (all, where the processor is shared) in an iteration of one step
    (n steps where it is shared). Each served one is done at its end with probability 1 /
    mean_steps; meanwhile requests arrive as a Poisson process and wait for the boundary. An idle
    system begins an iteration with the arrival that ends the idleness. Over time, the mean number
    waiting follows from the chain's stationary distribution, and the mean wait from Little's law.

    Args:
        load: Of each server, below 1.
        servers: How many requests are served at once; 1 where the processor is shared.
        mean_steps: Mean number of iterations that a request takes alone, above 1.
        shared: Whether an iteration lasts as many steps as there are requests.

    Returns:
        Mean wait, or mean time that sharing adds, in units of the mean service time.
    """
    rate = load * servers / mean_steps  # arrivals a step
    size = servers + 20 + math.ceil(math.log(_NEGLIGIBLE) / math.log(load))
    n = np.arange(size)
    served = n if shared else np.minimum(n, servers)
    steps = n.astype(float) if shared else np.ones(size)
    steps[0] = 1.0 / rate
    chain = np.zeros((size, size))
    chain[0, 1] = 1.0
    for k in range(1, size):
        done = scipy.stats.binom.pmf(np.arange(served[k] + 1), served[k], 1.0 / mean_steps)
        arrived = scipy.stats.poisson.pmf(n, rate * steps[k])
        following = np.convolve(arrived, done[::-1])[: size - k + served[k]]
        chain[k, k - served[k] : k - served[k] + len(following)] = following
    share = _stationary(chain)
    waiting = (n - served) * steps + 0.5 * rate * steps**2
    waiting[0] = 0.0
    mean_waiting = float(share @ waiting / (share @ steps))
    if not shared:
        return mean_waiting / rate / mean_steps
    mean_inside = mean_waiting + float(share[1:] @ (n * steps)[1:] / (share @ steps))
    return mean_inside / rate / mean_steps - 1.0


def _stationary(chain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stationary distribution of a Markov chain `(n, n)`; what a row lacks to 1 stays where it is.

    State reduction without a subtraction, so small shares keep their digits; the diagonal is not
    looked at. Source: W. Grassmann, M. Taksar, D. Heyman, Operations Research 33 (1985), 1107-1116.
    """
    reduced = chain.copy()
    last = len(chain) - 1
    for k in range(last, 0, -1):
        reduced[:k, k] /= reduced[k, :k].sum()
        reduced[:k, :k] += np.outer(reduced[:k, k], reduced[k, :k])
    share = np.zeros(len(chain))
    share[0] = 1.0
    for k in range(1, last + 1):
        share[k] = share[:k] @ reduced[:k, k]
    total: NDArray[np.float64] = share / share.sum()
    return total
