import numpy as np
import pytest

from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS, Field, scale_rows


def test_names_are_unique_and_indexed_in_order() -> None:
    assert [field.name for field in FIELDS] == list(FIELD_INDEX)
    assert list(FIELD_INDEX.values()) == list(range(len(FIELDS)))


def test_only_what_the_gateway_was_told_is_always_known() -> None:
    assert {f.name for f in FIELDS if not f.nullable} == {
        "replicas_requested",
        "breaker_threshold",
    }


def test_units_are_suffixes_and_never_milliseconds_or_percent() -> None:
    for field in FIELDS:
        assert not field.name.endswith(("_ms", "_percent"))
        if field.unit == "s":
            assert field.name.endswith("_s")


def test_scale_maps_low_to_0_and_high_to_1() -> None:
    lows = np.array([f.low for f in FIELDS])
    highs = np.array([f.high for f in FIELDS])
    np.testing.assert_array_equal(scale_rows(lows), np.zeros(len(FIELDS)))
    np.testing.assert_allclose(scale_rows(highs), np.ones(len(FIELDS)), rtol=1e-15)


def test_known_values_of_both_scales() -> None:
    row = np.full(len(FIELDS), np.nan)
    row[FIELD_INDEX["cpu_utilization"]] = 0.25
    row[FIELD_INDEX["ttft_p95_s"]] = 0.8
    scaled = scale_rows(row)
    assert scaled[FIELD_INDEX["cpu_utilization"]] == 0.25
    # log(1 + 0.8 / 0.2) / log(1 + 60 / 0.2)
    assert scaled[FIELD_INDEX["ttft_p95_s"]] == pytest.approx(np.log(5) / np.log(301), rel=1e-12)
    assert np.isnan(np.delete(scaled, [FIELD_INDEX["cpu_utilization"], 1])).all()


def test_log_scale_keeps_order_and_clips_beyond_the_range() -> None:
    rows = np.full((4, len(FIELDS)), np.nan)
    rows[:, FIELD_INDEX["error_rate"]] = [0.0, 0.02, 0.5, 7.0]
    column = scale_rows(rows)[:, FIELD_INDEX["error_rate"]]
    assert (np.diff(column) > 0).all()
    assert column[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(("low", "high", "pivot"), [(1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (0, 1, 0)])
def test_a_range_that_would_divide_by_zero_is_refused(
    low: float, high: float, pivot: float
) -> None:
    with pytest.raises(ValueError, match="field x"):
        Field("x", "s", low, high, "linear", pivot, True, "", "")
