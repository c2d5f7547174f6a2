"""ServeGen's public format, and the same statistics as tables."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gatepilot.envs.workload.arrivals import local_dispersion
from gatepilot.envs.workload.model import WorkloadModel, parse_model
from gatepilot.envs.workload.servegen import load_client_statistics, load_servegen
from gatepilot.envs.workload.trace import TraceError, load_trace

TRACE = "0,1.5,2.0,Gamma,0.25,9.9\n600,0,0,,0,0\n1200,0.5,1.2,Weibull,0.5,4.4\n"
HISTOGRAMS = {
    "0": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": "{7: 1.0}"},
    "1200": {"input_tokens": "{400: 1.0}", "output_tokens": "{0: 0.5, 9: 0.5}"},
}


def folder(path: Path, **clients: tuple[str, object]) -> Path:
    """A folder of the public format; a client is its number behind a letter."""
    path.mkdir()
    for name, (trace, histograms) in clients.items():
        (path / f"chunk-{name[1:]}-trace.csv").write_text(trace)
        text = histograms if isinstance(histograms, str) else json.dumps(histograms)
        (path / f"chunk-{name[1:]}-dataset.json").write_text(text)
    return path


def test_a_group_a_client_with_its_windows(tmp_path: Path) -> None:
    quiet = "0,0,0,,0,0\n600,2,1,Gamma,1.0,0.5\n1200,0,0,,0,0\n"
    model = load_servegen(
        folder(tmp_path / "m", c0=(TRACE, HISTOGRAMS), c12=(quiet, {"0": HISTOGRAMS["0"]}))
    )
    assert model.facts.name == "m"
    assert "0 % of the requests" in model.facts.description
    assert model.span_s == 1800.0
    one, other = model.groups
    assert (one.label, other.label) == ("0", "12")
    assert one.rate_rps.tolist() == [1.5, 0.0, 0.5]
    assert other.rate_rps.tolist() == [0.0, 2.0, 0.0]
    assert one.gap_law == ("gamma", "gamma", "weibull")
    # gamma of shape 1/4: cv 2; Weibull of shape 1/2: sqrt(5) (moments 2 and 24)
    assert one.gap_cv.tolist() == pytest.approx([2.0, 1.0, 5**0.5], abs=1e-3)
    assert parse_model(model.to_json(), where="m").groups[0].gap_law == one.gap_law


def test_histograms_weigh_as_much_as_their_requests(tmp_path: Path) -> None:
    model = load_servegen(folder(tmp_path / "m", c0=(TRACE, HISTOGRAMS)))
    drawn = model.sample(0.0, 180_000.0, 0)  # a hundred times over
    shares = [float((drawn.prompt_tokens == tokens).mean()) for tokens in (100, 200, 400)]
    # 900 requests of the first histogram, 300 of the second
    assert shares == pytest.approx([0.375, 0.375, 0.25], abs=0.01)
    assert set(drawn.output_tokens.tolist()) <= set(range(1, 10))
    assert float((drawn.output_tokens == 1).mean()) == pytest.approx(0.125, abs=0.01)  # was 0
    assert model.groups[0].lengths.rank_correlation == 0


def test_clients_without_histograms_are_left_out_and_said_so(tmp_path: Path) -> None:
    empty = {"0": {"input_tokens": "{}", "output_tokens": "{}"}}
    path = folder(tmp_path / "m", c1=(TRACE, HISTOGRAMS), c2=(TRACE, empty))
    model = load_servegen(path)
    assert [group.label for group in model.groups] == ["1"]
    assert "1 clients; 50 % of the requests" in model.facts.description


@pytest.mark.parametrize(
    ("trace", "histograms", "parts"),
    [
        ("", HISTOGRAMS, ["chunk-1-trace.csv", "the file is empty"]),
        ("0,1\n", HISTOGRAMS, ["row 1 has 2 columns", "expected 6"]),
        ("0,x,1,Gamma,1,1\n", HISTOGRAMS, ["row 1", "must be numbers"]),
        ("0,1,1,Pareto,1,1\n", HISTOGRAMS, ["law 'Pareto'", "Gamma, Weibull"]),
        ("0,1,1,Gamma,0,1\n", HISTOGRAMS, ["row 1", "shape 0"]),
        ("0,-1,1,Gamma,1,1\n", HISTOGRAMS, ["row 1", "rate -1"]),
        ("600,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", HISTOGRAMS, ["row 2", "0 s does not come after"]),
        ("0,1,1,Gamma,1,1\n", HISTOGRAMS, ["at least two"]),
        (TRACE + "1500,1,1,Gamma,1,1\n", HISTOGRAMS, ["equally long"]),
        (TRACE, "{", ["chunk-1-dataset.json", "expected, by second"]),
        (TRACE, [1], ["chunk-1-dataset.json", "expected, by second"]),
        (TRACE, {"0": {"input_tokens": "{1: 1}"}}, ["chunk-1-dataset.json", "output_tokens"]),
        (TRACE, {"0": {k: "open('x')" for k in HISTOGRAMS["0"]}}, ["expected, by second"]),
        (TRACE, {"0": {k: "{1: -1}" for k in HISTOGRAMS["0"]}}, ["expected, by second"]),
        (TRACE, {}, ["no client has a histogram"]),
    ],
)
def test_bad_folders(tmp_path: Path, trace: str, histograms: object, parts: list[str]) -> None:
    path = folder(tmp_path / "m", c1=(trace, histograms))
    with pytest.raises(TraceError, match=r"^[^\n]+$") as caught:
        load_servegen(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(TraceError, match=r"no file chunk-N-trace\.csv"):
        load_servegen(tmp_path / "m")
    (tmp_path / "m" / "chunk-3-trace.csv").write_text(TRACE)
    with pytest.raises(TraceError, match=r"chunk-3-dataset\.json: no such file"):
        load_servegen(tmp_path / "m")


def test_damaged_files(tmp_path: Path) -> None:
    found = folder(tmp_path / "m", c0=(TRACE, HISTOGRAMS))
    (found / "chunk-0-dataset.json").write_text(100_000 * "[")
    with pytest.raises(TraceError, match=r"chunk-0-dataset\.json: expected, by second"):
        load_servegen(found)
    (found / "chunk-0-trace.csv").write_bytes(b"0,1.5,\xff\n")
    with pytest.raises(TraceError, match=r"chunk-0-trace\.csv: not a readable csv file"):
        load_servegen(found)


@pytest.fixture(scope="module")
def published(traces_dir: Path) -> WorkloadModel:
    return load_client_statistics(
        traces_dir / "servegen-client-windows.parquet",
        traces_dir / "servegen-client-lengths.csv.gz",
        "m-large",
    )


@pytest.mark.timeout(60)
def test_published_statistics_bunch_like_requests_resampled_from_them(
    published: WorkloadModel, traces_dir: Path
) -> None:
    """Twelve clients' day as our model draws it, and as the traces' authors drew it."""
    assert published.span_s == 604_800.0
    assert "36 % of the requests" in published.facts.description
    trace = load_trace(traces_dir / "servegen-tenants-24h.parquet")
    twelve = [group for group in published.groups if group.label in trace.client_names]
    assert len(twelve) == 12
    model = replace(published, groups=tuple(twelve))
    drawn = [model.sample(2 * 86_400.0, 3 * 86_400.0, seed) for seed in range(3)]
    assert np.mean([len(d) for d in drawn]) == pytest.approx(len(trace), rel=0.01)
    for window_s in (1.0, 15.0, 60.0):
        wanted = local_dispersion(trace.arrival_s, 86_400.0, window_s)
        seen = np.mean([local_dispersion(d.arrival_s, 86_400.0, window_s) for d in drawn])
        assert seen == pytest.approx(wanted, rel=0.15)


def test_an_unknown_service(traces_dir: Path) -> None:
    windows = traces_dir / "servegen-client-windows.parquet"
    with pytest.raises(TraceError, match=r"no model 'x'; known: deepseek-r1, m-large"):
        load_client_statistics(windows, traces_dir / "servegen-client-lengths.csv.gz", "x")
    with pytest.raises(TraceError, match="not a table of client windows"):
        load_client_statistics(traces_dir / "servegen-r1-24h.parquet", windows, "m-large")
    with pytest.raises(TraceError, match="not a table of client percentiles"):
        load_client_statistics(windows, traces_dir / "azure-2023-code.csv.gz", "m-large")
