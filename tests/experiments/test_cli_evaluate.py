"""`gatepilot evaluate`: its JSON, its files, its exit codes, and what it refuses."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from .cli_kit import PROFILE, Cli, contents, write_scenario, write_trace

EPISODE_KEYS = [
    "policy",
    "train_seed",
    "scenario",
    "window",
    "seed",
    "return",
    "violation_rate",
    "replica_hours",
    "error_rate",
    "shed_rate",
    "ttft_p95_s",
    "changes",
]
SUMMARY_KEYS = {
    "policy",
    "return_mean",
    "return_median",
    "return_iqm",
    "violation_rate",
    "replica_hours",
    "error_rate",
    "ttft_p95_s",
    "settings",
}
PAIR_KEYS = {
    "policy",
    "against",
    "mean_difference",
    "ci95",
    "iqm_difference",
    "iqm_ci95",
    "probability_of_improvement",
}


@pytest.fixture
def light(tmp_path: Path) -> Path:
    return write_scenario(tmp_path / "light.yaml")


def evaluated(*names: str, scenario: Path | str) -> list[str | Path]:
    policies = itertools.chain.from_iterable(("--policy", name) for name in names)
    return ["evaluate", *policies, "--scenario", scenario]


def returns_of(found: dict[str, Any], policy: str) -> np.ndarray:
    return np.array([e["return"] for e in found["episodes"] if e["policy"] == policy])


def test_json_has_the_agreed_shape_and_adds_up(cli: Cli, light: Path) -> None:
    names = ("do_nothing", "fixed:2", "random")
    found = cli.json(*evaluated(*names, scenario=light))
    assert [list(episode) for episode in found["episodes"]] == [EPISODE_KEYS] * 12
    assert all(set(row) >= SUMMARY_KEYS for row in found["summary"])
    assert all(set(row) >= PAIR_KEYS for row in found["pairs"])
    assert [row["policy"] for row in found["summary"]] == list(names)
    assert found["gated_out"] == []
    for row in found["summary"]:
        returns = returns_of(found, row["policy"])
        assert row["return_mean"] == pytest.approx(returns.mean())
        assert row["return_median"] == pytest.approx(np.median(returns))
    assert {(row["policy"], row["against"]) for row in found["pairs"]} == set(
        itertools.permutations(names, 2)
    )
    for row in found["pairs"]:
        difference = returns_of(found, row["policy"]) - returns_of(found, row["against"])
        assert row["mean_difference"] == pytest.approx(difference.mean())
        better = (difference > 0).mean() + (difference == 0).mean() / 2
        assert row["probability_of_improvement"] == pytest.approx(better)
        low, high = row["ci95"]
        assert low <= row["mean_difference"] <= high


def test_policies_are_paired_by_window_and_seed(cli: Cli, light: Path) -> None:
    found = cli.json(*evaluated("do_nothing", "random", scenario=light))
    places = [
        [(e["window"], e["seed"]) for e in found["episodes"] if e["policy"] == row["policy"]]
        for row in found["summary"]
    ]
    assert places[0] == places[1]
    assert len(set(places[0])) == 4


def test_equal_seeds_give_equal_results(cli: Cli, light: Path) -> None:
    first, again, other = (
        cli.json(*evaluated("random", "do_nothing", scenario=light), "--seed", seed)
        for seed in ("3", "3", "4")
    )
    assert first["episodes"] == again["episodes"]
    assert first["pairs"] == again["pairs"]
    assert first["episodes"] != other["episodes"]


@pytest.mark.timeout(60)  # two studies, each line of which is written for good
def test_controllers_are_tuned_once_and_say_what_was_chosen(
    cli: Cli, light: Path, tmp_path: Path
) -> None:
    arguments = evaluated("hpa", "hpa@unit", "best_fixed", scenario=light)
    found = cli.json(*arguments)
    settings = {row["policy"]: row["settings"] for row in found["summary"]}
    (metric,) = settings["hpa"]["light"]["params"]["metrics"]
    assert metric["metric"] in {"cpu", "kv", "outstanding"}
    assert settings["best_fixed"]["light"]["replicas"] in {1, 2, 3}
    studies = {path.name for path in (tmp_path / "cache" / "light").iterdir()}
    assert studies == {"hpa.journal", "hpa@unit.journal"}
    code, _, err = cli(*arguments)
    assert (code, err) == (0, "")


@pytest.mark.timeout(60)
def test_the_best_constant_is_no_worse_than_any(cli: Cli, light: Path) -> None:
    found = cli.json(*evaluated("best_fixed", "fixed:1", "fixed:2", "fixed:3", scenario=light))
    means = [row["return_mean"] for row in found["summary"]]
    assert means[0] == max(means)


def test_only_what_is_new_is_played(cli: Cli, light: Path, cells_dir: Path) -> None:
    """Another policy, seed or scenario is another cell; the other cells are taken."""
    first = cli.json(*evaluated("do_nothing", scenario=light))
    code, _, err = cli(*evaluated("do_nothing", "fixed:2", scenario=light))
    assert (code, err) == (0, "1/1 fixed:2 on light ...\n")
    code, _, err = cli(*evaluated("do_nothing", scenario=light), "--seed", "1")
    assert (code, err) == (0, "1/1 do_nothing on light ...\n")
    code, _, err = cli(*evaluated("do_nothing", scenario=light), "--cold-start", "7")
    assert (code, err) == (0, "1/1 do_nothing on light ...\n")
    again = cli.json(*evaluated("do_nothing", scenario=light))
    assert again["episodes"] == first["episodes"]
    assert len(list(cells_dir.glob("light/*.json"))) == 4


@pytest.mark.timeout(90)  # two processes import the engine
def test_two_workers_find_what_one_finds(cli: Cli, light: Path, tmp_path: Path) -> None:
    arguments = evaluated("do_nothing", "random", "hpa", "best_fixed", scenario=light)
    found = []
    for workers in ("1", "2"):
        kept = ("--cells", tmp_path / f"cells {workers}", "--studies", tmp_path / f"s {workers}")
        found.append(cli.json(*arguments, "--workers", workers, *kept))
        found[-1].pop("provenance")
    assert json.dumps(found[0]) == json.dumps(found[1])
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("cells 1", "cells 2")
    )
    assert len(one) == 8
    assert one == two


def test_a_cell_that_was_tampered_with_is_named_and_played_again(
    cli: Cli, light: Path, cells_dir: Path
) -> None:
    first = cli.json(*evaluated("do_nothing", scenario=light))
    (cell,) = cells_dir.glob("light/*.json")
    cell.write_text(cell.read_text().replace('"changes": 0', '"changes": 1', 1))
    code, out, err = cli(*evaluated("do_nothing", scenario=light), "--json")
    assert code == 0
    assert json.loads(out)["episodes"] == first["episodes"]
    noted, played = err.splitlines()
    assert noted.startswith("do_nothing on light: a stored cell is not taken and played again. ")
    assert noted.endswith(f"{cell.name}: its content does not fit its hash")
    assert played == "1/1 do_nothing on light ..."
    assert cli(*evaluated("do_nothing", scenario=light))[2] == ""


def test_windows_that_cannot_be_kept_are_listed_and_not_played(cli: Cli, tmp_path: Path) -> None:
    hopeless = write_scenario(
        tmp_path / "hopeless.yaml",
        cluster={"max_replicas": 1, "max_num_seqs": 1, "initial_replicas": 1},
    )
    crowd = ["--rate-scale", "40"]
    code, out, err = cli(*evaluated("do_nothing", scenario=hopeless), *crowd, "--json")
    found = json.loads(out)
    assert code == 1
    assert found["episodes"] == found["summary"] == found["pairs"] == []
    assert [row["window"] for row in found["gated_out"]] == [0, 1, 2, 3]
    assert all(0 < row["violation_rate"] <= 1 for row in found["gated_out"])
    assert "nothing to judge" in err


def test_files_are_written_and_nothing_else(cli: Cli, light: Path, tmp_path: Path) -> None:
    before = contents(tmp_path)
    found = cli.json(
        *evaluated("do_nothing", "random", scenario=light),
        "--out", "episodes.parquet", "--report", "report.html",
    )  # fmt: skip
    assert contents(tmp_path) == sorted([*before, "episodes.parquet", "report.html"])
    table = pyarrow.parquet.read_table("episodes.parquet")
    assert table.to_pylist() == found["episodes"]
    assert json.loads(table.schema.metadata[b"gatepilot"]) == found["provenance"]
    assert "<html" in Path("report.html").read_text(encoding="utf-8")


def test_a_table_is_what_its_name_says(cli: Cli, light: Path) -> None:
    found = cli.json(*evaluated("do_nothing", scenario=light), "--out", "episodes.csv")
    rows = pyarrow.csv.read_csv("episodes.csv").to_pylist()
    assert [row["return"] for row in rows] == [row["return"] for row in found["episodes"]]


def test_the_table_ends_with_a_verdict_a_pair(cli: Cli, light: Path) -> None:
    code, out, _ = cli(*evaluated("do_nothing", "fixed:1", "random", scenario=light))
    assert code == 0
    assert "light: split test, 4 windows of 5 ticks of 15 s" in out
    verdicts = out.splitlines()[-3:]
    pairs = itertools.combinations(("do_nothing", "fixed:1", "random"), 2)
    for line, pair in zip(verdicts, pairs, strict=True):
        assert all(name in line for name in pair)
        assert "too few windows to tell" in line


def test_a_bare_trace_is_a_scenario(cli: Cli, tmp_path: Path) -> None:
    write_trace(tmp_path / "t.csv")
    found = cli.json(
        "evaluate", "--policy", "hpa", "--policy", "fixed:2", "--trace", "t.csv",
        "--profile", PROFILE, "--ticks", "4", "--max-replicas", "2", "--cold-start", "5",
    )  # fmt: skip
    described = found["provenance"]["scenarios"]["t"]
    assert described["range_s"] == [0.0, 200.0]
    assert described["replicas"] == [1, 2]
    assert described["windows"] == 3
    assert {e["scenario"] for e in found["episodes"]} == {"t"}


def test_more_windows_than_fit_take_rounds_where_copies_can_be_shifted(
    cli: Cli, tmp_path: Path
) -> None:
    write_trace(tmp_path / "t.csv")
    bare = ["evaluate", "--policy", "fixed:2", "--trace", "t.csv", "--profile", PROFILE]
    wish = ["--ticks", "4", "--windows", "7"]
    scaled = cli.json(*bare, *wish, "--rate-scale", "1.5")
    assert len(scaled["episodes"]) == 7
    assert scaled["provenance"]["scenarios"]["t"]["rounds"] == 3
    assert "3 rounds" in scaled["provenance"]["notes"][0]
    plain = cli.json(*bare, *wish)
    assert len(plain["episodes"]) == 3
    assert "only 3 disjoint ones" in plain["provenance"]["notes"][0]


def test_one_window_gives_no_interval(cli: Cli, light: Path) -> None:
    found = cli.json(*evaluated("fixed:1", "fixed:2", scenario=light), "--windows", "1")
    assert all(row["ci95"] is None and row["iqm_ci95"] is None for row in found["pairs"])
    assert all(row["return_ci95"] is None for row in found["summary"])


def test_an_absent_trace_is_said_where_a_model_stands_in(cli: Cli, tmp_path: Path) -> None:
    scenario = write_scenario(
        tmp_path / "away.yaml",
        workload={
            "trace": "not-here.csv",
            "model": "servegen-tenants",
            "from_s": 40_000.0,
            "to_s": 40_900.0,
            "max_prompt_tokens": 1000,
            "rate_scale": 0.2,
        },
        splits={
            "train": [40_000.0, 40_300.0],
            "validation": [40_300.0, 40_600.0],
            "test": [40_600.0, 40_900.0],
        },
    )
    found = cli.json(*evaluated("do_nothing", scenario=scenario))
    assert "not-here.csv is not here" in found["provenance"]["notes"][0]
    assert found["provenance"]["scenarios"]["away"]["traffic"] == "model servegen-tenants"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "hpaa"], "unknown policy 'hpaa': expected a controller's name"),
        (["--policy", "fixed:9"], "fixed:9: light allows 1 to 3 replicas"),
        (["--policy", "run:abc"], "run abc"),
        (["--policy", "hpa", "--policy", "hpa"], "a policy is named twice"),
        ([], "Missing option '--policy'"),
        (["--policy", "hpa", "--split", "tst"], "'--split'"),
        (["--policy", "hpa", "--windows", "0"], "'--windows'"),
        (["--policy", "hpa", "--ticks", "0"], "'--ticks'"),
        (["--policy", "hpa", "--ticks", "999"], "at most 20 ticks fit"),
        (["--policy", "hpa", "--seed", "-1"], "'--seed'"),
        (["--policy", "hpa", "--min-replicas", "5"], "min_replicas: 5 must not exceed"),
        (["--policy", "hpa", "--rate-scale", "0"], "workload.rate_scale: 0.0"),
        (["--policy", "hpa", "--report", "no/r.html"], "the folder no does not exist"),
        (["--policy", "hpa", "--out", "."], "is a folder"),
        (["--policy", "hpa", "--out", "x.txt"], "x.txt: expected a name that ends in .csv, .csv"),
        (["--policy", "hpa", "--seed", "9" * 23], "'--seed'"),
        (["--policy", "hpa", "--windows", "9" * 23], "'--windows'"),
        (["--policy", "hpa", "--max-replicas", "9" * 23], "cluster.max_replicas: 999999"),
        (["--policy", "hpa", "--suite", "core"], "got --suite and --scenario"),
    ],
)
def test_wrong_usage_is_one_line_and_leaves_nothing(
    cli: Cli, light: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    before = contents(tmp_path)
    line = cli.refusal("evaluate", "--scenario", light, *arguments)
    assert words in line
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of --suite, --scenario and --trace; got none of them"),
        (["--suite", "cor"], "unknown suite 'cor': expected one of core"),
        (["--scenario", "demmo"], "demmo: unknown scenario; did you mean demo?"),
        (["--scenario", "demo", "--scenario", "demo"], "scenario demo is named twice"),
        (["--scenario", "demo", "--profile", PROFILE], "--trace and --profile go together"),
        (["--trace", "t.csv"], "--trace and --profile go together"),
        (["--trace", "t.csv", "--profile", PROFILE, "--suite", "core"], "got --suite and --trace"),
        (["--trace", "nope.csv", "--profile", PROFILE], "nope.csv: no such file"),
        (["--trace", "t.csv", "--profile", "llama"], "llama: unknown profile"),
        (
            ["--trace", "t.csv", "--profile", PROFILE],
            "t.csv, the whole range (0-200 s) holds 200 s",
        ),
        (["--trace", "t.csv", "--profile", PROFILE, "--split", "test", "--ticks", "9"], "test"),
        (["--trace", "t.csv", "--profile", PROFILE, "--to", "9999"], "to_s: 9999.0"),
        (["--trace", "t.csv", "--profile", PROFILE, "--from", "9999"], "from_s"),
    ],
)
def test_wrong_sources_are_one_line(
    cli: Cli, tmp_path: Path, arguments: list[str], words: str
) -> None:
    write_trace(tmp_path / "t.csv")
    line = cli.refusal("evaluate", "--policy", "do_nothing", *arguments)
    assert words in line
    assert contents(tmp_path) == ["t.csv"]
