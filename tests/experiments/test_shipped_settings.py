"""Files of tuned settings: read strictly, taken only where the scenario is the one they are for."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepilot.agents import tuning
from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.agents.baselines.hpa_behavior import HpaBehavior
from gatepilot.agents.choice import Choice, default_choice
from gatepilot.agents.digests import scenario_digest
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.agents.tuning import Tuned, tunable_names
from gatepilot.envs.scenario import Scenario, load_scenario
from gatepilot.experiments import shipped_settings as module
from gatepilot.experiments.shipped_settings import (
    SHIPPED_DIR,
    SettingsFile,
    ShippedSettingsError,
    read_settings,
    shipped_settings,
    tuned_controller,
    write_settings,
)

from .cli_kit import Cli

TUNED_HPA = HpaParams(metrics=(MetricTarget("kv", 0.3),), behavior=HpaBehavior())


@pytest.fixture(scope="module")
def demo() -> Scenario:
    return load_scenario("demo")


def settings_file(scenario: Scenario, **changes: Any) -> SettingsFile:  # noqa: ANN401
    choices = (Choice("hpa", TUNED_HPA, 4), default_choice("hpa@unit"), default_choice("fixed"))
    made = SettingsFile(
        format=1,
        scenario=scenario.name,
        scenario_digest=scenario_digest(scenario),
        traffic="model servegen-tenants",
        traffic_sha256="0" * 64,
        ticks=120,
        train_windows=8,
        validation_windows=7,
        commands=("gatepilot tune --scenario demo",),
        controllers={
            choice.name: tuned_controller(Tuned(choice, 48, -1e-05, -2.0, -3.0, -3.0))
            for choice in choices
        },
    )
    return replace(made, **changes)


@pytest.fixture
def path(tmp_path: Path, demo: Scenario) -> Path:
    path = tmp_path / "demo.yaml"
    write_settings(path, settings_file(demo))
    return path


def test_what_is_written_is_what_is_read(path: Path, demo: Scenario) -> None:
    read = read_settings(path, demo)
    assert read == settings_file(demo)
    assert read.choices["hpa"] == Choice("hpa", TUNED_HPA, 4)
    assert read.choices["hpa@unit"] == default_choice("hpa@unit")
    text = path.read_text()
    assert "gatepilot tune" in text.splitlines()[1]
    write_settings(path, read)
    assert path.read_text() == text


def edited(path: Path, demo: Scenario, edit: Callable[[dict[str, Any]], object]) -> str:
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ShippedSettingsError) as caught:
        read_settings(path, demo)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert line.startswith("demo.yaml: ")
    return line.removeprefix("demo.yaml: ")


def hpa(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["controllers"]["hpa"]
    return found


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda c: c.update(tick=3), "tick: unknown key; did you mean ticks?"),
        (lambda c: c.pop("ticks"), "ticks: missing key"),
        (lambda c: c.update(ticks="many"), "ticks: 'many' should be a valid integer"),
        (lambda c: c.update(ticks=0), "ticks: 0, expected 1 or more"),
        (lambda c: c.update(format=2), "format: 2, expected 1"),
        (lambda c: c.update(scenario="steady"), "scenario: steady, expected demo"),
        (lambda c: c.update(controllers=3), "controllers: 3 should be an object"),
        (
            lambda c: c.update(scenario_digest="0"),
            "scenario_digest: demo or its profile has changed since: tune it again (gatepilot tune "
            "--scenario demo)",
        ),
        (
            lambda c: c["controllers"].update(hpaa=hpa(c)),
            "controllers.hpaa: unknown controller 'hpaa': did you mean hpa",
        ),
        (lambda c: hpa(c).update(trails=3), "controllers.hpa.trails: unknown key"),
        (lambda c: hpa(c).pop("train"), "controllers.hpa.train: Field required"),
        (lambda c: hpa(c).update(trials=0), "controllers.hpa.trials: 0, expected 1 or more"),
        (lambda c: hpa(c)["params"].update(synk_s=3), "controllers.hpa.params.synk_s: unknown key"),
        (
            lambda c: hpa(c)["params"].update(sync_s="x"),
            "controllers.hpa.params.sync_s: 'x' should be a number",
        ),
        (lambda c: hpa(c)["params"].update(sync_s=-1), "controllers.hpa.params: HPA with 1 metric"),
        (
            lambda c: hpa(c)["params"]["metrics"][0].update(metric="gpu"),
            "controllers.hpa.params.metrics.0.metric",
        ),
        (lambda c: hpa(c).update(threshold_steps=20), "controllers.hpa.threshold_steps: 20, exp"),
        (
            lambda c: c["controllers"]["fixed"].update(threshold_steps=3),
            "controllers.fixed.threshold_steps: fixed sets the threshold itself",
        ),
        (
            lambda c: hpa(c).update(validation=-3.1),
            "controllers.hpa.validation: -3.1 is not at least what the defaults achieve (-3.0)",
        ),
        (lambda c: hpa(c).update(train=float("nan")), "controllers.hpa.train: "),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(
    path: Path, demo: Scenario, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    assert edited(path, demo, edit).startswith(words)


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "a: 1\na: 2\n"])
def test_a_file_that_is_no_settings_is_one_line(path: Path, demo: Scenario, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ShippedSettingsError, match=r"^demo\.yaml: ") as caught:
        read_settings(path, demo)
    assert len(str(caught.value).splitlines()) == 1


def test_they_are_taken_where_the_scenario_is_the_shipped_one(
    path: Path, demo: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHIPPED_DIR", path.parent)
    found = shipped_settings(demo)
    assert found is not None
    assert found.choices["hpa"].params == TUNED_HPA
    colder = replace(demo, cluster=replace(demo.cluster, cold_start_s=5.0))
    assert shipped_settings(colder) is None
    assert shipped_settings(load_scenario("steady")) is None
    edited(path, demo, lambda c: c.update(scenario_digest="0"))
    with pytest.raises(ShippedSettingsError, match="has changed since"):
        shipped_settings(demo)


@pytest.mark.timeout(60)
def test_an_evaluation_plays_with_them_and_says_so(
    cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHIPPED_DIR", path.parent)
    monkeypatch.setattr(tuning, "TRIALS", 2)
    demo = ("evaluate", "--policy", "hpa", "--scenario", "demo", "--ticks", "2", "--windows", "2")
    shipped = cli.json(*demo)
    settings = shipped["summary"][0]["settings"]["demo"]
    assert settings["params"]["metrics"] == [{"metric": "kv", "target": 0.3}]
    assert (settings["threshold_steps"], settings["from"]) == (4, "shipped")
    assert not (path.parent / "cache").exists()
    (note,) = shipped["provenance"]["notes"]
    assert note.startswith(
        "demo: the shipped settings of its controllers were tuned on model servegen-tenants "
        "(000000000000), the traffic here is model servegen-tenants ("
    )
    colder = cli.json(*demo, "--cold-start", "5")
    assert colder["summary"][0]["settings"]["demo"]["from"] == "tuned"
    assert (path.parent / "cache" / "demo").exists()


def test_what_ships_can_be_read_and_is_whole() -> None:
    """Every shipped file fits its scenario as it is now and names every tunable controller."""
    for path in sorted(SHIPPED_DIR.glob("*.yaml")):
        scenario = load_scenario(path.stem)
        read = read_settings(path, scenario)
        assert set(read.controllers) == set(tunable_names(scenario_site(scenario))), path.name
        assert asdict(read)["commands"]
