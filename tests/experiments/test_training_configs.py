"""The shipped trainings, how files are found and read, and where a result comes from."""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from gatepilot.agents.config import ConfigError, parse_config
from gatepilot.agents.digests import json_digest
from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments.config import config_names, flat, load_config, to_yaml
from gatepilot.experiments.provenance import collect
from gatepilot.experiments.shipped_settings import shipped_settings
from gatepilot.experiments.suites import suite
from gatepilot.reward.presets import REWARDS


@pytest.mark.parametrize("name", config_names())
def test_shipped_configurations_can_be_trained(name: str) -> None:
    config = load_config(name)
    assert config.name == name
    assert config.reward in REWARDS
    for scenario in map(load_scenario, config.scenarios):
        from_s, to_s = scenario.split_range("validation")
        assert config.validation.ticks * scenario.control.tick_s <= to_s - from_s
    assert parse_config(yaml.safe_load(to_yaml(config)), where=name) == config


def test_the_standard_training_is_of_the_whole_suite() -> None:
    assert load_config("standard").scenarios == suite("full")


def test_the_document_s_learner_has_the_document_s_numbers() -> None:
    config = load_config("tenants70b_dqn")
    assert (config.algo, config.observation) == ("dqn", "documented")
    dqn = config.dqn
    assert (dqn.gamma, dqn.buffer_size) == (0.99, 100_000)
    assert (dqn.exploration_start, dqn.exploration_end) == (1.0, 0.1)
    documented = load_config("tenants70b_documented")
    assert (documented.observation, documented.ppo.gamma) == ("documented", 0.99)


def test_numbers_with_an_exponent_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nscenarios: [demo]\nppo:\n  learning_rate: 5e-4\n  gamma: 9.0e-1\n")
    config = load_config(path)
    assert config.ppo.learning_rate == 5e-4
    assert flat(config)["ppo.gamma"] == "0.9"


def test_a_scenario_file_is_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nscenarios: [mine.yaml, demo]\n")
    assert load_config(path).scenarios == ("mine.yaml", "demo")
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    assert load_config(path).scenarios == (str(tmp_path / "mine.yaml"), "demo")


def test_tuned_stands_for_the_advisors_that_ship(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nscenarios: [steady, demo]\nadvisors: tuned\n")
    config = load_config(path)
    settings = shipped_settings(load_scenario("steady"))
    assert settings is not None
    shipped = settings.controllers["planner@unit"].params["planner"]
    assert {name: asdict(own) for name, own in config.advisors.items()} == {"steady": shipped}
    assert flat(config)["advisors"] == f"1 scenarios: {json_digest({'steady': shipped})[:12]}"
    assert parse_config(yaml.safe_load(to_yaml(config)), where="again") == config
    path.write_text("name: x\nscenarios: [steady]\nobservation: extended\nadvisors: tuned\n")
    assert not {"advisors", "advisor"} & flat(load_config(path)).keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", r"x\.yaml: line \d"),
        ("name: x\nname: y\n", "x.yaml: line 2: name: key appears twice"),
        ("- name", r"x\.yaml: expected keys and values"),
        ("", r"x\.yaml: expected keys and values"),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read"):
        load_config("nowhere.yaml")


def test_provenance_names_command_code_and_versions() -> None:
    found = collect(["/somewhere/bin/gatepilot", "train", "a b"])
    assert found.command == "gatepilot train 'a b'"
    assert found.versions["torch"]
    assert found.versions["gatepilot"]
    assert found.started_at.endswith("+00:00")
    assert found.cpus >= 1
    assert (found.git_commit is None) == (found.git_dirty is None)
