"""The dynamic batch size: golden vectors, a second implementation, its quirk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.dynamic_batch import DynamicBatchParams, next_size
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("dynamic_batch")
SITE = Site(Limits(1, 8))


def looks_of(rows: list[list[float | None]]) -> list[Any]:
    names = ("ttft_p95_s", "cpu_utilization", "replicas_ready")
    return [look(dict(zip(names, row, strict=True))) for row in rows]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["sizes"])
def test_size(vector: dict[str, Any]) -> None:
    params = DynamicBatchParams(**vector.get("params", {}))
    found = next_size(params, vector["size"], vector["latency_s"], vector["cpu"])
    assert found == vector["wanted"], vector["why"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    controller = DynamicBatchParams(**vector["params"]).make(SITE, seed=0)
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------


def reference(rows: list[list[float | None]]) -> list[int | None]:
    """From a start at a power of two a size is its exponent: 8 is 3, 16 is 4, 256 is 8."""
    exponent, found = 5, list[int | None]()
    for seconds, cpu, ready in rows:
        if None in (seconds, cpu, ready) or not seconds or not ready:
            found.append(found[-1] if found else None)
            continue
        can_halve, can_double = exponent >= 5, exponent <= 7
        table = {(True, True): -1, (True, False): -1, (False, True): 1, (False, False): 0}
        assert cpu is not None
        exponent += table[seconds > 0.05 and can_halve, cpu < 0.6 and can_double]
        found.append(round(ready) << exponent)
    return found


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 0.0, 0.01, 0.05, 0.06, 3.0]),
            st.sampled_from([None, 0.1, 0.6, 0.9]),
            st.sampled_from([None, 0, 1, 4]),
        ).map(list),
        max_size=40,
    )
)
def test_histories_agree(rows: list[list[float | None]]) -> None:
    controller = DynamicBatchParams().make(SITE, seed=0)
    assert limits(controller, looks_of(rows)) == reference(rows)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_a_slow_gateway_with_an_idle_cpu_swings_for_ever() -> None:
    controller = DynamicBatchParams().make(SITE, seed=0)
    rows: list[list[float | None]] = [[5.0, 0.1, 1]] * 100
    assert limits(controller, looks_of(rows)) == [16, 32] * 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latency_limit_s": 0.0}, r"latency_limit_s is 0\.0"),
        ({"cpu_limit": 1.1}, r"cpu_limit is 1\.1"),
        ({"start_size": 0}, "start_size is 0, expected 1-256"),
        ({"start_size": 257}, "start_size is 257"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DynamicBatchParams(**changes)
