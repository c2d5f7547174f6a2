"""Figures of loads: the tables of the traces' README are the known answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gatepilot.envs.workload.request import Requests
from gatepilot.envs.workload.statistics import load_statistics
from gatepilot.envs.workload.trace import load_trace

ARRIVALS = {
    # requests, span s, mean req/s, peaks, dispersions, local dispersions, CV of gaps
    "azure-2023-code.csv.gz": (
        *(8819, 57.3 * 60, 2.57),
        *((67, 30.0, 10.5), (13.2, 99.3, 164), (3.2, 72.3, 138), 13.15),
    ),
    "azure-2023-conv-h1.csv.gz": (
        *(9739, 29.2 * 60, 5.56),
        *((15, 8.8, 8.0), (1.3, 4.1, 12.5), (1.1, 1.2, 1.7), 1.07),
    ),
    "mooncake-conversation-h1.csv.gz": (
        *(5719, 30.0 * 60, 3.18),
        *((11, 4.5, 3.8), (1.0, 1.6, 2.4), (1.0, 1.3, 1.9), 0.98),
    ),
    "mooncake-synthetic.csv.gz": (
        *(3993, 17.0 * 60, 3.91),
        *((13, 5.0, 4.5), (1.1, 0.9, 1.2), (1.1, 0.9, 1.1), 1.01),
    ),
    "servegen-r1-24h.parquet": (
        *(344_909, 86_400, 3.99),
        *((46, 13.6, 11.9), (3.1, 18.8, 65.3), (1.8, 3.2, 4.4), 1.56),
    ),
    "servegen-mlarge-w1.parquet": (
        *(603_821, 604_800, 1.00),
        *((42, 7.7, 4.8), (2.1, 5.3, 12.6), (1.8, 2.8, 4.1), 1.34),
    ),
    "servegen-tenants-24h.parquet": (
        *(455_438, 86_400, 5.27),
        *((46, 26.3, 23.3), (4.6, 37.8, 140), (2.0, 3.6, 6.2), 1.71),
    ),
    "servegen-mmid-48h.parquet": (
        *(110_062, 172_800, 0.64),
        *((60, 11.8, 7.4), (5.7, 16.1, 34.0), (4.3, 9.2, 17.5), 1.81),
    ),
}
LENGTHS = {
    # prompt mean, p5 to p99, max; output mean, p5 to p99, max
    "azure-2023-code.csv.gz": (
        *(2048, (75, 578, 1469, 2744, 5187, 7303, 7436), 7437),
        *(28, (6, 9, 13, 24, 55, 90, 251), 1899),
    ),
    "azure-2023-conv-h1.csv.gz": (
        *(1237, (181, 398, 1035, 1200, 4075, 4086, 4122), 14_050),
        *(221, (38, 81, 140, 397, 428, 463, 611), 1000),
    ),
    "mooncake-conversation-h1.csv.gz": (
        *(12_870, (901, 2507, 7640, 16_254, 28_637, 41_792, 91_206), 123_192),
        *(346, (9, 151, 356, 476, 608, 707, 1104), 2000),
    ),
    "mooncake-synthetic.csv.gz": (
        *(15_325, (22, 277, 11_587, 23_175, 38_611, 48_904, 66_456), 191_378),
        *(149, (2, 11, 69, 250, 389, 519, 768), 893),
    ),
    "servegen-r1-24h.parquet": (
        *(1276, (13, 41, 208, 485, 2120, 6787, 23_453), 57_284),
        *(1514, (224, 428, 785, 1493, 3393, 5623, 12_478), 32_768),
    ),
    "servegen-mlarge-w1.parquet": (
        *(922, (66, 164, 636, 1023, 2378, 2402, 3819), 27_445),
        *(168, (1, 8, 51, 396, 469, 514, 744), 8192),
    ),
    "servegen-tenants-24h.parquet": (
        *(1332, (96, 365, 628, 1352, 2172, 6462, 8719), 19_401),
        *(126, (1, 12, 53, 112, 408, 504, 789), 8192),
    ),
    "servegen-mmid-48h.parquet": (
        *(474, (31, 163, 239, 480, 971, 1916, 3564), 59_861),
        *(80, (2, 11, 26, 62, 205, 478, 590), 8192),
    ),
}


def printed(value: float, digits: int) -> object:
    """Equal to what was printed, which is rounded to so many digits behind the point."""
    return pytest.approx(value, abs=0.51 * 10.0**-digits)


@pytest.mark.parametrize("name", ARRIVALS)
def test_known_answers(traces_dir: Path, name: str) -> None:
    trace = load_trace(traces_dir / name)
    # The README's range ends with the last arrival.
    found = load_statistics(replace(trace, span_s=float(trace.arrival_s[-1])))
    requests, span_s, mean, peaks, dispersions, local, gap_cv = ARRIVALS[name]
    assert found.requests == requests
    assert found.span_s == pytest.approx(span_s, abs=6)
    assert found.mean_rate_rps == printed(mean, 2)
    assert found.gap_cv == printed(gap_cv, 2)
    for i, window in enumerate(found.windows):
        assert window.peak_rate_rps == printed(peaks[i], 1)
        assert window.dispersion == printed(dispersions[i], 0 if dispersions[i] >= 100 else 1)
        assert window.local_dispersion == printed(local[i], 0 if local[i] >= 100 else 1)
    for part, (mean, quantiles, maximum) in zip(
        (found.prompt, found.output), (LENGTHS[name][:3], LENGTHS[name][3:]), strict=True
    ):
        assert part.mean == printed(mean, 0)
        # Their fractions were cut off.
        assert list(part.quantiles.values()) == pytest.approx(quantiles, abs=1.0)
        assert part.maximum == maximum


def test_tenants_and_prefixes() -> None:
    requests = Requests(
        np.array([0.0, 1.0, 2.0, 30.0]),
        np.array([10, 20, 10, 60]),
        np.array([1, 2, 3, 4]),
        60.0,
        np.array([0, 5, 0, 15]),
        np.array([-1, 0, -1, 1]),
        np.array([1, 1, 1, 0]),
        ("rare", "busy", "absent"),
    )
    found = load_statistics(requests)
    assert [client.name for client in found.clients] == ["busy", "rare"]
    assert found.clients[0].requests_fraction == 0.75
    assert found.clients[0].mean_rate_rps == 0.05
    assert found.clients[0].prompt_tokens_p50 == 10
    assert found.prefix is not None
    assert found.prefix.requests_fraction == 0.5
    assert found.prefix.tokens_fraction == 0.2
    assert found.distinct_arrivals_fraction == 1.0
    assert [window.window_s for window in found.windows] == [1.0, 15.0]
    content = found.as_dict()
    assert content["clients"][0]["name"] == "busy"
    assert content["prompt"]["quantiles"]["p50"] == 15.0


def no_requests() -> Requests:
    return Requests(np.array([]), np.array([], np.int32), np.array([], np.int32), 4.0)


def test_little_is_enough() -> None:
    one = load_statistics(Requests(np.array([3.5]), np.array([5]), np.array([6]), 4.0))
    assert one.gap_cv is None
    assert one.rank_correlation == 0
    assert one.clients == ()
    assert one.prefix is None
    late = load_statistics(Requests(np.array([2.5]), np.array([5]), np.array([6]), 2.9))
    assert late.windows[0].dispersion is None
    with pytest.raises(ValueError, match="none to describe"):
        load_statistics(no_requests())


def test_a_long_range_is_counted_in_fewer_windows() -> None:
    """Three years hold a hundred million seconds: those are not counted one by one."""
    ones = np.ones(3, dtype=np.int32)
    rows = Requests(
        np.array([0.0, 1.0, 9e7]), ones, ones, 9e7, client=np.zeros(3, int), client_names=("a",)
    )
    assert [window.window_s for window in load_statistics(rows).windows] == [15.0, 60.0]
    found = load_statistics(replace(rows, span_s=1e12))
    assert found.windows == ()
    assert found.clients[0].local_dispersion is None
