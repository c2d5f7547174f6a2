"""`gatepilot tune`: what it writes, what it goes on with, and what it refuses."""

from pathlib import Path

import pytest
import yaml

from gatepilot.agents import tuning
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.agents.tuning import tunable_names
from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments.shipped_settings import read_settings

from .cli_kit import Cli, contents, write_scenario

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def light(tmp_path: Path) -> Path:
    return write_scenario(tmp_path / "light.yaml")


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """For searches within this process."""
    monkeypatch.setattr(tuning, "TRIALS", 4)
    monkeypatch.setattr(tuning, "BATCH", 2)
    monkeypatch.setenv("GATEPILOT_WORKERS", "1")


@pytest.mark.usefixtures("small_budget")
def test_a_file_a_scenario_holds_what_was_found(cli: Cli, light: Path) -> None:
    found = cli.json("tune", "--policy", "fixed", "--policy", "hpa@unit", "--scenario", light)
    read = read_settings(Path("tuned/light.yaml"), load_scenario(light))
    assert list(read.controllers) == ["fixed", "hpa@unit"]
    assert read.ticks == 5
    assert (read.train_windows, read.validation_windows) == (4, 4)
    assert read.traffic == "trace light.csv"
    assert read.commands == (f"gatepilot tune --scenario {light} --policy fixed --policy hpa@unit",)
    assert all(one.trials == 4 for one in read.controllers.values())
    (printed,) = found["scenarios"]
    assert printed == yaml.safe_load(Path("tuned/light.yaml").read_text())


@pytest.mark.usefixtures("small_budget")
def test_every_controller_with_something_to_tune_is_tuned(cli: Cli, light: Path) -> None:
    code, out, err = cli("tune", "--scenario", light, "--ticks", "2", "--out", "all")
    assert code == 0, err
    scenario = load_scenario(light)
    read = read_settings(Path("all/light.yaml"), scenario)
    assert tuple(read.controllers) == tunable_names(scenario_site(scenario))
    assert read.ticks == 2
    for name in read.controllers:
        assert f" {name} " in out
    assert out.splitlines()[-1] == "written to all: light.yaml"


@pytest.mark.usefixtures("small_budget")
def test_finished_studies_are_taken_and_other_controllers_stay(
    cli: Cli, light: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune = ("tune", "--scenario", light, "--policy")
    cli.json(*tune, "fixed")
    first = Path("tuned/light.yaml").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "_next_batch", None)  # nothing is played again
        cli.json(*tune, "fixed")
    assert Path("tuned/light.yaml").read_bytes() == first
    cli.json(*tune, "hpa")
    read = read_settings(Path("tuned/light.yaml"), load_scenario(light))
    assert list(read.controllers) == ["fixed", "hpa"]
    assert [command.split()[-1] for command in read.commands] == ["fixed", "hpa"]


@pytest.mark.usefixtures("small_budget")
def test_a_file_of_other_windows_is_not_added_to(cli: Cli, light: Path) -> None:
    cli.json("tune", "--scenario", light, "--policy", "fixed")
    before = contents(Path())
    line = cli.refusal("tune", "--scenario", light, "--policy", "hpa", "--ticks", "3")
    assert "tuned/light.yaml: ticks is 5, here it is 3: remove it, or choose another" in line
    Path("tuned/light.yaml").write_text("format: 1")
    line = cli.refusal("tune", "--scenario", light, "--policy", "hpa")
    assert "light.yaml: scenario: missing key; remove it, or choose another --out" in line
    assert contents(Path()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "hpaa"], "unknown controller 'hpaa': did you mean hpa"),
        (["--policy", "do_nothing"], "do_nothing has nothing to tune: expected one of "),
        (["--policy", "best_fixed"], "unknown controller 'best_fixed'"),
        (["--suite", "cor"], "unknown suite 'cor'"),
        (["--ticks", "0"], "'--ticks'"),
        (["--workers", "0"], "'--workers'"),
        (["--out", "/proc/x"], "/proc/x"),
        (["--studies", "light.csv"], "light.csv is a file, expected a folder"),
    ],
)
def test_wrong_usage_is_one_line_and_leaves_nothing(
    cli: Cli, light: Path, arguments: list[str], words: str
) -> None:
    before = contents(Path())
    assert words in cli.refusal("tune", "--scenario", light, *arguments)
    assert contents(Path()) == before


@pytest.mark.timeout(120)  # two processes import the engine
def test_two_workers_find_what_one_finds(cli: Cli, light: Path, tmp_path: Path) -> None:
    found = []
    for workers in ("1", "2"):
        folders = ("--studies", tmp_path / f"s{workers}", "--out", tmp_path / f"o{workers}")
        cli.json(
            "tune", "--policy", "fixed", "--policy", "hpa", "--scenario", light, "--ticks", "2",
            "--workers", workers, *folders,
        )  # fmt: skip
        found.append((tmp_path / f"o{workers}" / "light.yaml").read_bytes())
    assert found[0] == found[1]
