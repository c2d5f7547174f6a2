"""The anomaly detector, a pure rule: golden vectors, a second implementation, no registration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.agents.baselines.anomaly_detector import AnomalyParams, anomaly_score
from gatepilot.agents.baselines.registry import controller_names
from gatepilot.envs.schema.fields import FIELDS

from .looks import each, vectors_of

VECTORS = vectors_of("anomaly_detector")
SCORES = {"": 0, "c": 40, "e": 35, "r": 25, "ce": 75, "cr": 65, "er": 60, "cer": 100}
"""Percent, by the flags that are raised."""


def test_there_are_enough_vectors() -> None:
    assert len(VECTORS["scores"]) >= 25


@each(VECTORS["scores"])
def test_score(vector: dict[str, Any]) -> None:
    params = AnomalyParams(**vector.get("params", {}))
    found = anomaly_score(params, vector["confidence"], vector["entropy"], vector["rate_tps"])
    if vector["wanted"] is None:
        assert found is None, vector["why"]
    else:
        assert found == pytest.approx(vector["wanted"]), vector["why"]


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 200))
def test_the_score_is_looked_up_by_the_flags(percent: int, tenths: int, rate: int) -> None:
    flags = "c" * (percent < 65) + "e" * (tenths > 42) + "r" * (rate < 80)
    found = anomaly_score(AnomalyParams(), percent / 100, tenths / 10, rate / 10)
    assert found == pytest.approx(SCORES[flags] / 100)


def test_it_is_no_controller_for_the_contract_has_neither_confidence_nor_entropy() -> None:
    assert "anomaly_detector" not in controller_names()
    assert not [f for f in FIELDS if "confidence" in f.name or "entropy" in f.name]
