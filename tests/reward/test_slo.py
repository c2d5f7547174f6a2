"""What counts as a violation, with every combination of missing data decided."""

import itertools
import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS, Rows
from gatepilot.envs.schema.snapshot import MetricsSnapshot
from gatepilot.reward.slo import Slo

NAN = math.nan
DEFAULT = Slo()
HEALTHY = {
    "replicas_requested": 4.0,
    "replicas_draining": 0.0,
    "breaker_threshold": 0.5,
    "ttft_p95_s": 0.5,
    "error_rate": 0.0,
    "request_rate_rps": 10.0,
    "waiting": 0.0,
    "running": 5.0,
    "samples": 600.0,
    "e2e_p95_s": 9.0,
}
IDLE = {
    "ttft_p95_s": NAN,
    "error_rate": NAN,
    "e2e_p95_s": NAN,
    "request_rate_rps": 0.0,
    "waiting": 0.0,
    "running": 0.0,
    "samples": 0.0,
}


def row(**values: float) -> Rows:
    cells = np.full(len(FIELDS), NAN)
    for name, value in (HEALTHY | values).items():
        cells[FIELD_INDEX[name]] = value
    return cells


def violates(slo: Slo = DEFAULT, /, **values: float) -> bool:
    return bool(slo.violates(row(**values)))


def test_the_defaults_are_the_documents() -> None:
    assert (Slo().latency, Slo().latency_limit_s, Slo().error_rate_limit) == (
        "ttft_p95_s",
        0.8,
        0.02,
    )


@pytest.mark.parametrize(
    ("latency_s", "error_rate", "expected"),
    [
        (0.8, 0.02, False),  # at both limits: kept
        (np.nextafter(0.8, 1), 0.0, True),
        (0.1, np.nextafter(0.02, 1), True),
        (80.0, 1.0, True),
        (0.0, 0.0, False),
        (math.inf, 0.0, True),
    ],
)
def test_over_a_limit_violates_and_at_a_limit_does_not(
    latency_s: float, error_rate: float, expected: bool
) -> None:
    assert violates(ttft_p95_s=latency_s, error_rate=error_rate) is expected


def test_shed_traffic_is_error_rate_and_violates_whatever_the_latency() -> None:
    assert violates(error_rate=1.0, ttft_p95_s=NAN, samples=0.0, waiting=0.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # P95 missing
        ({"ttft_p95_s": NAN, "samples": 0.0}, True),  # arrivals, no first token
        ({"ttft_p95_s": NAN, "samples": 5.0}, True),  # first tokens, yet no P95: data is lost
        ({"ttft_p95_s": NAN, "samples": NAN}, True),
        ({"ttft_p95_s": NAN, "samples": 0.0, "request_rate_rps": 0.0}, False),
        ({"ttft_p95_s": NAN, "samples": 0.0, "request_rate_rps": 0.0, "waiting": 3.0}, True),
        ({"ttft_p95_s": NAN, "samples": 0.0, "request_rate_rps": 0.0, "waiting": NAN}, True),
        ({"ttft_p95_s": NAN, "samples": 0.0, "request_rate_rps": NAN}, True),
        ({"ttft_p95_s": NAN, "samples": 2.0, "request_rate_rps": 0.0}, True),
        ({"ttft_p95_s": NAN, "samples": NAN, "request_rate_rps": 0.0}, True),
        # error rate missing
        ({"error_rate": NAN}, True),  # arrivals, no answer ended
        ({"error_rate": NAN, "request_rate_rps": NAN}, True),
        ({"error_rate": NAN, "request_rate_rps": 0.0}, False),  # first tokens of earlier arrivals
        ({"error_rate": NAN, "request_rate_rps": 0.0, "waiting": 1.0}, True),
        ({"error_rate": NAN, "request_rate_rps": 0.0, "waiting": NAN}, True),
        # both missing
        (IDLE, False),  # no traffic
        (IDLE | {"running": 2.0}, False),  # long answers of earlier arrivals still stream
        (IDLE | {"request_rate_rps": 0.1}, True),  # arrivals and no answer at all
        (dict.fromkeys(IDLE, NAN), True),  # nothing is known
        # known values count whatever else is missing
        (dict.fromkeys(IDLE, NAN) | {"ttft_p95_s": 0.9}, True),
        (IDLE | {"ttft_p95_s": 0.9}, True),
        (IDLE | {"error_rate": 0.5}, True),
        # traffic figures alone may be missing: both values are known and kept
        ({"request_rate_rps": NAN, "waiting": NAN, "samples": NAN, "running": NAN}, False),
    ],
)
def test_missing_data_is_excused_only_where_there_was_nothing_to_measure(
    values: dict[str, float], expected: bool
) -> None:
    assert violates(DEFAULT, **values) is expected


def test_losing_a_value_never_turns_a_violation_into_success() -> None:
    cases = {
        "ttft_p95_s": (0.5, 0.9),
        "error_rate": (0.0, 0.5),
        "request_rate_rps": (0.0, 10.0),
        "waiting": (0.0, 3.0),
        "samples": (0.0, 30.0),
    }
    for values in itertools.product(*[(*known, NAN) for known in cases.values()]):
        full = dict(zip(cases, values, strict=True))
        # What is lost breaks no limit by itself, so only the evidence of traffic is taken away.
        evidence = [n for n in ("request_rate_rps", "waiting", "samples") if full[n] == full[n]]
        for lost in evidence:
            assert violates(DEFAULT, **full) <= violates(DEFAULT, **full | {lost: NAN})


def test_unanswered_and_breaches_tell_missing_from_broken() -> None:
    rows = np.stack([row(), row(ttft_p95_s=0.9), row(error_rate=NAN), row(**IDLE)])
    assert Slo().breaches(rows).tolist() == [False, True, False, False]
    assert Slo().unanswered(rows).tolist() == [False, False, True, False]
    assert Slo().violates(rows).tolist() == [False, True, True, False]


def test_the_latency_kind_and_both_limits_are_configuration() -> None:
    slo = Slo(latency="e2e_p95_s", latency_limit_s=10.0, error_rate_limit=0.001)
    assert not violates(slo, ttft_p95_s=5.0)
    assert violates(slo, e2e_p95_s=10.5)
    assert violates(slo, error_rate=0.002)
    assert violates(slo, e2e_p95_s=NAN)
    assert not violates(slo, **IDLE)
    assert violates(slo, **IDLE | {"running": 1.0})  # an answer of before the window still runs


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.lists(
            st.sampled_from([NAN, 0.0, 0.01, 0.5, 0.9, 10.0]),
            min_size=len(FIELDS),
            max_size=len(FIELDS),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_one_row_alone_is_judged_as_in_a_batch(values: list[list[float]]) -> None:
    rows = np.array(values)
    batched = Slo().violates(rows)
    assert batched.shape == (len(rows),)
    assert batched.dtype == np.bool_
    assert [bool(Slo().violates(one)) for one in rows] == batched.tolist()


def test_a_snapshot_of_nothing_but_what_is_always_known_violates() -> None:
    assert Slo().violates(MetricsSnapshot(replicas_requested=4, breaker_threshold=0.5).to_row())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"latency_limit_s": 0.0}, "latency_limit_s is 0.0"),
        ({"latency_limit_s": NAN}, "latency_limit_s is nan"),
        ({"latency_limit_s": math.inf}, "latency_limit_s is inf"),
        ({"error_rate_limit": -0.1}, "error_rate_limit is -0.1"),
        ({"error_rate_limit": 1.5}, "error_rate_limit is 1.5"),
        ({"error_rate_limit": NAN}, "error_rate_limit is nan"),
        ({"latency": "tpot"}, "latency is 'tpot'"),
    ],
)
def test_limits_that_mean_nothing_are_refused(changes: dict[str, object], named: str) -> None:
    assert set(changes) <= {f.name for f in fields(Slo)}
    with pytest.raises(ValueError, match=named):
        Slo(**changes)  # type: ignore[arg-type]
