"""A reading with any reason against it is refused, and only such a one."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from gatepilot.deploy_bridge.decision import Doubt, Verdict
from gatepilot.deploy_bridge.guardrails.freshness import CRITICAL_FIELDS, Freshness
from gatepilot.deploy_bridge.guardrails.guardrail import Context
from gatepilot.deploy_bridge.metrics import query

from ..kit import GOOD_VALUES, LIMITS


def verdict(values: Mapping[str, float], *problems: Doubt) -> Verdict:
    return Freshness().judge(None, Context(values, problems, LIMITS), None)[0]


def test_a_good_reading_passes() -> None:
    assert verdict(GOOD_VALUES).result == "pass"


def test_what_may_be_missing_may_be_missing() -> None:
    assert verdict({name: GOOD_VALUES[name] for name in CRITICAL_FIELDS}).result == "pass"


@pytest.mark.parametrize("name", CRITICAL_FIELDS)
def test_each_critical_quantity_is_needed(name: str) -> None:
    found = verdict({k: v for k, v in GOOD_VALUES.items() if k != name})
    assert found.result == "veto"
    assert [(doubt.kind, doubt.what) for doubt in found.doubts] == [("missing", name)]


def test_the_sources_and_the_guardrail_hold_the_same_quantities_critical() -> None:
    assert set(CRITICAL_FIELDS) == set(query.CRITICAL_FIELDS)


@pytest.mark.parametrize("kind", ["unreachable", "deadline", "stale", "ambiguous", "warning"])
def test_a_source_that_doubts_itself_is_believed(kind: str) -> None:
    doubt = Doubt(kind, "gateway_up", "told so")
    assert verdict(GOOD_VALUES, doubt).doubts == (doubt,)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["request_rate_rps", "kv_usage"])
def test_no_quantity_may_be_infinite_or_nan(name: str, value: float) -> None:
    found = verdict({**GOOD_VALUES, name: value})
    assert [(doubt.kind, doubt.what) for doubt in found.doubts] == [("not_finite", name)]


def test_a_value_below_its_range_or_of_no_field_is_refused() -> None:
    found = verdict({**GOOD_VALUES, "waiting": -1.0, "waitingx": 3.0})
    assert [(doubt.kind, doubt.what) for doubt in found.doubts] == [
        ("out_of_range", "waiting"),
        ("out_of_range", "waitingx"),
    ]
