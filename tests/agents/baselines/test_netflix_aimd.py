"""Netflix's AIMD limit: golden vectors, a second implementation, its quirks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.netflix_aimd import NetflixAimdParams, aimd_limit
from gatepilot.agents.baselines.request_sample import RequestSample
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("netflix_aimd")
SITE = Site(Limits(1, 8))


def looks_of(rows: list[list[float | None]]) -> list[Any]:
    names = ("e2e_p95_s", "running", "waiting", "error_rate")
    return [look(dict(zip(names, row, strict=True))) for row in rows]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["samples"])
def test_sample(vector: dict[str, Any]) -> None:
    sample = RequestSample(vector["rtt_s"], vector["in_flight"], vector["is_drop"])
    params = NetflixAimdParams(**vector.get("params", {}))
    assert aimd_limit(params, vector["limit"], sample) == vector["wanted"], vector["why"]


@each(VECTORS["histories"])
def test_history(vector: dict[str, Any]) -> None:
    controller = NetflixAimdParams(**vector["params"]).make(SITE, seed=0)
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------


def reference(params: NetflixAimdParams, rows: list[list[float | None]]) -> list[int | None]:
    """Scans all that came before at each look, and counts in ranges of allowed limits."""
    found: list[int | None] = []
    for now in range(len(rows)):
        known = [row for row in rows[: now + 1] if None not in row and row[0]]
        if not known or known[-1] is not rows[now]:
            found.append(found[-1] if found else None)
            continue
        allowed = range(params.min_limit, params.max_limit + 1)
        limit, errors = params.initial_limit, 0.0
        for rtt, running, waiting, error_rate in known:
            assert rtt is not None
            assert running is not None
            assert waiting is not None
            assert error_rate is not None
            if rtt > params.timeout_s or error_rate > errors:
                wish = params.backoff_ratio * limit // 1
            else:
                wish = limit + (2 * round(running + waiting) >= limit)
            limit = min(allowed, key=lambda one: abs(one - wish))
            errors = error_rate
        found.append(limit)
    return found


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 0.0, 1.0, 4.9, 5.0, 5.1, 30.0]),
        st.none() | st.integers(0, 120),
        st.sampled_from([None, 0, 0, 7]),
        st.sampled_from([None, 0.0, 0.0, 0.1, 0.5]),
    ).map(list),
    max_size=40,
)


@settings(deadline=None, max_examples=300)
@given(ROWS, st.integers(1, 250), st.sampled_from([0.5, 0.57, 0.9, 0.99]))
def test_histories_agree(
    rows: list[list[float | None]], initial_limit: int, backoff_ratio: float
) -> None:
    params = NetflixAimdParams(initial_limit, 20, 100, backoff_ratio)
    assert limits(params.make(SITE, seed=0), looks_of(rows)) == reference(params, rows)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_the_bounds_move_a_limit_that_nothing_else_moves() -> None:
    params = NetflixAimdParams(initial_limit=10)
    assert aimd_limit(params, 10, RequestSample(1.0, 0)) == 20


def test_quirk_half_used_is_used() -> None:
    assert aimd_limit(NetflixAimdParams(), 100, RequestSample(1.0, 50)) == 101


def test_quirk_an_llm_slower_than_the_time_out_stays_at_the_lower_bound() -> None:
    """praxis-proxy/ai#90: a time-out made for HTTP takes every answer for a failure."""
    controller = NetflixAimdParams().make(SITE, seed=0)
    rows: list[list[float | None]] = [[12.0, 15, 0, 0.0]] * 40
    assert set(limits(controller, looks_of(rows))) == {20}


def test_quirk_rejections_of_its_own_count_as_drops_while_they_rise() -> None:
    """Load above the limit: more is rejected, the failed share rises, the limit is cut again."""
    controller = NetflixAimdParams(initial_limit=100).make(SITE, seed=0)
    rows: list[list[float | None]] = [[2.0, 100, 0, 0.1 * i] for i in range(1, 8)]
    found = limits(controller, looks_of(rows))
    assert found == [90, 81, 72, 64, 57, 51, 45]
    level: list[list[float | None]] = [[2.0, 45, 0, 0.7]] * 3
    assert limits(controller, looks_of(level)) == [46, 47, 48]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backoff_ratio": 0.49}, r"backoff_ratio is 0\.49"),
        ({"backoff_ratio": 1.0}, r"backoff_ratio is 1\.0"),
        ({"timeout_s": 0.0}, r"timeout_s is 0\.0"),
        ({"min_limit": 0}, "min_limit 0"),
        ({"min_limit": 300}, "min_limit 300, max_limit 200"),
        ({"initial_limit": 0}, "initial_limit 0"),
    ],
)
def test_what_upstream_refuses_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetflixAimdParams(**changes)
