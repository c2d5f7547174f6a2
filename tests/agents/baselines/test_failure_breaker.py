"""The failure breaker: golden vectors, a second implementation, its quirks, its complaints."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.failure_breaker import FailureBreakerParams, trips
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .looks import each, limits, look, vectors_of

VECTORS = vectors_of("failure_breaker")
SITE = Site(Limits(1, 8))
Row = list[float | None]


def looks_of(rows: list[Row]) -> list[Any]:
    return [look(request_rate_rps=rate, error_rate=share) for rate, share in rows]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["trips"])
def test_trips(vector: dict[str, Any]) -> None:
    params = FailureBreakerParams(**vector.get("params", {}))
    found = trips(params, vector["failures"], vector["consecutive"], vector["calls"])
    assert found is vector["wanted"], vector["why"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    controller = FailureBreakerParams(**vector["params"]).make(
        Site(Limits(1, 8), vector["tick_s"]), seed=0
    )
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(st.text("FS", max_size=40), st.integers(0, 8), st.integers(0, 9))
def test_calls_one_by_one_agree(calls: str, failures: int, tenths: int) -> None:
    params = FailureBreakerParams(failures=failures, share=tenths / 10)
    run = len(calls) - len(calls.rstrip("F"))
    exact = calls.count("F") > failures and Fraction(run, len(calls)) > Fraction(tenths, 10)
    assert trips(params, calls.count("F"), run, len(calls)) is exact


def reference(
    params: FailureBreakerParams, tick_s: float, rows: list[Row], start: int | None
) -> list[int | None]:
    """Marks whole stretches of looks at once: open ones, then blind ones."""
    found: list[int | None] = [start] * len(rows)
    open_looks = -int(-params.open_s // tick_s)
    blind_looks = -int(-SITE.window_s // tick_s)
    now = 0
    while now < len(rows):
        rate, share = rows[now]
        if rate and share and rate * 60 * share > params.failures and share > params.share:
            found[now : now + open_looks] = [0] * len(found[now : now + open_looks])
            now += open_looks + blind_looks
        else:
            now += 1
    return found


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 0.0, 0.1, 5.0]), st.sampled_from([None, 0.0, 0.3, 0.6, 1.0])
        ).map(list),
        max_size=50,
    ),
    st.sampled_from([5.0, 15.0, 30.0]),
    st.sampled_from([3.0, 30.0, 70.0]),
    st.sampled_from([None, 64]),
)
def test_histories_agree(rows: list[Row], tick_s: float, open_s: float, start: int | None) -> None:
    params = FailureBreakerParams(open_s=open_s)
    controller = params.make(Site(Limits(1, 8), tick_s), seed=0)
    assert limits(controller, looks_of(rows), start) == reference(params, tick_s, rows, start)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_one_success_in_the_middle_hides_99_failures() -> None:
    calls = "F" * 50 + "S" + "F" * 49
    run = len(calls) - len(calls.rstrip("F"))
    assert not trips(FailureBreakerParams(), 99, run, 100)


def test_quirk_the_controller_takes_all_failures_for_consecutive_ones() -> None:
    """A look knows no order, so 51 % spread evenly trips it, though no two are in a row."""
    controller = FailureBreakerParams().make(SITE, seed=0)
    assert limits(controller, looks_of([[10.0, 0.51]])) == [0]


def test_quirk_a_lasting_fault_opens_it_again_and_again_with_75_s_in_between() -> None:
    controller = FailureBreakerParams().make(SITE, seed=0)
    rows: list[Row] = [[10.0, 1.0]] * 21
    found = limits(controller, looks_of(rows))
    assert [i for i, limit in enumerate(found) if limit == 0] == [0, 5, 10, 15, 20]


def test_posthog_pr_58090_it_has_a_floor_of_volume_and_no_gradual_bypass() -> None:
    """Five failures never trip it; but it opens fully: no share of the traffic keeps probing."""
    controller = FailureBreakerParams().make(SITE, seed=0)
    assert set(limits(controller, looks_of([[0.08, 1.0]] * 40))) == {None}
    assert limits(controller, looks_of([[10.0, 1.0]])) == [0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"failures": -1}, "failures is -1"),
        ({"share": 1.0}, r"share is 1\.0"),
        ({"open_s": 0.0}, r"open_s is 0\.0"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FailureBreakerParams(**changes)
