"""`gatepilot simulate`: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from .cli_kit import HEADER, PROFILE, Cli, contents, write_scenario, write_trace

GIANT = {
    "step": {
        "base_ms": 5,
        "per_seq_ms": 0.1,
        "per_1k_ctx_tokens_ms": 0.1,
        "per_prefill_token_ms": 0.1,
    },
    "memory": {"weights_gib_per_gpu": 130, "vram_gib_per_gpu": 80},
}
"""A profile whose weights its GPU cannot hold."""
COLUMNS = [
    "arrival_s",
    "prompt_tokens",
    "output_tokens",
    "replica",
    "ttft_s",
    "e2e_s",
    "restarts",
    "status",
]


def fixed(trace: Path, *more: str | Path) -> list[str | Path]:
    return ["simulate", "--trace", trace, "--profile", PROFILE, "--replicas", "2", *more]


def test_figures(cli: Cli, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv")
    found = cli.json(*fixed(trace))
    assert found["requests"] == found["ok"] == 400
    assert found["error"] == found["timeout"] == found["shed"] == 0
    assert found["wall_s"] > 0
    assert found["requests_per_s"] == pytest.approx(400 / found["wall_s"])
    for name in ("ttft_s", "e2e_s"):
        assert list(found[name]) == ["p50", "p90", "p95", "p99", "mean"]
        assert 0 < found[name]["p50"] <= found[name]["p90"] <= found[name]["p99"]
    assert found["e2e_s"]["p50"] > found["ttft_s"]["p50"]
    assert contents(tmp_path) == ["t.csv"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_one_row_a_request_in_input_order(cli: Cli, tmp_path: Path, ending: str) -> None:
    trace, out = write_trace(tmp_path / "t.csv"), tmp_path / f"out.{ending}"
    code, printed, _ = cli(*fixed(trace, "--router", "round_robin", "--out", out))
    assert code == 0
    assert "400 requests" in printed
    read = pyarrow.parquet.read_table if ending == "parquet" else pyarrow.csv.read_csv
    table = read(out).to_pydict()
    assert list(table) == COLUMNS
    assert table["arrival_s"] == [i / 2 for i in range(400)]
    assert table["prompt_tokens"] == [100 + i % 7 for i in range(400)]
    assert set(table["replica"]) == {0, 1}
    assert set(table["status"]) == {"ok"}
    assert contents(tmp_path) == sorted(["t.csv", f"out.{ending}"])


def test_equal_seeds_give_equal_files(cli: Cli, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv")
    for name, seed in (("a.csv", "3"), ("b.csv", "3"), ("c.csv", "4")):
        code, _, err = cli(*fixed(trace, "--router", "random", "--seed", seed, "--out", name))
        assert code == 0, err
    a, b, c = ((tmp_path / f"{name}.csv").read_bytes() for name in "abc")
    assert a == b != c


def test_a_trace_is_looked_for_in_the_traces_folder(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    write_trace(folder / "t.csv")
    assert "t.csv: no such" in cli.refusal(*fixed(Path("t.csv")))
    assert cli.json(*fixed(Path("t.csv"), "--traces", folder))["requests"] == 400


def test_a_scenario_under_a_controller(cli: Cli, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path / "light.yaml")
    found = cli.json("simulate", "--scenario", scenario, "--policy", "hpa@unit", "--split", "test")
    assert found["requests"] == found["ok"] == 600
    assert found["replica_hours"] > 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("0,1,1", "5,1,1", "3,1,1"), "row 3, arrival_s: 3 s comes before the previous"),
        (("-1,1,1", "5,1,1"), "row 1, arrival_s: -1 is negative"),
        (("0,1,1", "5,0,1"), "row 2, prompt_tokens: 0"),
        (("0,1,1", "5,1,0"), "row 2, output_tokens: 0"),
        (("0,1,1", "5,1.5,1"), "row 2, prompt_tokens: 1.5"),
        (("0,1,1", "soon,1,1"), "row 2, arrival_s: 'soon'"),
        (("0,1,1", "nan,1,1"), "row 2, arrival_s: no value"),
        (("0,1,1",), "at least two are needed"),
    ],
)
def test_bad_rows(cli: Cli, tmp_path: Path, rows: tuple[str, ...], message: str) -> None:
    trace = write_trace(tmp_path / "bad.csv", *rows)
    error = cli.refusal(*fixed(trace, "--out", tmp_path / "out.csv"))
    assert "bad.csv: " in error
    assert message in error
    assert contents(tmp_path) == ["bad.csv"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (HEADER, "no data rows"),
        ("arrival_s,prompt_tokens\n0,1\n1,1\n", "column output_tokens is missing"),
    ],
)
def test_bad_files(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text(text)
    error = cli.refusal(*fixed(trace))
    assert "bad.csv" in error
    assert message in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace", "t.csv", "--replicas", "2"], "--trace needs --profile and --replicas"),
        (["--trace", "t.csv", "--profile", PROFILE], "--trace needs --profile and --replicas"),
        ([], "one of --trace and --scenario"),
        (["--trace", "t.csv", "--scenario", "demo"], "one of --trace and --scenario"),
        (["--scenario", "demoo"], "demoo: unknown scenario; did you mean demo?"),
        (["--scenario", "none.yaml"], "none.yaml: cannot be read"),
        (["--scenario", "light.yaml", "--policy", "hpo"], "unknown controller 'hpo'"),
        (["--scenario", "light.yaml", "--router", "best"], "--router best: expected one of"),
        (["--scenario", "light.yaml", "--replicas", "0"], "--replicas"),
        (["--scenario", "two.yaml", "--replicas", "1"], "initial_replicas: 1 must lie within 2"),
        (["--scenario", "light.yaml", "--seed", "-1"], "--seed"),
        (["--scenario", "light.yaml", "--profile", "llama"], "llama: unknown profile"),
        (["--scenario", "light.yaml", "--profile", "p.json"], "p.json: step"),
        (["--scenario", "light.yaml", "--out", "x.txt"], "x.txt: expected a name that ends in"),
        (["--scenario", "light.yaml", "--out", "no/x.csv"], "the folder no does not exist"),
        (["--scenario", "light.yaml", "--nonsense"], "--nonsense"),
        (["--trace", "none.csv", "--profile", PROFILE, "--replicas", "2"], "none.csv: no such"),
        (
            ["--trace", "t.csv", "--profile", "giant.json", "--replicas", "2"],
            "profile: giant.json: memory.weights_gib_per_gpu: weights of 130 GiB do not fit",
        ),
        (["--scenario", "light.yaml", "--max-num-seqs", "1024"], "cluster.max_num_seqs: 1024 must"),
        (
            ["--scenario", "light.yaml", "--replicas", "100000000"],
            "cluster.max_replicas: 100000000",
        ),
        (
            ["--scenario", "crowded.yaml", "--policy", "hpa"],
            "crowded: faults.0.mean_interval_s: 0.04 makes up to 24,010 faults in 900 s",
        ),
        (["--scenario", "light.yaml", "--seed", "9" * 23], "--seed"),
        (["--scenario", "light.yaml", "--chunk-tokens", "10"], "must not exceed chunk_tokens (10)"),
        (
            ["--scenario", "light.yaml", "--block-tokens", "500000"],
            "cluster.block_tokens: 500000",
        ),
        (
            ["--trace", "t.csv", "--profile", PROFILE, "--replicas", "2", "--split", "train"],
            "--split goes with --scenario",
        ),
    ],
)
def test_wrong_usage(cli: Cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    write_trace(tmp_path / "t.csv")
    write_scenario(tmp_path / "light.yaml")
    write_scenario(tmp_path / "two.yaml", cluster={"min_replicas": 2, "max_replicas": 3})
    write_scenario(tmp_path / "crowded.yaml", faults=[{"kind": "crash", "mean_interval_s": 0.04}])
    (tmp_path / "p.json").write_text("{}")
    (tmp_path / "giant.json").write_text(json.dumps(GIANT))
    before = contents(tmp_path)
    assert message in cli.refusal("simulate", *arguments)
    assert contents(tmp_path) == before
