"""Workload models: sampling, repeating, scaling, JSON."""

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.workload.arrivals import (
    GAP_LAWS,
    MAX_CV,
    MIN_CV,
    GapLaw,
    gap_parameters,
    local_dispersion,
    shape_cv,
)
from gatepilot.envs.workload.bursts import Bursts
from gatepilot.envs.workload.lengths import LengthLaw, QuantileTable
from gatepilot.envs.workload.model import (
    Facts,
    Group,
    WorkloadModel,
    load_model,
    model_names,
    parse_model,
)

FACTS = Facts("toy", "a toy", "nothing", "nowhere", "none", "nobody")
POINTS = np.array([0.0, 0.5, 1.0])


def lengths(prompt: float, output: float) -> LengthLaw:
    """Lengths around a middle that tells groups apart."""
    around = np.array([0.5, 1, 2])
    prompts, outputs = (QuantileTable(POINTS, middle * around) for middle in (prompt, output))
    return LengthLaw(prompts, outputs, 0.3)


def toy(*, cv: float = 1.0, span_s: float = 1000.0) -> WorkloadModel:
    """Two groups in turn: short prompts in the first half, long ones in the second."""
    cvs = np.full(2, cv)
    return WorkloadModel(
        FACTS,
        span_s,
        (
            Group("short", np.array([4.0, 0.0]), "gamma", cvs, lengths(10, 10)),
            Group("long", np.array([0.0, 1.0]), "weibull", cvs, lengths(1000, 100)),
        ),
    )


def test_groups_come_in_their_bins_with_their_lengths() -> None:
    requests = toy().sample(0.0, 1000.0, seed=1)
    first, second = requests.within(0.0, 500.0), requests.within(500.0, 1000.0)
    assert first.prompt_tokens.max() <= 20
    assert second.prompt_tokens.min() >= 500
    assert len(first) == pytest.approx(2000, abs=4 * math.sqrt(2000))
    assert len(second) == pytest.approx(500, abs=4 * math.sqrt(500))


def test_sampling_a_part_is_rebased() -> None:
    requests = toy().sample(450.0, 550.0, seed=1)
    assert requests.span_s == 100.0
    assert requests.within(0.0, 50.0).mean_rate_rps == pytest.approx(4.0, abs=1.2)
    assert requests.within(50.0, 100.0).prompt_tokens.min() >= 500


def test_a_model_repeats_after_its_span() -> None:
    requests = toy().sample(2000.0, 4000.0, seed=2)
    counts = [len(requests.within(a, a + 500)) for a in (0.0, 500.0, 1000.0, 1500.0)]
    assert counts == pytest.approx([2000, 500, 2000, 500], rel=0.2)


def test_same_seed_same_bytes() -> None:
    one, two, other = (toy(cv=3).sample(0.0, 700.0, s) for s in (8, 8, 9))
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    assert one.arrival_s.tobytes() != other.arrival_s.tobytes()


@pytest.mark.parametrize("scale", [0.25, 1.0, 2.5, 4.0])
def test_rate_scale_scales_the_mean(scale: float) -> None:
    model = toy()
    counts = [len(model.sample(0.0, 1000.0, s, rate_scale=scale)) for s in range(20)]
    expected = 2500 * scale
    assert np.mean(counts) == pytest.approx(expected, abs=4 * math.sqrt(expected / 20))


def test_rate_scale_keeps_burstiness() -> None:
    model = toy(cv=4.0, span_s=40_000.0)
    one = [local_dispersion(model.sample(0, 20_000, s).arrival_s, 20_000, 15) for s in range(4)]
    many = [
        local_dispersion(model.sample(0, 20_000, s, 3.0).arrival_s, 20_000, 15) for s in range(4)
    ]
    assert np.mean(one) > 5
    assert np.mean(many) == pytest.approx(np.mean(one), rel=0.15)


@given(st.floats(0, 5000), st.floats(1e-3, 3000), st.floats(0.1, 3), st.floats(MIN_CV, MAX_CV))
@settings(max_examples=60, deadline=None)
def test_any_range_gives_valid_requests(
    from_s: float, length_s: float, scale: float, cv: float
) -> None:
    requests = toy(cv=cv).sample(from_s, from_s + length_s, 0, scale)
    assert requests.span_s == pytest.approx(length_s)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5.0, 5.0, 0), "no range"),
        ((-1.0, 5.0, 0), "no range"),
        ((0.0, math.inf, 0), "no range"),
        ((0.0, 5.0, 0, 0.0), "rate_scale: 0.0"),
        ((0.0, 5.0, 0, math.nan), "rate_scale: nan"),
    ],
)
def test_bad_sample_arguments(arguments: tuple[float, float, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        toy().sample(*arguments)


@st.composite
def models(draw: st.DrawFn) -> WorkloadModel:
    bins = draw(st.integers(1, 4))
    numbers = st.floats(0, 100)
    laws = st.sampled_from(GAP_LAWS)
    bursts = st.builds(Bursts, st.floats(0.1, 1e4), st.floats(0, 1e4), st.floats(0, 5))
    cvs = st.floats(MIN_CV, MAX_CV)
    groups = draw(
        st.lists(
            st.builds(
                Group,
                st.uuids().map(str),
                st.lists(numbers, min_size=bins, max_size=bins).map(np.array),
                laws | st.lists(laws, min_size=bins, max_size=bins).map(tuple),
                st.lists(cvs, min_size=bins, max_size=bins).map(np.array),
                st.just(lengths(draw(st.floats(2, 1e4)), 7)),
                st.none() | bursts,
            ),
            min_size=1,
            max_size=3,
        )
    )
    return WorkloadModel(FACTS, draw(st.floats(1e-3, 1e6)), tuple(groups))


@given(models())
@settings(max_examples=25, deadline=None)
def test_json_round_trip(model: WorkloadModel) -> None:
    text = model.to_json()
    again = parse_model(text, where="x.json")
    assert again.to_json() == text
    assert again.facts == model.facts
    assert again.span_s == model.span_s
    assert again.mean_rate_rps == model.mean_rate_rps
    assert [group.bursts for group in again.groups] == [group.bursts for group in model.groups]
    one, two = (each.sample(0.0, model.span_s / 1e3, 1) for each in (model, again))
    assert one.arrival_s.tobytes() == two.arrival_s.tobytes()


def test_round_trip_samples_the_same() -> None:
    again = parse_model(toy(cv=2).to_json(), where="x")
    one, two = toy(cv=2).sample(0, 1000, 3), again.sample(0, 1000, 3)
    assert one.arrival_s.tobytes() == two.arrival_s.tobytes()
    assert one.prompt_tokens.tobytes() == two.prompt_tokens.tobytes()


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        (("format",), "v9", ["x.json: format", "v9"]),
        (("span_s",), 0, ["x.json: span_s: 0"]),
        (("span_s",), "long", ["x.json: ", "long"]),
        (("colour",), 1, ["x.json: colour: unknown key"]),
        (("licence",), None, ["x.json: licence: missing key"]),
        (("groups",), [], ["x.json: groups: at least one"]),
        (("groups",), [3], ["x.json: groups.0", "object"]),
        (("groups", 1, "label"), "short", ["x.json: groups.1.label: 'short' appears twice"]),
        (("groups", 0, "bursts"), 3, ["groups.0.bursts", "object"]),
        (("groups", 0, "bursts"), {"busy_s": 1}, ["groups.0.bursts.quiet_s: missing key"]),
        (
            ("groups", 0, "bursts"),
            {"busy_s": 0, "quiet_s": 1, "level_cv": 1},
            ["groups.0.bursts.busy_s: 0"],
        ),
        (
            ("groups", 0, "bursts"),
            {"busy_s": "1", "quiet_s": 1, "level_cv": 1},
            ["groups.0.bursts.busy_s: '1' is not a number"],
        ),
        (("groups", 1, "gap_law"), ["gamma"], ["groups.1.gap_law: 1 values for 2 bins"]),
        (("groups", 1, "gap_law"), ["gamma", "x"], ["groups.1.gap_law: 'x'"]),
        (("groups", 1, "gap_law"), "pareto", ["groups.1.gap_law: 'pareto'", "gamma, weibull"]),
        (("groups", 1, "gap_cv"), [1.0, 0.0], ["groups.1.gap_cv", "[0.1, 20.0]"]),
        (("groups", 1, "gap_cv"), [1.0, 1, 1], ["groups.1.gap_cv: 3 values for 2 bins"]),
        (("groups", 0, "rate_rps"), [1.0, -1.0], ["groups.0.rate_rps"]),
        (("groups", 0, "rate_rps"), [1.0, "x"], ["groups.0.rate_rps", "list of numbers"]),
        (("groups", 0, "rate_rps"), None, ["groups.0.rate_rps: missing key"]),
        (("groups", 0, "prompt_tokens"), [1, 2], ["groups.0.prompt_tokens", "object"]),
        (
            ("groups", 0, "prompt_tokens", "tokens"),
            [1, 2],
            ["groups.0.prompt_tokens.tokens: 2 values for 3"],
        ),
        (("groups", 0, "output_tokens", "probabilities"), ["a"], ["output_tokens.probabilities"]),
        (("groups", 0, "rank_correlation"), 2, ["groups.0.rank_correlation"]),
        (("groups", 0, "rank_correlation"), [], ["groups.0.rank_correlation: [] is not a number"]),
        (("groups", 0, "rate_rps"), [10**400, 1], ["groups.0.rate_rps", "list of numbers"]),
        (("groups",), {}, ["groups: expected a list"]),
        (("span_s",), [], ["span_s: [] is not a number"]),
        (("span_s",), 10**400, ["span_s: 1000", "is not a number"]),
    ],
)
def test_bad_json(path: tuple[str | int, ...], value: object, parts: list[str]) -> None:
    content = json.loads(toy().to_json())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        parse_model(json.dumps(content), where="x.json")
    assert str(caught.value).startswith("x.json: ")
    for part in parts:
        assert part in str(caught.value)


def test_a_null_is_named() -> None:
    content = json.loads(toy().to_json()) | {"span_s": None}
    with pytest.raises(ValueError, match=r"x\.json: span_s: None is not a number"):
        parse_model(json.dumps(content), where="x.json")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", 100_000 * b"["], ids=["binary", "deep"])
def test_files_that_are_no_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^x\.json: not a JSON file \([^\n]+\)$"):
        load_model(path)


def test_no_json_and_no_model() -> None:
    with pytest.raises(ValueError, match=r"x\.json: not a JSON file"):
        parse_model("{", where="x.json")
    with pytest.raises(ValueError, match=r"servegen_tenants: unknown .* mean servegen-tenants\?"):
        load_model("servegen_tenants")
    with pytest.raises(ValueError, match=r"zzz: unknown workload model; known: azure-code-2023"):
        load_model("zzz")
    with pytest.raises(ValueError, match=r"none\.json: cannot be read"):
        load_model("none.json")


def test_a_million_requests_do_not_take_long() -> None:
    model = load_model("servegen-tenants")
    start_s = time.perf_counter()
    requests = model.sample(0.0, 86400.0, 0, rate_scale=2.2)
    assert len(requests) > 950_000
    assert time.perf_counter() - start_s < 3  # 0.4 s where it was written


def test_shipped_names() -> None:
    assert model_names() == (
        "azure-code-2023",
        "azure-conv-2023",
        "mooncake-conversation",
        "servegen-m-large",
        "servegen-r1",
        "servegen-tenants",
    )


def test_requests_name_their_groups() -> None:
    requests = toy().sample(0.0, 1000.0, seed=1, rate_scale=2.5)
    assert requests.client is not None
    assert requests.client_names == ("short", "long")
    assert ((requests.prompt_tokens >= 500) == (requests.client == 1)).all()


def test_arrivals_alone_are_those_of_a_sample() -> None:
    model = toy(cv=3)
    arrival_s, owner = model.arrivals(np.random.default_rng(4), 100.0, 900.0, 1.5)
    requests = model.sample(100.0, 900.0, 4, 1.5)
    assert arrival_s.tobytes() == requests.arrival_s.tobytes()
    assert requests.client is not None
    assert owner.tolist() == requests.client.tolist()


def test_laws_of_each_bin_are_those_of_the_bin() -> None:
    """A law a bin gives what one law for all gives in that bin."""
    both: tuple[GapLaw, GapLaw] = ("gamma", "weibull")
    cvs = np.array([3.0, 3.0])
    mixed = gap_parameters(both, cvs)
    gamma, weibull = (gap_parameters(law, cvs) for law in both)
    for place in (0, 1):
        assert mixed[place].tolist() == [gamma[place][0], weibull[place][1]]


@pytest.mark.parametrize("law", GAP_LAWS)
def test_cv_of_a_shape(law: GapLaw) -> None:
    """The shape's cv against a sample of NumPy's own law."""
    rng = np.random.default_rng(0)
    for shape in (0.4, 1.0, 2.5):
        drawn = rng.gamma(shape, size=400_000) if law == "gamma" else rng.weibull(shape, 400_000)
        wanted = shape_cv(law, np.array([shape]))[0]
        assert wanted == pytest.approx(drawn.std() / drawn.mean(), rel=0.03)
    assert shape_cv(law, np.array([1e-6]))[0] == MAX_CV
