"""Sizes by their price: known answers of the tail, and the search against a plain one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.agents.baselines.planner.sizing import Load, cheapest_sizes, late_share

from .plain_planner import plain_late_share

SIZES = range(1, 17)
BOUNDS = np.array([1]), np.array([16])


def sized(load: float, spread: float, borne: float = 0.5, weight: float = 1.0) -> int:
    loads = [Load(np.log(np.array([load])), spread)]
    return int(cheapest_sizes(loads, np.array([borne]), *BOUNDS, weight)[0])


@pytest.mark.parametrize(
    ("spreads", "share"),  # tables of Student's t with three degrees of freedom
    [(0.0, 0.5), (0.9785, 0.2), (1.6377, 0.1), (2.3534, 0.05), (4.5407, 0.01), (10.2145, 0.001)],
)
def test_the_tail_is_that_of_the_tables(spreads: float, share: float) -> None:
    assert late_share(np.array([spreads, -spreads])) == pytest.approx([share, 1 - share], abs=2e-5)


def test_a_load_that_is_known_exactly_gets_what_bears_it() -> None:
    assert [sized(load, 1e-9) for load in (0.2, 0.49, 0.51, 1.9, 7.9)] == [1, 1, 2, 4, 16]


def test_by_hand() -> None:
    """Load 1, a replica bears 0.5, spread 0.2: margins ln 1, ln 1.5, ln 2, ... over 0.2.

    Late with 2, 3, 4, 5, 6, 7 replicas: 0.5, 0.0678, 0.0201, 0.0097, 0.0060, 0.0041. A violation
    costs 5, a replica 0.03: the fifth saves 0.052, the sixth 0.019, and at three times the price
    0.056, the seventh 0.028.
    """
    late = late_share(np.log(np.arange(2, 8) / 2) / 0.2)
    assert late == pytest.approx([0.5, 0.0678, 0.0201, 0.0097, 0.0060, 0.0041], abs=2e-4)
    assert sized(1.0, 0.2) == 5
    assert sized(1.0, 0.2, weight=3.0) == 6


def test_what_no_size_bears_gets_all_and_not_the_cheapest() -> None:
    assert sized(100.0, 0.1) == 16
    assert sized(8.1, 1e-9) == 16


def test_who_bears_anything_gets_the_fewest() -> None:
    assert sized(1e-6, 0.15, borne=math.inf) == 1


@given(
    loads=st.lists(st.tuples(st.floats(0.01, 20), st.floats(0.02, 1.5)), min_size=1, max_size=3),
    borne=st.floats(0.02, 2),
    weight=st.floats(0.05, 3),
)
def test_no_other_size_that_bears_the_loads_is_cheaper(
    loads: list[tuple[float, float]], borne: float, weight: float
) -> None:
    def price(size: int) -> float:
        late = 0.0
        for load, spread in loads:
            late = max(late, plain_late_share(math.log(size * borne / load) / spread))
        return 0.03 * size + 5 * weight * late

    bearing = [size for size in SIZES if all(x <= size * borne for x, _ in loads)]
    given_loads = [Load(np.log(np.array([load])), spread) for load, spread in loads]
    found = int(cheapest_sizes(given_loads, np.array([borne]), *BOUNDS, weight)[0])
    if bearing:
        assert found in bearing
        assert price(found) <= min(price(size) for size in bearing) + 1e-9
    else:
        assert found == 16
