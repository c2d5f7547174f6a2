"""The token breaker: golden vectors, a second implementation, its quirks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.site import Site
from gatepilot.agents.baselines.token_breaker import (
    Base,
    TokenBreakerParams,
    admitted_share,
    trips,
)
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("token_breaker")
SITE = Site(Limits(1, 8))
Row = list[float | None]


def looks_of(rows: list[Row]) -> list[Any]:
    return [
        look(ttft_p95_s=seconds, tokens=tokens, running=flying, waiting=0.0)
        for seconds, tokens, flying in rows
    ]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["trips"])
def test_trips(vector: dict[str, Any]) -> None:
    params = TokenBreakerParams(**vector.get("params", {}))
    base = Base(2.0, 1000.0, 80.0, 40)
    found = trips(params, base, vector["latency_s"], vector["tokens_tps"])
    assert found is vector["wanted"], vector["why"]


@each(VECTORS["stages"])
def test_stage(vector: dict[str, Any]) -> None:
    params = TokenBreakerParams(**vector.get("params", {}))
    assert admitted_share(params, vector["passed_s"]) == vector["wanted"], vector["why"]


@each(VECTORS["bases"])
def test_base(vector: dict[str, Any]) -> None:
    base = Base()
    for one in vector["looks"]:
        base.learn(one[0], one[1], one[2], vector["span"])
    found = [base.latency_s, base.tokens_tps, base.in_flight]
    assert found == pytest.approx(vector["wanted"]), vector["why"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    controller = TokenBreakerParams(**vector["params"]).make(
        Site(Limits(1, 8), vector["tick_s"]), seed=0
    )
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------


def reference(params: TokenBreakerParams, rows: list[Row], start: int | None) -> list[int | None]:
    """Weighs all that was learned anew at each look, and lays the stages out as a table."""
    found: list[int | None] = [start] * len(rows)
    span = max(1, round(params.base_s / 15))
    learned: list[list[float]] = []
    now = 0
    while now < len(rows):
        row = [value for value in rows[now] if value is not None]
        if len(row) < 3 or not row[0]:
            now += 1
            continue
        n = len(learned)
        late = [2 / (span + 1) * (1 - 2 / (span + 1)) ** (n - 1 - i) for i in range(span, n)]
        first = (1 - sum(late)) / max(1, min(n, span))
        weights = np.array([first] * min(n, span) + late)
        base = weights @ np.array(learned) if n else np.zeros(3)
        is_slow, is_silent = row[0] > 3 * base[0], row[1] < 0.1 * base[1]
        if n >= 4 and is_slow and is_silent:
            for i in range(now, len(rows)):
                passed = 15.0 * (i - now)
                table = [(params.open_s, 0.0), (params.stage_s, 0.1), (params.stage_s, 0.5)]
                ends = np.cumsum([length for length, _ in table])
                stage = int(np.searchsorted(ends, passed + 1e-6, side="right"))
                if stage == 3:
                    now = i + 3  # blind for 60 s after the look that let all in
                    break
                wanted = math.ceil(round(table[stage][1] * base[2], 9))
                found[i] = max(1, wanted) if stage else 0
            else:
                now = len(rows)
        else:
            learned.append(row)
        now += 1
    return found


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            [[2.0, 1000.0, 80.0]] * 4
            + [[1.0, 700.0, 31.0], [20.0, 5.0, 300.0], [20.0, 5.0, 80.0], [20.0, 900.0, 90.0]]
            + [[None, 5.0, 80.0], [0.0, 5.0, 80.0], [2.0, None, 80.0], [2.0, 1000.0, None]]
        ),
        max_size=60,
    ),
    st.sampled_from([0.1, 30.0]),
    st.sampled_from([15.0, 60.0]),
    st.sampled_from([75.0, 600.0]),
)
def test_histories_agree(rows: list[Row], open_s: float, stage_s: float, base_s: float) -> None:
    params = TokenBreakerParams(open_s=open_s, stage_s=stage_s, base_s=base_s)
    found = limits(params.make(SITE, seed=0), looks_of(rows), 400)
    assert found == reference(params, rows, 400)


# --- known quirks -------------------------------------------------------------------------------

USUAL: Row = [2.0, 1000.0, 80.0]
STALLED: Row = [20.0, 10.0, 80.0]


def test_quirk_the_stages_go_on_however_bad_it_is() -> None:
    controller = TokenBreakerParams().make(SITE, seed=0)
    found = limits(controller, looks_of([USUAL] * 4 + [STALLED] * 10))
    assert found[4:] == [0, 8, 8, 8, 8, 40, 40, 40, 40, None]


def test_quirk_a_slow_drift_becomes_the_base() -> None:
    """Latency doubles again and again, tokens halve: each step is within its bounds."""
    controller = TokenBreakerParams(base_s=60.0).make(SITE, seed=0)
    rows: list[Row] = [[2.0 * 1.1**i, 1000.0 * 0.9**i, 80.0] for i in range(60)]
    assert set(limits(controller, looks_of(rows))) == {None}


def test_quirk_a_gateway_without_traffic_never_trips_it() -> None:
    controller = TokenBreakerParams().make(SITE, seed=0)
    nothing: Row = [None, 0.0, 0.0]
    assert set(limits(controller, looks_of([USUAL] * 4 + [nothing] * 20))) == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"silent_share": 1.1}, r"silent_share is 1\.1"),
        ({"slow_ratio": 0.0}, r"slow_ratio is 0\.0"),
        ({"open_s": 0.0}, r"open_s is 0\.0"),
        ({"stage_s": float("nan")}, "stage_s is nan"),
        ({"base_s": 0.0}, r"base_s is 0\.0"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenBreakerParams(**changes)
