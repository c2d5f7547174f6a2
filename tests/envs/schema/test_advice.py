"""Scales of the advice: small and large clusters are both told apart."""

import numpy as np
import pytest

from gatepilot.envs.schema.advice import (
    ADVICE_ENTRIES,
    ADVICE_INDEX,
    AdviceEntry,
    scale_advice,
)
from gatepilot.envs.schema.fields import FIELD_INDEX


def scaled(name: str, *values: float) -> list[float]:
    advice = np.zeros((len(values), len(ADVICE_ENTRIES)))
    advice[:, ADVICE_INDEX[name]] = values
    found: list[float] = scale_advice(advice)[:, ADVICE_INDEX[name]].tolist()
    return found


def test_names_are_those_of_no_field_and_come_in_order() -> None:
    names = [entry.name for entry in ADVICE_ENTRIES]
    assert not set(names) & FIELD_INDEX.keys()
    assert [ADVICE_INDEX[name] for name in names] == list(range(len(names)))


@pytest.mark.parametrize("name", ["prefill_work", "decode_work", "work_peak", "work_mean"])
def test_a_tenth_of_a_replica_and_thirty_two_are_both_visible(name: str) -> None:
    """ln(1 + x / 0.5) / ln(1 + 64 / 0.5)."""
    found = scaled(name, 0.0, 0.1, 1.0, 8.0, 9.0, 32.0, 64.0)
    by_hand = [0.0, 0.0375, 0.2261, 0.5830, 0.6059, 0.8590, 1.0]
    assert found == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize("name", ["replicas_wanted", "replicas_needed"])
def test_counts_have_the_scale_of_the_replicas_asked_for(name: str) -> None:
    assert scaled(name, 0.0, 1.0, 16.0, 32.0) == [0.0, 1 / 32, 0.5, 1.0]


def test_a_gap_of_one_replica_is_plain_either_way() -> None:
    """ln(1 + x) / ln 33, odd."""
    found = scaled("replicas_gap", -32.0, -1.0, 0.0, 1.0, 2.0, 32.0)
    assert found == pytest.approx([-1.0, -0.1982, 0.0, 0.1982, 0.3142, 1.0], abs=1e-4)


@pytest.mark.parametrize("entry", ADVICE_ENTRIES, ids=lambda entry: entry.name)
def test_what_lies_beyond_is_clipped_and_unknown_stays_unknown(entry: AdviceEntry) -> None:
    low = -1.0 if entry.is_signed else 0.0
    assert scaled(entry.name, -np.inf, -1e300, 1e300, np.inf) == [low, low, 1.0, 1.0]
    assert np.isnan(scaled(entry.name, np.nan)).all()
    rising = scaled(entry.name, *np.linspace(0, entry.high, 200))
    assert (np.diff(rising) > 0).all()


def test_a_scale_that_divides_by_zero_is_refused() -> None:
    for high, pivot in ((0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="advice x: high"):
            AdviceEntry("x", "count", high, "log", pivot, False, False, "")
