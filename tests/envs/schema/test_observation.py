import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gatepilot.envs.schema.advice import ADVICE_ENTRIES, ADVICE_INDEX, Advice
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS, Rows
from gatepilot.envs.schema.observation import TREND_TICKS, ObservationSpec, encode

SPECS = [
    ObservationSpec(preset, stack)
    for preset in ("documented", "extended", "advised")
    for stack in (1, 4)
]
ADVISED = ObservationSpec("advised")
ALWAYS_KNOWN = [i for i, field in enumerate(FIELDS) if not field.nullable]


def history_of(values: Rows) -> Rows:
    """The newest snapshot knows what is always known."""
    history = values.copy()
    newest = history[:, -1]
    for column in ALWAYS_KNOWN:
        newest[np.isnan(newest[:, column]), column] = 0.5
    return history


def advice_of(values: Advice) -> Advice:
    """Knows what must always be known."""
    advice = values.copy()
    for i, entry in enumerate(ADVICE_ENTRIES):
        if not entry.nullable:
            advice[np.isnan(advice[:, i]), i] = 0.5
    return advice


Case = tuple[ObservationSpec, Rows, np.ndarray, Advice | None]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    spec = draw(st.sampled_from(SPECS))
    n = draw(st.integers(1, 4))
    shape = (n, spec.history_ticks, len(FIELDS))
    elements = st.sampled_from([np.nan, 0.0, 1e-9, 0.02, 0.8, 1.0, 7.5, 1e4, 1e300, np.inf])
    values = draw(hnp.arrays(np.float64, shape, elements=elements, fill=elements))
    ages = draw(hnp.arrays(np.int64, (n,), elements=st.integers(0, 10_000)))
    if not spec.is_advised:
        return spec, history_of(values), ages, None
    sizes = st.sampled_from([np.nan, 0.0, 0.1, 3.0, 64.0, 1e300, np.inf, -2.0, -1e300])
    advice = draw(hnp.arrays(np.float64, (n, len(ADVICE_ENTRIES)), elements=sizes, fill=sizes))
    return spec, history_of(values), ages, advice_of(advice)


@settings(deadline=None, max_examples=150)
@given(cases())
def test_every_entry_is_finite_and_within_the_declared_bounds(
    case: Case,
) -> None:
    spec, history, ages, advice = case
    observation = encode(history, ages, spec, advice)
    assert observation.dtype == np.float32
    assert observation.shape == (len(history), len(spec.entries)) == (len(history), spec.low.size)
    assert np.isfinite(observation).all()
    assert (observation >= spec.low).all()
    assert (observation <= spec.high).all()


@settings(deadline=None, max_examples=150)
@given(cases())
def test_missing_is_0_with_its_flag_down_and_known_has_its_flag_up(
    case: Case,
) -> None:
    spec, history, ages, advice = case
    observation = encode(history, ages, spec, advice)
    for column in spec.flag_columns:
        name = FIELDS[column].name
        for age in range(spec.frame_stack):
            suffix = f"[-{age}]" if age else ""
            missing = np.isnan(history[:, -1 - age, column])
            flags = observation[:, spec.entries.index(f"{name}_known{suffix}")]
            values = observation[:, spec.entries.index(name + suffix)]
            np.testing.assert_array_equal(flags, ~missing)
            assert (values[missing] == 0).all()
    for i, entry in enumerate(ADVICE_ENTRIES if advice is not None else ()):
        if advice is not None and entry.nullable:
            missing = np.isnan(advice[:, i])
            flags = observation[:, spec.entries.index(f"{entry.name}_known")]
            np.testing.assert_array_equal(flags, ~missing)
            assert (observation[missing, spec.entries.index(entry.name)] == 0).all()


@settings(deadline=None, max_examples=100)
@given(cases())
def test_one_gateway_alone_sees_what_it_sees_in_a_batch(
    case: Case,
) -> None:
    spec, history, ages, advice = case
    batched = encode(history, ages, spec, advice)
    for i in range(len(history)):
        own = None if advice is None else advice[i : i + 1]
        np.testing.assert_array_equal(
            encode(history[i : i + 1], ages[i : i + 1], spec, own)[0], batched[i]
        )


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_entries_are_unique_and_stacked_newest_last(spec: ObservationSpec) -> None:
    assert len(set(spec.entries)) == len(spec.entries)
    marks = np.arange(spec.history_ticks) / 100
    history = np.full((1, spec.history_ticks, len(FIELDS)), np.nan)
    history[0, :, FIELD_INDEX["cpu_utilization"]] = marks
    advice = np.zeros((1, len(ADVICE_ENTRIES))) if spec.is_advised else None
    observation = encode(history_of(history), np.zeros(1), spec, advice)[0]
    for age in range(spec.frame_stack):
        entry = "cpu_utilization" + (f"[-{age}]" if age else "")
        assert observation[spec.entries.index(entry)] == np.float32(marks[-1 - age])


def test_documented_shows_the_documents_state_and_the_threshold() -> None:
    spec = ObservationSpec("documented")
    assert spec.entries[:6] == (
        "cpu_utilization",
        "ttft_p95_s",
        "error_rate",
        "replicas_requested",
        "vram_utilization",
        "breaker_threshold",
    )
    assert spec.history_ticks == 1


def test_extended_shows_every_field() -> None:
    assert {field.name for field in FIELDS} <= set(ObservationSpec("extended").entries)


def test_a_trend_is_the_change_of_the_scaled_value_and_0_if_either_end_is_missing() -> None:
    spec = ObservationSpec("extended")
    history = np.full((3, spec.history_ticks, len(FIELDS)), np.nan)
    column = FIELD_INDEX["request_rate_rps"]
    history[0, -1, column], history[0, -1 - TREND_TICKS, column] = 1000.0, 0.0
    history[1, -1, column] = 1000.0
    history[2, -1 - TREND_TICKS, column] = 1000.0
    observation = encode(history_of(history), np.zeros(3), spec)
    entry = spec.entries.index("request_rate_rps_change")
    np.testing.assert_array_equal(observation[:, entry], np.array([1, 0, 0]))


def test_the_age_of_the_last_change_grows_to_1_and_stays() -> None:
    spec = ObservationSpec("extended")
    history = history_of(np.full((4, spec.history_ticks, len(FIELDS)), np.nan))
    ages = encode(history, np.array([0, 1, 40, 4000]), spec)[:, -1]
    assert ages[0] == 0
    assert 0 < ages[1] < 1
    np.testing.assert_array_equal(ages[2:], np.array([1, 1]))


def test_a_newest_snapshot_without_what_is_always_known_is_refused() -> None:
    spec = ObservationSpec("documented")
    with pytest.raises(ValueError, match="replicas_requested, breaker_threshold missing"):
        encode(np.full((2, 1, len(FIELDS)), np.nan), np.zeros(2), spec)


@pytest.mark.parametrize("shape", [(1, len(FIELDS)), (1, 2, len(FIELDS)), (1, 1, 3)])
def test_a_history_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="history has shape"):
        encode(np.zeros(shape), np.zeros(1), ObservationSpec("documented"))


# --- advice -------------------------------------------------------------------------------------


def test_advised_is_extended_and_behind_it_the_advice() -> None:
    extended = ObservationSpec("extended", 3)
    advised = ObservationSpec("advised", 3)
    assert advised.history_ticks == extended.history_ticks
    behind = len(extended.entries)
    assert advised.entries[:behind] == extended.entries
    names = [entry.name for entry in ADVICE_ENTRIES]
    known = [f"{entry.name}_known" for entry in ADVICE_ENTRIES if entry.nullable]
    assert list(advised.entries[behind:]) == names + known
    rng = np.random.default_rng(0)
    history = history_of(rng.uniform(0, 1, (4, extended.history_ticks, len(FIELDS))))
    shown = encode(history, np.arange(4), advised, np.ones((4, len(ADVICE_ENTRIES))))
    np.testing.assert_array_equal(shown[:, :behind], encode(history, np.arange(4), extended))
    assert advised.low[advised.entries.index("replicas_gap")] == -1


def test_advice_stands_where_its_name_does() -> None:
    advice = np.full((1, len(ADVICE_ENTRIES)), np.nan)
    advice[0, ADVICE_INDEX["replicas_wanted"]] = 8.0
    advice[0, ADVICE_INDEX["replicas_gap"]] = -32.0
    advice[0, ADVICE_INDEX["threshold_gap"]] = -0.4
    advice[0, ADVICE_INDEX["work_mean"]] = 64.0
    history = history_of(np.full((1, ADVISED.history_ticks, len(FIELDS)), np.nan))
    shown = dict(
        zip(ADVISED.entries, encode(history, np.zeros(1), ADVISED, advice)[0], strict=True)
    )
    assert (shown["replicas_wanted"], shown["replicas_gap"]) == (0.25, -1.0)
    assert shown["threshold_gap"] == np.float32(-0.4)
    assert (shown["work_mean"], shown["work_mean_known"]) == (1.0, 1.0)
    assert (shown["decode_work"], shown["decode_work_known"]) == (0.0, 0.0)


def test_advice_is_given_exactly_where_it_is_shown() -> None:
    advice = np.zeros((1, len(ADVICE_ENTRIES)))
    for spec in SPECS:
        history = history_of(np.full((1, spec.history_ticks, len(FIELDS)), np.nan))
        wrong = None if spec.is_advised else advice
        given = "none" if spec.is_advised else "some"
        with pytest.raises(ValueError, match=f"'{spec.preset}' was given {given} advice"):
            encode(history, np.zeros(1), spec, wrong)


def test_advice_of_another_shape_or_without_what_is_always_known_is_refused() -> None:
    history = history_of(np.full((2, ADVISED.history_ticks, len(FIELDS)), np.nan))
    with pytest.raises(ValueError, match=r"advice has shape \(1, 8\), expected \(2, 8\)"):
        encode(history, np.zeros(2), ADVISED, np.zeros((1, len(ADVICE_ENTRIES))))
    advice = np.zeros((2, len(ADVICE_ENTRIES)))
    advice[1, ADVICE_INDEX["replicas_gap"]] = np.nan
    with pytest.raises(ValueError, match="advice replicas_gap is unknown"):
        encode(history, np.zeros(2), ADVISED, advice)


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="observation preset 'everything'"):
        ObservationSpec("everything")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="frame_stack is 0"):
        ObservationSpec(frame_stack=0)
