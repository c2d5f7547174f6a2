"""A training ends with the best model by validation, not with the last one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from gatepilot.agents.callbacks import (
    BEST_MODEL_FILE,
    TrainingCallback,
    TrainingDivergedError,
    TrainingStatus,
)
from gatepilot.agents.config import ConfigError
from gatepilot.agents.learned_policy import LearnedPolicy, load_policy
from gatepilot.agents.training import Training, contract_of
from gatepilot.agents.validation import Validation, ValidationResult
from gatepilot.agents.windows import WindowError
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec

from .training_helpers import ListRecorder, tiny


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_figures_model_and_status(algo: str, tmp_path: Path) -> None:
    config = tiny(algo=algo)
    recorder, statuses = ListRecorder(), list[TrainingStatus]()
    result = Training(config).run(tmp_path, recorder, on_status=statuses.append)
    assert result.steps == 256
    assert result.model_path == tmp_path / BEST_MODEL_FILE
    assert result.model_path.is_file()
    assert recorder.pending == []
    validated = [step for step, values in recorder.flushed if "validation/return_mean" in values]
    assert validated == [0, 128, 256]
    last = recorder.flushed[-1][1]
    assert {"rollout/violation_rate", "rollout/replicas", "train/loss"} <= last.keys()
    assert last["validation/best_return"] == pytest.approx(result.validation.return_mean)
    assert statuses[-1].steps == 256
    assert statuses[-1].steps_per_s > 0
    assert result.wall_s > 0


def test_the_best_checkpoint_is_kept_and_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # three checkpoints, each judged with a lean of 0, 1 and 2 towards one more replica
    returns = iter([-3.0, -3.5, -4.0, -2.0, -1.0, -2.5, -2.0, -2.0, -2.0])
    seen = []

    def judge(self: Validation, policy: LearnedPolicy) -> ValidationResult:
        weights = policy.network.state_dict()
        seen.append({name: value.clone() for name, value in weights.items()})
        mean = next(returns)
        return ValidationResult(2, 4, mean, mean, mean, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)

    monkeypatch.setattr(Validation, "run", judge)
    config = tiny()
    result = Training(config).run(tmp_path, ListRecorder())
    assert result.best_step == 128
    assert result.validation.return_mean == -1.0
    kept = load_policy(result.model_path, config).network.state_dict()
    for name, value in kept.items():
        assert torch.equal(value, seen[4][name])
    assert not torch.equal(kept["action_net.bias"], seen[3]["action_net.bias"])
    assert not torch.equal(kept["action_net.weight"], seen[7]["action_net.weight"])


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_loaded_policy_acts_as_the_saved_one(algo: str, tmp_path: Path) -> None:
    config = tiny(algo=algo, steps=64)
    training = Training(config)
    result = training.run(tmp_path, ListRecorder())
    training._model.set_parameters(str(result.model_path))
    spec = config.observation_spec
    drawn = np.random.default_rng(0).uniform(spec.low, spec.high, (100, len(spec.low)))
    observation = drawn.astype(np.float32)
    policy = load_policy(result.model_path, config)
    actions = policy.act(observation)
    assert actions.shape == (100, 2)
    assert actions.dtype == np.int64
    assert actions.min() >= 0
    assert actions.max() <= 2
    assert np.array_equal(actions, LearnedPolicy(training._model.policy).act(observation))
    assert np.array_equal(actions, policy.act(observation))
    other = tiny(algo="dqn" if algo == "ppo" else "ppo")
    with pytest.raises(ValueError, match="not a model of this configuration"):
        load_policy(result.model_path, other)
    with pytest.raises(ValueError, match="not a model of this configuration"):
        load_policy(tmp_path / "checkpoint.pt", config)


def test_weights_that_are_not_finite_end_the_training(tmp_path: Path) -> None:
    training = Training(tiny(steps=128))
    with torch.no_grad():
        training._model.policy.get_parameter("value_net.bias").fill_(torch.nan)
    with pytest.raises(TrainingDivergedError, match="after 0 steps"):
        training.run(tmp_path, ListRecorder())


def test_a_policy_that_chooses_one_action_everywhere_is_noticed(tmp_path: Path) -> None:
    stiff = {"n_steps": 16, "batch_size": 32, "hidden": [16], "no_change_bias": [50, 50]}
    told: dict[str, list[bool]] = {}
    for name, ppo in (("stiff", stiff), ("free", stiff | {"no_change_bias": [0, 0]})):
        (tmp_path / name).mkdir()
        config = tiny(observation="documented", steps=64, ppo=ppo)
        statuses: list[TrainingStatus] = []
        result = Training(config).run(tmp_path / name, ListRecorder(), on_status=statuses.append)
        told[name] = [status.has_collapsed for status in statuses]
        assert result.validation.has_collapsed == (name == "stiff")
    assert all(told["stiff"])
    assert not any(told["free"])


def test_contract_is_the_scenario_s() -> None:
    config = tiny(observation="documented", frame_stack=2)
    scenario = load_scenario("demo")
    telemetry = scenario.telemetry
    expected = Contract(
        ObservationSpec("documented", 2),
        scenario.control.tick_s,
        telemetry.window_s,
        telemetry.minimum_samples,
    )
    assert contract_of(config, scenario) == expected
    assert Training(config).contract == expected


def test_what_cannot_be_trained_is_said_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match=r"unknown preset 'profit'; known: documented"):
        Training(tiny(reward="profit"))
    with pytest.raises(WindowError, match=r"validation\.ticks: tiny: .*at most \d+ ticks fit"):
        Training(tiny(validation={"ticks": 100_000}))
    with pytest.raises(ValueError, match="episode of 1000000 ticks"):
        Training(tiny(episode_ticks=1_000_000))
    with pytest.raises(ValueError, match="nowhere: unknown scenario"):
        Training(tiny(scenarios=["nowhere"]))
    with pytest.raises(ConfigError, match=r"^tiny: advisors: steady is none of the scenarios$"):
        Training(tiny(advisors={"steady": {}}))
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no CUDA device"):
            Training(tiny(), device="cuda")


def test_callback_records_between_rollouts_only() -> None:
    assert TrainingCallback._on_step(object.__new__(TrainingCallback)) is True


def test_the_weight_of_entropy_follows_its_schedule(tmp_path: Path) -> None:
    options = {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "hidden": [16]}
    config = tiny(ppo=options | {"entropy_coef": 0.01, "entropy_coef_end": -0.01})
    training = Training(config)
    training.run(tmp_path, ListRecorder())
    assert isinstance(training._model, PPO)
    last_rollout_began = (config.steps - 4 * 16) / config.steps
    assert training._model.ent_coef == pytest.approx(0.01 - 0.02 * last_rollout_began)
