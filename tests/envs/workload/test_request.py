"""Requests: validation, cutting, filtering, superposing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.envs.workload.arrivals import local_dispersion
from gatepilot.envs.workload.request import Requests, superpose


def requests_at(*arrival_s: float, span_s: float = 100.0) -> Requests:
    """Requests whose prompt tokens number them from 1."""
    n = len(arrival_s)
    return Requests(np.array(arrival_s), np.arange(1, n + 1, dtype=np.int32), np.full(n, 7), span_s)


@st.composite
def any_requests(draw: st.DrawFn) -> Requests:
    span_s = draw(st.floats(1e-3, 1e6))
    shares = draw(st.lists(st.floats(0, 1), max_size=40))
    arrival_s = np.sort(np.array(shares) * span_s)
    n = arrival_s.size
    tokens = st.lists(st.integers(1, 2**31 - 1), min_size=n, max_size=n)
    return Requests(arrival_s, np.array(draw(tokens)), np.array(draw(tokens)), span_s)


def test_types_and_rate() -> None:
    requests = requests_at(0.0, 1.0, 1.0, 100.0)
    assert requests.arrival_s.dtype == np.float64
    assert requests.prompt_tokens.dtype == requests.output_tokens.dtype == np.int32
    assert len(requests) == 4
    assert requests.mean_rate_rps == 0.04


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"arrival_s": np.array([0.0, 5.0, 4.0])}, ["arrival_s[2]", "4.0", "5.0", "sorted"]),
        ({"arrival_s": np.array([-1.0, 5.0, 6.0])}, ["arrival_s[0]", "-1.0", "[0, 10.0]"]),
        ({"arrival_s": np.array([0.0, np.nan, 6.0])}, ["arrival_s[1]", "nan"]),
        ({"arrival_s": np.array([0.0, 5.0, 10.5])}, ["arrival_s[2]", "10.5", "[0, 10.0]"]),
        ({"arrival_s": np.zeros((3, 1))}, ["arrival_s", "(3, 1)"]),
        ({"prompt_tokens": np.array([1, 0, 2])}, ["prompt_tokens[1]: 0 is", "from 1 to"]),
        ({"output_tokens": np.array([1, 2, -3])}, ["output_tokens[2]", "-3"]),
        ({"output_tokens": np.array([1.0, 2.5, 3.0])}, ["output_tokens[1]", "2.5"]),
        ({"output_tokens": np.array([1.0, np.nan, 3.0])}, ["output_tokens[1]", "nan"]),
        ({"prompt_tokens": np.array([1, 2**31, 2])}, ["prompt_tokens[1]", "2147483648"]),
        ({"prompt_tokens": np.array(["1", "2", "3"])}, ["prompt_tokens", "numbers"]),
        ({"prompt_tokens": np.array([1, 2])}, ["prompt_tokens", "2 values for 3"]),
        ({"span_s": 0.0}, ["span_s", "0.0"]),
        ({"span_s": np.inf}, ["span_s", "inf"]),
    ],
)
def test_bad_arrays_are_named(change: dict[str, object], parts: list[str]) -> None:
    good: dict[str, object] = {
        "arrival_s": np.array([0.0, 5.0, 6.0]),
        "prompt_tokens": np.array([1, 2, 3]),
        "output_tokens": np.array([1, 2, 3]),
        "span_s": 10.0,
    }
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        Requests(**{**good, **change})  # type: ignore[arg-type]
    for part in parts:
        assert part in str(caught.value)


def test_within_is_half_open_and_rebased() -> None:
    cut = requests_at(0.0, 10.0, 19.0, 20.0, 100.0).within(10.0, 20.0)
    assert cut.arrival_s.tolist() == [0.0, 9.0]
    assert cut.prompt_tokens.tolist() == [2, 3]
    assert cut.span_s == 10.0


def test_within_keeps_an_arrival_at_the_very_end() -> None:
    requests = requests_at(0.0, 100.0)
    assert requests.within(0.0, 100.0).arrival_s.tolist() == [0.0, 100.0]
    assert requests.within(50.0, 100.0).arrival_s.tolist() == [50.0]


@pytest.mark.parametrize(("from_s", "to_s"), [(-1, 5), (5, 5), (6, 5), (0, 100.1), (np.nan, 5)])
def test_within_refuses_other_ranges(from_s: float, to_s: float) -> None:
    with pytest.raises(ValueError, match="no range within"):
        requests_at(0.0).within(from_s, to_s)


@given(any_requests(), st.floats(0, 1), st.floats(0, 1))
def test_cuts_partition(requests: Requests, one: float, other: float) -> None:
    edges = sorted({0.0, one * requests.span_s, other * requests.span_s, requests.span_s})
    cuts = [requests.within(a, b) for a, b in itertools.pairwise(edges)]
    assert sum(map(len, cuts)) == len(requests)
    joined = np.concatenate([cut.prompt_tokens for cut in cuts])
    assert joined.tolist() == requests.prompt_tokens.tolist()


def test_long_prompts_are_left_out() -> None:
    kept = requests_at(0.0, 1.0, 2.0).without_long_prompts(2)
    assert kept.prompt_tokens.tolist() == [1, 2]
    assert kept.span_s == 100.0
    with pytest.raises(ValueError, match="max_prompt_tokens: 0"):
        kept.without_long_prompts(0)


@given(any_requests(), st.integers(1, 5), st.integers(0, 2**32), st.floats(0, 1e7))
def test_whole_copies_keep_every_request(
    requests: Requests, scale: int, seed: int, max_shift_s: float
) -> None:
    scaled = superpose(requests, scale, seed=seed, max_shift_s=max_shift_s)
    assert len(scaled) == scale * len(requests)
    assert scaled.span_s == requests.span_s
    assert (np.diff(scaled.arrival_s) >= 0).all()
    for name in ("prompt_tokens", "output_tokens"):
        wanted = np.sort(np.tile(getattr(requests, name), scale))
        assert np.sort(getattr(scaled, name)).tolist() == wanted.tolist()


@given(any_requests(), st.floats(0.01, 4), st.integers(0, 2**32))
def test_fractional_copies_stay_within_bounds(requests: Requests, scale: float, seed: int) -> None:
    scaled = superpose(requests, scale, seed=seed, max_shift_s=50.0)
    assert int(scale) * len(requests) <= len(scaled) <= np.ceil(scale) * len(requests)
    assert np.isin(scaled.prompt_tokens, requests.prompt_tokens).all()


def test_scale_one_changes_nothing() -> None:
    requests = requests_at(0.0, 3.0, 3.0, 100.0)
    same = superpose(requests, 1.0, seed=4, max_shift_s=1000.0)
    assert same.arrival_s.tolist() == requests.arrival_s.tolist()
    assert same.prompt_tokens.tolist() == requests.prompt_tokens.tolist()


def test_first_copy_stays_and_requests_keep_their_lengths() -> None:
    requests = requests_at(*np.linspace(0, 99, 34))
    scaled = superpose(requests, 3, seed=1, max_shift_s=20.0)
    for token, arrival_s in enumerate(requests.arrival_s, start=1):
        moved = scaled.arrival_s[scaled.prompt_tokens == token] - arrival_s
        assert moved.size == 3
        assert (moved == 0).any()
        circular = (moved + 50.0) % 100.0 - 50.0
        assert (np.abs(circular) <= 20.0 + 1e-9).all()


def test_each_copy_has_one_offset() -> None:
    requests = requests_at(*np.linspace(0, 99, 34))
    scaled = superpose(requests, 2, seed=1, max_shift_s=20.0)
    offsets = set()
    for token, arrival_s in enumerate(requests.arrival_s, start=1):
        moved = (scaled.arrival_s[scaled.prompt_tokens == token] - arrival_s + 50) % 100 - 50
        offsets |= set(moved.round(6).tolist())
    assert len(offsets) == 2


def test_thinning_mean_and_spread() -> None:
    requests = requests_at(*np.linspace(0, 99, 1000))
    counts = [len(superpose(requests, 0.3, seed=s, max_shift_s=0)) for s in range(200)]
    # Binomial(1000, 0.3): mean 300, deviation 14.5; the mean of 200 deviates by 1.
    assert abs(np.mean(counts) - 300) < 4
    assert 11 < np.std(counts) < 18


def test_fractional_scale_mean() -> None:
    requests = requests_at(*np.linspace(0, 99, 1000))
    counts = [len(superpose(requests, 2.25, seed=s, max_shift_s=9)) for s in range(100)]
    assert abs(np.mean(counts) - 2250) < 6


def test_superposing_does_not_squeeze_time() -> None:
    """Copies of a bursty load stay as bursty as it is; squeezed time would raise it with scale."""
    rng = np.random.default_rng(0)
    bursts = np.repeat(rng.uniform(0, 9990, 400), 10) + rng.uniform(0, 5, 4000)
    n = bursts.size
    bursty = Requests(np.sort(bursts), np.ones(n, int), np.ones(n, int), 10_000.0)
    scaled = superpose(bursty, 8, seed=3, max_shift_s=4000.0)
    before = local_dispersion(bursty.arrival_s, 10_000.0, 15.0)
    after = local_dispersion(scaled.arrival_s, 10_000.0, 15.0)
    assert before > 5
    assert 0.8 * before < after < 1.25 * before


def test_same_seed_same_bytes() -> None:
    requests = requests_at(*np.linspace(0, 99, 50))
    one, two, other = (superpose(requests, 2.5, seed=s, max_shift_s=30) for s in (5, 5, 6))
    assert one.arrival_s.tobytes() == two.arrival_s.tobytes()
    assert one.prompt_tokens.tobytes() == two.prompt_tokens.tobytes()
    assert one.arrival_s.tobytes() != other.arrival_s.tobytes()


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_bad_scale(scale: float) -> None:
    with pytest.raises(ValueError, match="scale: "):
        superpose(requests_at(0.0), scale, seed=0, max_shift_s=0)


@pytest.mark.parametrize("shift", [-1.0, np.nan, np.inf])
def test_bad_shift(shift: float) -> None:
    with pytest.raises(ValueError, match="max_shift_s: "):
        superpose(requests_at(0.0), 1, seed=0, max_shift_s=shift)


def test_a_span_can_be_extended() -> None:
    assert replace(requests_at(0.0), span_s=120.0).span_s == 120.0


def of_two_tenants() -> Requests:
    return replace(
        requests_at(0.0, 10.0, 20.0, 30.0),
        client=np.array([1, 0, 1, 1]),
        client_names=("a", "b"),
    )


def test_tenants_follow_their_requests() -> None:
    requests = of_two_tenants()
    assert requests.client is not None
    assert requests.client.dtype == np.int32
    for part in (requests.within(5.0, 25.0), requests.take(slice(1, 3))):
        assert part.client is not None
        assert part.client.tolist() == [0, 1]
        assert part.client_names == ("a", "b")
    assert requests.of_clients([0]).prompt_tokens.tolist() == [2]
    scaled = superpose(requests, 3.5, seed=0, max_shift_s=40.0)
    assert scaled.client is not None
    # prompt tokens number the requests
    assert (scaled.client == requests.client[scaled.prompt_tokens - 1]).all()


def test_what_is_absent_stays_absent() -> None:
    scaled = superpose(requests_at(0.0, 3.0), 2.5, seed=1, max_shift_s=9.0).within(0.0, 50.0)
    assert scaled.client is scaled.prefix_hit_tokens is scaled.prefix_parent is None
    assert scaled.client_names == ()
    with pytest.raises(ValueError, match="name no tenants"):
        scaled.of_clients([0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"client": np.array([0, 1, 2, 0])}, r"client\[2\]: 2 is no place in the 2 client_names"),
        ({"client": np.array([0, -1, 0, 0])}, r"client\[1\]: -1"),
        ({"client": np.array([0, 1])}, "client: 2 values for 4"),
        ({"client": np.array(["a"] * 4)}, "client: whole numbers expected"),
        ({"client": None}, "client_names: there are names and no client column"),
    ],
)
def test_bad_tenants(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(of_two_tenants(), **change)  # type: ignore[arg-type]
