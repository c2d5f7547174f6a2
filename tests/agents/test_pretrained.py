"""The policies that ship: sealed, of a contract that this code has, and played by name."""

import hashlib

import pytest

from gatepilot.agents.artifact.runtime import load_artifact
from gatepilot.agents.contestants import Learned, parse_contestant
from gatepilot.agents.pretrained import PREFIX, pretrained_folder, pretrained_names
from gatepilot.agents.trial import plan_trial
from gatepilot.envs.scenario import load_scenario


def no_run(run_id: str) -> None:
    raise AssertionError(run_id)


def test_one_of_each_learner_ships() -> None:
    assert pretrained_names() == ("dqn", "ppo")


@pytest.mark.parametrize("name", pretrained_names())
def test_it_is_whole_and_of_this_contract(name: str) -> None:
    policy = load_artifact(pretrained_folder(name), public_key=None, allow_unsigned=True)
    graph = (pretrained_folder(name) / "policy.onnx").read_bytes()
    assert policy.manifest.files["policy.onnx"] == hashlib.sha256(graph).hexdigest()
    contestant = parse_contestant(PREFIX + name, no_run)  # type: ignore[arg-type]
    assert isinstance(contestant, Learned)
    for scenario in ("steady", "demo"):
        planned = plan_trial(load_scenario(scenario), split="test", ticks=20, windows=1, seed=0)
        contestant.check(planned)
    advisors = contestant.members[0].advisors
    assert set(advisors) == set(policy.manifest.origin.scenarios)
    assert contestant.members[0].advisor == policy.manifest.advisor
