"""What `gatepilot evaluate` takes in: constants with known returns, a trained run, bad traces."""

from pathlib import Path

import pytest

from .cli_kit import PROFILE, Cli, contents, write_config, write_scenario, write_trace

pytestmark = pytest.mark.timeout(60)  # making MLflow's database takes a busy machine ten seconds
TICK_S, TICKS, START = 15, 5, 2


@pytest.fixture
def light(tmp_path: Path) -> Path:
    """So little load that one replica keeps it: returns can be worked out by hand."""
    return write_scenario(tmp_path / "light.yaml")


@pytest.mark.parametrize("replicas", [1, START, 3])
def test_the_return_of_a_constant_is_what_its_replicas_cost(
    cli: Cli, light: Path, replicas: int
) -> None:
    found = cli.json("evaluate", "--policy", f"fixed:{replicas}", "--scenario", light)
    changes = int(replicas != START)
    expected = TICKS * (0.1 - 0.03 * replicas) - 0.15 * changes
    for episode in found["episodes"]:
        draining = 0.03 * (START - replicas if replicas < START else 0)
        assert expected - TICKS * draining - 1e-9 <= episode["return"] <= expected + 1e-9
        hours = replicas * TICKS * TICK_S / 3600
        assert hours - 1e-9 <= episode["replica_hours"] <= START * TICKS * TICK_S / 3600 or (
            episode["replica_hours"] == pytest.approx(hours)
        )
        assert episode["changes"] == changes
        assert episode["train_seed"] is None
        assert episode["violation_rate"] == episode["error_rate"] == episode["shed_rate"] == 0
        assert 0 < episode["ttft_p95_s"] < 0.8


def test_a_trained_run_takes_part_and_another_contract_is_refused(
    cli: Cli, light: Path, runs: Path, tmp_path: Path
) -> None:
    assert runs == tmp_path / "runs"  # where both commands look if nothing is said
    config = write_config(tmp_path / "tiny.yaml", "light.yaml", seed=7)
    run_id = cli.json("train", config)["run_id"]
    policies = ("--policy", f"run:{run_id}", "--policy", "do_nothing")
    found = cli.json("evaluate", *policies, "--scenario", light)
    assert {e["train_seed"] for e in found["episodes"]} == {7, None}
    assert found["summary"][0]["train_seeds"] == [7]
    assert list(found["provenance"]["fingerprints"]) == [f"run:{run_id}"]
    code, out, _ = cli("evaluate", *policies, "--scenario", light)
    assert code == 0
    assert f" run:{run_id[:8]} " in out
    assert run_id not in out

    slower = write_scenario(tmp_path / "slower.yaml", control={"tick_s": 30.0, "episode_ticks": 4})
    before = contents(tmp_path)
    error = cli.refusal("evaluate", *policies, "--scenario", slower)
    assert f"run:{run_id}: trained under contract " in error
    assert "slower (tick 30 s" in error
    assert "run nope: not found in runs" in cli.refusal(
        "evaluate", "--policy", "run:nope", "--scenario", light
    )
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,1,1"], "one request has no time span; at least two are needed"),
        (["2,1,1", "1,1,1"], "row 2, arrival_s: 1 s comes before the previous row's 2 s"),
        (["-1,1,1", "1,1,1"], "row 1, arrival_s: -1 is negative"),
        (["0,1,1", "1,0,1"], "row 2, prompt_tokens: 0"),
        (["0,1,1", "1,1,0"], "row 2, output_tokens: 0"),
        (["0,1,1", "1,1"], "row 2"),
        (["0,1,1", "90,1,1"], "holds 91 s, an episode takes 3600 s (240 ticks of 15 s): at most 6"),
    ],
)
@pytest.mark.parametrize("written", [["--report", "r.html"], ["--out", "e.parquet"]])
def test_a_bad_trace_is_one_line_and_leaves_nothing(
    cli: Cli, tmp_path: Path, rows: list[str], message: str, written: list[str]
) -> None:
    trace = write_trace(tmp_path / "bad.csv", *rows)
    error = cli.refusal(
        "evaluate", "--policy", "hpa", "--trace", trace, "--profile", PROFILE, *written
    )
    assert "bad.csv" in error
    assert message in error
    assert contents(tmp_path) == ["bad.csv"]


def test_a_missing_column_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("arrival_s,prompt_tokens\n0,1\n1,1\n")
    error = cli.refusal("evaluate", "--policy", "hpa", "--trace", "bad.csv", "--profile", PROFILE)
    assert "bad.csv: column output_tokens is missing; expected arrival_s, " in error


def test_an_unknown_key_of_a_scenario_is_named(cli: Cli, tmp_path: Path) -> None:
    write_scenario(tmp_path / "bad.yaml", cluster={"max_replica": 3})
    error = cli.refusal("evaluate", "--policy", "hpa", "--scenario", "bad.yaml")
    assert "bad.yaml: cluster.max_replica: unknown key; did you mean max_replicas?" in error
    assert contents(tmp_path) == ["bad.yaml", "light.csv"]
