"""What a leaderboard is about: shipped specifications are whole, malformed ones are one line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepilot.agents.baselines.registry import REPLICA_KEEPERS
from gatepilot.agents.contestants import parse_contestant
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.agents.tuning import tunable_names
from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments.leaderboard.spec import (
    LeaderboardSpec,
    SpecError,
    load_spec,
    spec_names,
)
from gatepilot.experiments.suites import suite

CONTENT: dict[str, Any] = {
    "name": "small",
    "description": "Two of them.",
    "policies": ["do_nothing", "always_max"],
    "against": "do_nothing",
    "bound": "always_max",
    "floor": "do_nothing",
    "windows": 2,
    "suite": "quick",
}


def test_the_full_one_names_every_controller_that_can_be_tuned() -> None:
    """A controller that was registered and forgotten here is missing from the comparison."""
    spec = load_spec("full")
    wanted = tunable_names(scenario_site(load_scenario("steady")))
    assert set(wanted) - set(spec.policies) == set(), "add them to leaderboard/full.yaml"
    assert {"best_fixed", "hindsight", "do_nothing", "always_max"} <= set(spec.policies)
    assert spec.suite == "full"


@pytest.mark.parametrize("name", spec_names())
def test_everybody_and_everything_in_a_shipped_one_is_known(name: str) -> None:
    spec = load_spec(name)
    assert spec.name == name
    for policy in spec.policies:
        parse_contestant(policy, _nobody)
        is_alone = policy in ALONE or policy in REPLICA_KEEPERS
        assert is_alone or policy.endswith("@unit") or f"{policy}@unit" in spec.policies
    for scenario in spec.scenarios or suite(str(spec.suite)):
        load_scenario(scenario)
    assert spec.windows >= 6, "fewer allow no verdict"


ALONE = {"best_fixed", "hindsight", "lookahead", "do_nothing", "always_max"}
"""Those that have no form at steps of one."""


def _nobody(run_id: str) -> Any:  # noqa: ANN401
    raise AssertionError(run_id)


def test_the_bound_is_the_best_that_knows_what_is_to_come() -> None:
    assert load_spec("full").bound == "lookahead"


def written(folder: Path, **changes: Any) -> str:  # noqa: ANN401
    path = folder / "small.yaml"
    content = {key: value for key, value in (CONTENT | changes).items() if value is not None}
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, ticks=3, seed=5))
    assert spec == LeaderboardSpec(
        **(CONTENT | {"policies": ("do_nothing", "always_max"), "ticks": 3, "seed": 5})
    )


def test_its_digest_changes_with_everything_but_the_description(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path))
    changes: list[dict[str, Any]] = [
        {"name": "other"},
        {"policies": ("always_max", "do_nothing")},
        {"against": "always_max"},
        {"floor": "always_max"},
        {"windows": 3},
        {"suite": "core"},
        {"ticks": 9},
        {"split": "train"},
        {"seed": 1},
    ]
    digests = {replace(spec, **change).digest for change in changes} | {spec.digest}
    assert len(digests) == len(changes) + 1
    assert replace(spec, description="told otherwise").digest == spec.digest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window": 3}, "small.yaml: window: unknown key; did you mean windows?"),
        ({"windows": None}, "small.yaml: windows: missing key"),
        ({"windows": 0}, "small.yaml: windows: 0 should be greater than or equal to 1"),
        ({"windows": "2"}, "small.yaml: windows: '2' should be a valid integer"),
        ({"policies": []}, "small.yaml: policies: [] should"),
        ({"policies": ["do_nothing"]}, "small.yaml: bound: always_max is none of the policies"),
        ({"policies": ["do_nothing", "always_max"] * 2}, "small.yaml: policies: one is named twi"),
        ({"suite": "cor"}, "small.yaml: suite: cor is none of"),
        ({"suite": None}, "small.yaml: suite: name a suite, or scenarios"),
        ({"scenarios": ["steady"]}, "small.yaml: suite: name a suite, or scenarios"),
        ({"split": "tst"}, "small.yaml: split: tst is none of train, validation, test"),
        ({"seed": -1}, "small.yaml: seed: -1 should be greater"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(written(tmp_path, **changes))
    assert str(caught.value).startswith(words)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ful", "ful: unknown leaderboard; known: full, main, quick, or a YAML file"),
        ("no.yaml", "no.yaml: cannot be read"),
    ],
)
def test_an_unknown_one_is_one_line(name: str, words: str) -> None:
    with pytest.raises(SpecError, match=f"^{words}"):
        load_spec(name)


def test_a_file_without_keys_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("- 1")
    with pytest.raises(SpecError, match=r"^list\.yaml: expected keys and values"):
        load_spec(str(path))
