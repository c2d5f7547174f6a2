"""`gatepilot leaderboard`: one command, the same bytes on any number of workers, verified."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml

from gatepilot.agents.digests import json_digest
from gatepilot.agents.episodes import Outcomes
from gatepilot.experiments.leaderboard import frozen

from ..cli_kit import Cli, contents, write_scenario
from ..test_report import Collector

pytestmark = pytest.mark.timeout(60)
POLICIES = ("random", "do_nothing", "fixed:2", "hindsight", "always_max")
WHEN_AND_HOW = ("run.json", "report.html")
"""Files that say when and how they were made, and so differ."""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Two light scenarios, one of them slower to start, and policies without settings."""
    folder = tmp_path / "spec"
    folder.mkdir()
    for name, cold_start_s in (("quick_start", 20.0), ("slow_start", 60.0)):
        cluster = {"max_replicas": 3, "cold_start_s": cold_start_s}
        write_scenario(folder / f"{name}.yaml", cluster=cluster)
    content = {
        "name": "tiny",
        "description": "Two light scenarios.",
        "scenarios": [str(folder / "quick_start.yaml"), str(folder / "slow_start.yaml")],
        "policies": list(POLICIES),
        "against": "random",
        "bound": "hindsight",
        "floor": "always_max",
        "windows": 4,
    }
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder that must not depend on when and how it was made."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*.*")
        if path.name not in WHEN_AND_HOW
    }


def test_every_table_is_written_and_hashed(cli: Cli, spec: Path) -> None:
    found = cli.json("leaderboard", "--spec", spec, "--out", "board")
    board = Path("board")
    assert contents(board) == sorted(
        ["episodes.parquet", "frozen.json", "leaderboard.csv", "leaderboard.json", "report.html",
         "run.json", "scenarios", "scenarios/quick_start.csv", "scenarios/slow_start.csv"]
    )  # fmt: skip
    assert json.loads((board / "leaderboard.json").read_text()) == found
    assert found["ticks"] == "5 ticks of 15 s"
    digests = found["digests"]
    assert digests["suite_table"] == json_digest(found["suite"])
    for name in ("quick_start", "slow_start"):
        scenario = found["scenarios"][name]
        assert (scenario["tick_s"], scenario["ticks"], scenario["windows"]) == (15.0, 5, 4)
        assert digests["scenarios"][name]["table"] == json_digest(scenario["table"])
    episodes = pyarrow.parquet.read_table(board / "episodes.parquet").to_pylist()
    assert len(episodes) == len(POLICIES) * 2 * 4
    assert digests["episodes"] == json_digest(episodes)
    rows = pyarrow.csv.read_csv(board / "leaderboard.csv").to_pylist()
    for row, printed in zip(rows, found["suite"], strict=True):
        mine = [e["return"] for e in episodes if e["policy"] == row["policy"]]
        assert row["return_mean"] == printed["return_mean"] == pytest.approx(np.mean(mine))
        assert row["return_ci95_low"] == printed["return_ci95"][0]
    assert [row["policy"] for row in rows] == list(POLICIES)
    for table in (board / "leaderboard.csv", *(board / "scenarios").glob("*.csv")):
        ticks = {row["ticks"] for row in pyarrow.csv.read_csv(table).to_pylist()}
        assert ticks == {"5 ticks of 15 s"}
    assert found["sweep"][0]["cold_start_s"] == [20.0, 60.0]


@pytest.mark.timeout(120)  # two processes import the engine
def test_llm_d_autoscaling_681_one_command_reproduces_the_table_on_any_number_of_workers(
    cli: Cli, spec: Path, tmp_path: Path
) -> None:
    """No agreed benchmark baseline: here it is one command, and every byte of it is the same."""
    for workers in ("1", "2"):
        code, _, err = cli(
            "leaderboard", "--spec", spec, "--workers", workers,
            "--out", tmp_path / f"board {workers}", "--cells", tmp_path / f"cells {workers}",
        )  # fmt: skip
        assert code == 0, err
    for kind in ("board", "cells"):
        one, two = files(tmp_path / f"{kind} 1"), files(tmp_path / f"{kind} 2")
        assert one == two
        assert len(one) == {"board": 6, "cells": 20}[kind]


@pytest.mark.timeout(120)
def test_a_run_that_was_killed_half_way_goes_on_to_the_same_bytes(
    cli: Cli, spec: Path, tmp_path: Path
) -> None:
    arguments = ["leaderboard", "--spec", str(spec)]
    killed = [*arguments, "--cells", "killed", "--out", "from killed", "--workers", "2"]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "gatepilot.experiments", *killed],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (stored := list(Path("killed").rglob("*.json"))):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)  # no time to tidy up anything
    process.wait()
    assert not Path("from killed").exists()
    before = {path: path.stat().st_mtime_ns for path in stored}
    code, _, err = cli(*killed)
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    code, _, err = cli(*arguments, "--cells", "whole", "--out", "from whole", "--workers", "1")
    assert code == 0, err
    assert len(err.splitlines()) == len(POLICIES) * 2
    assert files(Path("from killed")) == files(Path("from whole"))


def test_what_is_stored_is_taken_and_a_damaged_cell_is_played_again(
    cli: Cli, spec: Path, cells_dir: Path
) -> None:
    assert cli("leaderboard", "--spec", spec)[0] == 0
    first = files(Path("gatepilot-leaderboard"))
    assert cli("leaderboard", "--spec", spec)[2] == ""
    damaged = sorted(cells_dir.rglob("hindsight-*.npz"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-7])
    code, _, err = cli("leaderboard", "--spec", spec)
    assert code == 0
    noted, played = err.splitlines()
    assert noted.startswith("hindsight on quick_start: a stored cell is not taken")
    assert played == "1/1 hindsight on quick_start ..."
    assert files(Path("gatepilot-leaderboard")) == first


def forge(path: Path) -> None:
    """Makes a cell look better, with every sum and every hash right."""
    content = json.loads(path.read_text())
    course = path.with_suffix(".npz")
    with np.load(course) as arrays:
        outcomes = Outcomes(**dict(arrays.items()))
    better = asdict(outcomes) | {"error_rate": outcomes.error_rate * 0, "shed_rate": [0.25] * 4}
    changed: dict[str, Any] = {key: np.array(value) for key, value in better.items()}
    np.savez_compressed(course, **changed)
    for episode in content["cell"]["episodes"]:
        episode |= {"error_rate": 0.0, "shed_rate": 0.25}
    content["cell"]["course"] = hashlib.sha256(course.read_bytes()).hexdigest()
    content["sha256"] = json_digest([content["ingredients"], content["cell"]])
    path.write_text(json.dumps(content))


def test_a_forged_cell_that_adds_up_is_found_by_playing_it_again(
    cli: Cli, spec: Path, cells_dir: Path
) -> None:
    code, _, err = cli("leaderboard", "--spec", spec, "--verify")
    assert code == 0
    assert err.splitlines()[-1] == "verified: 3 of 3 cells played again, the same"
    forge(next(cells_dir.glob("slow_start/fixed_2-*.json")))
    code, _, err = cli("leaderboard", "--spec", spec, "--verify", "all")
    assert code == 1
    assert err.splitlines()[-2:] == [
        "verified: 9 of 10 cells played again, the same",
        "fixed:2 on slow_start: what is stored is not what is played now",
    ]


def test_a_sample_is_always_the_same_cells(cli: Cli, spec: Path) -> None:
    lines = [cli("leaderboard", "--spec", spec, "--verify")[2].splitlines()[-4:] for _ in range(2)]
    assert lines[0] == lines[1]
    assert [line[:4] for line in lines[0]] == ["1/3 ", "2/3 ", "3/3 ", "veri"]


def test_it_is_held_against_the_frozen_table(
    cli: Cli, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "tiny.frozen.json"
    monkeypatch.setattr(frozen.frozen_table, "__defaults__", (tmp_path,))
    assert cli("leaderboard", "--spec", spec, "--out", "board")[0] == 0
    content: dict[str, Any] = json.loads(Path("board/frozen.json").read_text())

    def again(**changes: str) -> tuple[int, list[str], str]:
        digests = content["digests"] | changes
        shipped.write_text(json.dumps(content | {"digests": digests}))
        code, _, err = cli("leaderboard", "--spec", spec, "--out", "board")
        return code, err.splitlines(), Path("board/report.html").read_text()

    code, lines, html = again()
    assert (code, lines) == (0, ["the frozen table is reproduced: every hash is the same"])
    assert "The frozen table is reproduced" in html
    code, lines, html = again(suite_table="0")
    assert (code, lines) == (1, ["the suite table differs from the frozen one"])
    assert "something else came out" in html
    code, lines, html = again(suite_table="0", sources="0")
    assert code == 0
    assert lines[0] == "the sources differs from the frozen one"
    assert "This is not the frozen comparison" in html


def test_the_table_says_how_long_a_tick_is_and_how_far_each_may_step(cli: Cli, spec: Path) -> None:
    content = yaml.safe_load(spec.read_text())
    content["policies"].append("do_nothing@unit")
    spec.write_text(yaml.safe_dump(content))
    code, out, _ = cli("leaderboard", "--spec", spec)
    assert code == 0
    assert out.splitlines()[0].startswith("tiny: 2 scenarios, 5 ticks of 15 s; gap to hindsight")
    rows = {line.split()[0]: line.split()[1] for line in out.splitlines()[4:11] if line.split()}
    assert rows["do_nothing"] == "native"
    assert rows["do_nothing@unit"] == "unit"
    assert "table " in out
    assert "report gatepilot-leaderboard/report.html" in out
    page = Collector()
    page.feed(Path("gatepilot-leaderboard/report.html").read_text())
    text = " ".join(" ".join(page.text).split())
    assert text.count("5 ticks of 15 s") == 3  # over the suite's table and over each scenario's
    assert page.fetched == []
    assert page.open_tags == []
    for words in ("The longer replicas take to start", "The gap to what could be reached"):
        assert words in text


def test_a_board_without_a_single_window_ends_with_1(cli: Cli, spec: Path) -> None:
    for name in ("quick_start", "slow_start"):
        write_scenario(
            spec.parent / f"{name}.yaml",
            cluster={"max_replicas": 1, "max_num_seqs": 1, "initial_replicas": 1},
            workload={"trace": str(spec.parent / "light.csv"), "to_s": 900.0, "rate_scale": 40.0},
        )
    content = yaml.safe_load(spec.read_text())
    content["policies"].remove("fixed:2")
    spec.write_text(yaml.safe_dump(content))
    code, _, err = cli("leaderboard", "--spec", spec)
    assert code == 1
    assert err.splitlines()[-1] == "nothing to judge: no window can be kept"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--quick", "--spec", "full"], "--quick is a specification of its own"),
        (["--spec", "ful"], "ful: unknown leaderboard; known: full, main, quick, or a YAML file"),
        (["all"], "all: expected --verify, or --verify all"),
        (["--verify", "some"], "some: expected --verify, or --verify all"),
        (["--out", "/proc/x"], "/proc/x"),
        (["--cells", "/proc/x"], "/proc/x"),
        (["--report", "no/r.html"], "the folder no does not exist"),
        (["--workers", "0"], "'--workers'"),
    ],
)
def test_wrong_usage_is_one_line_and_leaves_nothing(
    cli: Cli, spec: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    before = contents(tmp_path)
    is_named = bool({"--spec", "--quick"} & set(arguments))
    named: list[str | Path] = [] if is_named else ["--spec", spec]
    assert words in cli.refusal("leaderboard", *named, *arguments)
    assert contents(tmp_path) == before


def test_an_unknown_policy_is_one_line(cli: Cli, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("fixed:2", "hpaa"))
    assert "unknown policy 'hpaa'" in cli.refusal("leaderboard", "--spec", spec)
