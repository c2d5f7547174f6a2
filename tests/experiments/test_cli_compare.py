"""`gatepilot compare`: tracked runs side by side."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.training import Training
from gatepilot.experiments.config import load_config
from gatepilot.experiments.provenance import collect
from gatepilot.experiments.tracking import RunStore
from gatepilot.experiments.training_run import open_run, run_training

from .cli_kit import Cli, write_config, write_scenario

pytestmark = pytest.mark.timeout(60)  # making MLflow's database takes a busy machine ten seconds


@pytest.fixture(scope="module")
def tracked(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> tuple[Path, dict[str, str]]:
    """A folder of runs, and their ids: three trainings, and one that never began."""
    work = tmp_path_factory.mktemp("tracked")
    runs = work / "runs"
    runs.mkdir()
    shutil.copy(empty_database, runs)
    write_scenario(work / "light.yaml")
    write_scenario(work / "other.yaml", cluster={"max_replicas": 2, "cold_start_s": 5.0})

    def begin(name: str, scenario: str = "light.yaml", **changes: Any) -> tuple[Training, Any]:  # noqa: ANN401
        config = load_config(write_config(work / "tiny.yaml", scenario, name=name, **changes))
        training = Training(config)
        return training, open_run(training, RunStore(runs), collect(["gatepilot", "train"]))

    ids = {}
    changes: dict[str, dict[str, Any]] = {
        "plain": {"seed": 4},
        "eager": {"seed": 5, "reward_scale": 0.2},
        "longer": {"validation": {"every_steps": 128, "windows": 3, "ticks": 4}},
        "elsewhere": {"scenario": "other.yaml"},
    }
    for name, changed in changes.items():
        training, run = begin(name, **changed)
        ids[name] = run.run_id
        if name == "elsewhere":
            run.stop("KILLED")
        else:
            run_training(training, run)
    return runs, ids


@pytest.fixture
def compare(cli: Cli, tracked: tuple[Path, dict[str, str]]) -> Callable[..., dict[str, Any]]:
    runs, ids = tracked
    return lambda *names: cli.json("compare", *(ids[name] for name in names), "--runs", runs)


def test_what_each_reached_and_in_what_they_differ(
    compare: Callable[..., dict[str, Any]], tracked: tuple[Path, dict[str, str]]
) -> None:
    found = compare("eager", "plain")
    eager, plain = found["runs"]
    assert (eager["name"], plain["name"]) == ("eager-seed5", "plain-seed4")
    assert eager["status"] == plain["status"] == "FINISHED"
    assert found["differences"] == {"reward_scale": ["0.2", "0.1"]}  # seeds stand in the names
    assert found["notes"] == []
    runs, ids = tracked
    for run in found["runs"]:
        best = RunStore(runs).best_figures(run["run_id"])
        assert run["best"] == best
        assert dict(map(tuple, run["curve"]))[int(best["step"])] == best["return_mean"]
        assert [step for step, _ in run["curve"]] == [0, 128, 256]
        assert run["wall_s"] > 0
        assert run["steps_per_s"] == pytest.approx(256 / run["wall_s"])
    assert eager["run_id"] == ids["eager"]


def test_returns_of_other_windows_or_scenarios_are_named(
    compare: Callable[..., dict[str, Any]], tracked: tuple[Path, dict[str, str]]
) -> None:
    _, ids = tracked
    found = compare("plain", "longer", "elsewhere")
    pairs = [f"{ids[name]} and {ids['plain']}: validated on other" for name in ids]
    assert found["notes"] == [
        f"{pairs[2]} windows, returns do not compare",
        f"{pairs[3]} scenarios, returns do not compare",
    ]
    killed = found["runs"][2]
    assert (killed["status"], killed["best"], killed["curve"]) == ("KILLED", {}, [])
    assert killed["wall_s"] is None
    assert found["differences"]["validation.windows"] == ["2", "3", "2"]


def test_without_names_the_newest_come_first(
    cli: Cli, tracked: tuple[Path, dict[str, str]]
) -> None:
    runs, ids = tracked
    found = cli.json("compare", "--runs", runs)
    assert [run["run_id"] for run in found["runs"]] == list(ids.values())[::-1]


def test_tables_and_a_page(cli: Cli, tracked: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    runs, ids = tracked
    page = tmp_path / "runs.html"
    names = (ids["plain"], ids["eager"], ids["elsewhere"])
    code, out, err = cli("compare", *names, "--runs", runs, "--report", page)
    assert (code, err) == (0, "")
    plain = next(line for line in out.splitlines() if "plain-seed4" in line)
    best = RunStore(runs).best_figures(ids["plain"])
    assert plain.split()[:3] == [ids["plain"][:8], "plain-seed4", "FINISHED"]
    assert f"{best['return_mean']:.2f}" in plain.split()
    assert next(line for line in out.splitlines() if "reward_scale" in line).split()[1:3] == [
        "0.1",
        "0.2",
    ]
    assert f"{ids['elsewhere'][:8]} and {ids['plain'][:8]}: validated on other scenarios" in out
    html = page.read_text()
    for word in (
        "plain-seed4",
        "eager-seed5",
        "reward_scale",
        "data:image/svg+xml",
        "do not compare",
    ):
        assert word in html


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0" * 32,), f"run {'0' * 32}: not found"),
        (("--report", "runs.txt"), "runs.txt"),
        (("--runs", "nowhere"), "compare: no runs in nowhere"),
    ],
)
def test_refusals(
    cli: Cli,
    tracked: tuple[Path, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tracked[0].parent)
    assert message in cli.refusal("compare", *arguments)


def test_a_run_named_twice(cli: Cli, tracked: tuple[Path, dict[str, str]]) -> None:
    runs, ids = tracked
    line = cli.refusal("compare", ids["plain"], ids["plain"], "--runs", runs)
    assert f"run {ids['plain']}: named twice" in line
