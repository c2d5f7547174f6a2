"""The adaptive limiter: golden vectors, a second implementation, its quirk."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.adaptive_limiter import (
    AdaptiveLimiterParams,
    allowed_rps,
    outstanding_limit,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("adaptive_limiter")
SITE = Site(Limits(1, 8))


def looks_of(rows: list[list[float | None]]) -> list[Any]:
    names = ("e2e_p95_s", "error_rate", "replicas_ready")
    return [look(dict(zip(names, row, strict=True))) for row in rows]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["rates"])
def test_rate(vector: dict[str, Any]) -> None:
    found = allowed_rps(vector["full_rps"], vector["error_rate"])
    assert found == pytest.approx(vector["wanted"]), vector["why"]


@each(VECTORS["outstanding"])
def test_outstanding(vector: dict[str, Any]) -> None:
    found = outstanding_limit(vector["rate_rps"], vector["latency_s"])
    assert found == vector["wanted"], vector["why"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    controller = AdaptiveLimiterParams(**vector["params"]).make(SITE, seed=0)
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 4000), st.integers(0, 1000), st.integers(1, 12), st.integers(1, 80))
def test_looks_agree_with_exact_arithmetic(
    centiseconds: int, error_permille: int, ready: int, eighths: int
) -> None:
    """The second implementation counts in eighths of a request a second, exactly."""
    good = max(0, 1000 - 2 * error_permille)
    exact = Fraction(eighths * ready * good * centiseconds, 8 * 1000 * 100)
    controller = AdaptiveLimiterParams(eighths / 8).make(SITE, seed=0)
    shown = looks_of([[centiseconds / 100, error_permille / 1000, float(ready)]])
    (found,) = limits(controller, shown)
    allowed = {max(1, int(exact))}
    if exact.denominator == 1:  # binary noise may cost one at a whole number
        allowed.add(max(1, int(exact) - 1))
    assert found in allowed


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_its_own_rejections_lock_it_in() -> None:
    """Ten a second for 8 s against two replicas of two a second: rejections feed on themselves."""
    controller = AdaptiveLimiterParams().make(SITE, seed=0)
    limit, error_rate = 1000, 0.0
    history = []
    for _ in range(10):
        shown = look(e2e_p95_s=8.0, error_rate=error_rate, replicas_ready=2.0)
        (after,) = limits(controller, [shown], limit)
        assert after is not None
        limit = after
        error_rate = max(0.0, 1 - limit / 80)  # of 80 that would be in flight
        history.append(limit)
    assert history[:3] == [32, 1, 1]
    assert history[-1] == 1


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf")])
def test_a_rate_that_means_nothing_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"replica_rps is {rate}"):
        AdaptiveLimiterParams(rate)
