"""One finite sample or none: whatever a server says, a missing value never becomes a number."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.deploy_bridge.metrics.answer import MalformedError, judge
from gatepilot.deploy_bridge.metrics.query import Query, field_query, freshness_query

from .peers import vector

RATE = field_query("request_rate_rps", "rate{}")
ERRORS = field_query("error_rate", "errors{}")
UP = freshness_query("gateway_up", "up{}", 1, 1, "the gateway was scraped")
AT = 1_700_000_000.5


def test_one_sample_is_the_value() -> None:
    verdict = judge(RATE, vector("21.5", at_s=AT), AT)
    assert (verdict.value, verdict.at_s, verdict.problem) == (21.5, AT, None)


def test_zero_is_a_value() -> None:
    verdict = judge(ERRORS, vector("0", at_s=AT), AT)
    assert (verdict.value, verdict.problem) == (0.0, None)


@pytest.mark.parametrize(("query", "problem"), [(ERRORS, None), (RATE, "missing"), (UP, "missing")])
def test_an_empty_answer_is_a_problem_where_it_is_critical(
    query: Query, problem: str | None
) -> None:
    verdict = judge(query, [], AT)
    assert (verdict.value, verdict.problem) == (None, problem)


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "1e999"])
@pytest.mark.parametrize(("query", "problem"), [(ERRORS, None), (RATE, "not_finite")])
def test_what_is_not_finite_has_no_value(query: Query, problem: str | None, text: str) -> None:
    verdict = judge(query, vector(text, at_s=AT), AT)
    assert (verdict.value, verdict.raw, verdict.problem) == (None, None, problem)


@pytest.mark.parametrize("query", [ERRORS, RATE, UP])
def test_two_series_are_ambiguous_for_every_query(query: Query) -> None:
    verdict = judge(query, vector(1, 1, at_s=AT), AT)
    assert (verdict.value, verdict.problem) == (None, "ambiguous")
    assert "{n=0} and {n=1}" in verdict.detail


@pytest.mark.parametrize(("text", "value"), [("1.0000000000000002", 1.0), ("-1e-17", 0.0)])
def test_a_share_off_by_rounding_is_put_back(text: str, value: float) -> None:
    assert judge(ERRORS, vector(text, at_s=AT), AT).value == value


@pytest.mark.parametrize(("query", "text"), [(ERRORS, "1.01"), (ERRORS, "-0.1"), (RATE, "-1")])
def test_a_value_out_of_the_field_s_range_is_evidence_only(query: Query, text: str) -> None:
    verdict = judge(query, vector(text, at_s=AT), AT)
    assert (verdict.value, verdict.raw, verdict.problem) == (None, float(text), "out_of_range")


def test_a_failed_check_is_stale() -> None:
    verdict = judge(UP, vector(0, at_s=AT), None)
    assert (verdict.value, verdict.problem) == (None, "stale")
    assert verdict.detail == "0, expected 1 (the gateway was scraped)"


def test_an_answer_for_another_instant_is_stale() -> None:
    assert judge(RATE, vector(1, at_s=AT - 300), AT).problem == "stale"
    assert judge(RATE, vector(1, at_s=AT + 0.001), AT).problem is None


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        "text",
        [1],
        [AT, 3.0],
        [AT, "3"],
        [{"metric": {}, "value": [AT, 3.0]}],
        [{"metric": {}, "value": [math.nan, "3"]}],
        [{"metric": {}, "value": [AT]}],
        [{"metric": {}, "values": [[AT, "3"]]}],
        [{"value": [AT, "3"]}],
        [{"metric": {}, "value": [AT, "1_000"]}],
        [{"metric": {}, "value": [AT, " 1"]}],
        [{"metric": {}, "value": [AT, "infinity"]}],
        [{"metric": {}, "value": [AT, ""]}],
        [{"metric": {}, "value": [AT, "\u0661"]}],
    ],
)
def test_what_prometheus_does_not_say_is_refused(result: object) -> None:
    with pytest.raises(MalformedError):
        judge(RATE, result, AT)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)
entries = st.fixed_dictionaries(
    {
        "metric": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
        | json_values,
        "value": st.tuples(
            st.just(AT) | json_values, st.just("1.5") | st.text(max_size=6) | json_values
        ).map(list)
        | json_values,
    }
)


@given(result=json_values | st.lists(entries | json_values, max_size=3))
def test_a_value_comes_only_from_one_well_formed_sample(result: object) -> None:
    heard = json.loads(json.dumps(result))
    try:
        verdict = judge(ERRORS, heard, AT)
    except MalformedError:
        return
    if verdict.value is None:
        return
    assert math.isfinite(verdict.value)
    assert 0.0 <= verdict.value <= 1.0
    assert len(heard) == 1
    pair = heard[0]["value"]
    assert abs(float(pair[1]) - verdict.value) <= 1e-9
    assert abs(pair[0] - AT) <= 0.002
