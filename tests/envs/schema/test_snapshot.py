import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.schema.fields import FIELDS
from gatepilot.envs.schema.snapshot import MetricsSnapshot

KNOWN = MetricsSnapshot(replicas_requested=4, breaker_threshold=0.5)
NAMES = [field.name for field in FIELDS]

values = st.floats(0, 1e12, allow_nan=False)
snapshots = st.fixed_dictionaries(
    {f.name: values | st.none() if f.nullable else values for f in FIELDS}
).map(lambda known: MetricsSnapshot(**known))  # type: ignore[arg-type]


def test_attributes_are_exactly_the_fields() -> None:
    assert sorted(f.name for f in fields(MetricsSnapshot)) == sorted(NAMES)


@settings(deadline=None, max_examples=100)
@given(snapshots)
def test_row_and_back_is_the_same_snapshot(snapshot: MetricsSnapshot) -> None:
    assert MetricsSnapshot.from_row(snapshot.to_row()) == snapshot


@settings(deadline=None, max_examples=100)
@given(snapshots)
def test_missing_is_nan_and_never_0(snapshot: MetricsSnapshot) -> None:
    row = snapshot.to_row()
    assert row.shape == (len(FIELDS),)
    assert row.dtype == np.float64
    for name, value in zip(NAMES, row, strict=True):
        known = getattr(snapshot, name)
        assert math.isnan(value) if known is None else value == known


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e-9])
def test_what_no_source_may_report_is_refused_by_name_and_value(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        replace(KNOWN, **{name: value})


@pytest.mark.parametrize("name", ["replicas_requested", "breaker_threshold"])
def test_what_is_always_known_may_not_be_missing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is missing"):
        replace(KNOWN, **{name: None})  # type: ignore[arg-type]
    row = KNOWN.to_row()
    row[NAMES.index(name)] = math.nan
    with pytest.raises(ValueError, match=f"{name} is missing"):
        MetricsSnapshot.from_row(row)


def test_a_value_beyond_the_range_is_kept_as_it_is() -> None:
    assert replace(KNOWN, ttft_p95_s=90.0).ttft_p95_s == 90.0


@pytest.mark.parametrize("shape", [(3,), (1, len(FIELDS)), (len(FIELDS) + 1,)])
def test_a_row_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a snapshot row has shape"):
        MetricsSnapshot.from_row(np.zeros(shape))
