"""`gatepilot search`: the configuration's own values first, what lags behind ends early."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from optuna.trial import FixedTrial

from gatepilot.agents.config import TrainingConfig, parse_config
from gatepilot.agents.search_space import suggested
from gatepilot.agents.training import Training, TrainingResult
from gatepilot.agents.validation import ValidationResult
from gatepilot.experiments.config import load_config
from gatepilot.experiments.hyper_search import STARTUP_TRIALS, search

from .cli_kit import Cli, write_config, write_scenario

pytestmark = pytest.mark.timeout(60)  # several tiny trainings
PPO = {
    **{"learning_rate": 1e-3, "n_epochs": 5, "clip_range": 0.25, "entropy_coef": 2e-3},
    **{"gae_lambda_scaling": 0.97, "gae_lambda_threshold": 0.7, "advice_logit": 3.0},
    "twin_lean": 0.5,
}
DQN = {
    **{"learning_rate": 3e-4, "n_steps": 4, "gradient_steps": 2, "target_update_steps": 5_000},
    **{"exploration_start": 0.2, "advice_value": 0.05},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_scenario(tmp_path / "light.yaml")
    return write_config(tmp_path / "tiny.yaml", "light.yaml")


def config_of(**changes: Any) -> TrainingConfig:  # noqa: ANN401
    return parse_config({"name": "x", "scenarios": ["demo"]} | changes, where="x")


def test_what_is_suggested_stands_in_the_configuration() -> None:
    ppo = suggested(config_of(ppo={"twins": 4}), FixedTrial(PPO)).ppo
    assert (ppo.learning_rate, ppo.learning_rate_end) == (1e-3, 1e-5)
    assert (ppo.n_epochs, ppo.clip_range, ppo.entropy_coef) == (5, 0.25, 2e-3)
    assert (ppo.gae_lambda, ppo.advice_logits) == ((0.97, 0.7), (3.0, 3.0))
    assert (ppo.twins, ppo.twin_leans) == (4, (0.5, 0.5))
    dqn = suggested(config_of(algo="dqn"), FixedTrial(DQN)).dqn
    assert dqn.learning_rate == 3e-4
    assert dqn.learning_rate_end == pytest.approx(1e-5)
    assert (dqn.n_steps, dqn.gradient_steps, dqn.target_update_steps) == (4, 2, 5_000)
    assert (dqn.exploration_start, dqn.advice_value) == (0.2, (0.05, 0.05))


def test_nobody_is_asked_about_what_there_is_not() -> None:
    few = {name: value for name, value in PPO.items() if name not in ("advice_logit", "twin_lean")}
    alone = config_of(observation="extended", ppo={"twins": 2})
    found = suggested(alone, FixedTrial(few)).ppo
    assert (found.advice_logits, found.twin_leans) == (alone.ppo.advice_logits, (0.0, 0.0))


def test_the_best_is_written_and_can_be_trained(cli: Cli, config: Path, tmp_path: Path) -> None:
    options = ("--trials", "2", "--studies", tmp_path / "studies", "-o", "best.yaml")
    found = cli.json("search", config, *options)
    own, drawn = found["trials"]
    assert own["hyperparameters"] == {}
    assert {"learning_rate", "n_epochs", "advice_logit"} <= drawn["hyperparameters"].keys()
    assert found["score"] == max(own["score"], drawn["score"])
    best = load_config(tmp_path / "best.yaml")
    if own["score"] >= drawn["score"]:
        assert best == load_config(config)
    code, out, _ = cli("search", config, "--trials", "3", *options[2:])
    assert code == 0  # goes on: only the third is trained
    assert "the configuration's own" in out
    assert "written to best.yaml; train it with: gatepilot train best.yaml" in out
    assert cli.json("search", config, *options)["trials"][:2] == found["trials"]


def test_what_lags_behind_ends_early_and_what_diverged_is_passed_over(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores by number: each training gets worse than the one before; the last cannot catch up."""
    from gatepilot.agents.callbacks import TrainingDivergedError  # noqa: PLC0415

    ran: list[int] = []

    def run(self: Training, folder: Path, recorder: Any, **_: Any) -> TrainingResult:  # noqa: ANN401
        number = len(ran)
        ran.append(0)
        if number == 1:
            raise TrainingDivergedError("weights")
        for step in (0, 128, 256):
            ran[-1] = step
            recorder.record(step, {"validation/score": -10.0 - number, "rollout/return": 5.0})
        score = -10.0 - number
        judged = ValidationResult(2, 4, score, score, score, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
        return TrainingResult(folder, 0, judged, 256, 1.0)

    monkeypatch.setattr(Training, "run", run)
    wanted = load_config(config)
    trials = STARTUP_TRIALS + 3
    found = search(wanted, trials=trials, studies=tmp_path / "studies", traces_dir=None)
    assert (found.config, found.score) == (wanted, -10.0)
    states = [one.state for one in found.trials]
    assert states[:3] == ["complete", "fail", "complete"]
    assert found.trials[1].score is None
    assert states[-1] == "pruned"
    assert found.trials[-1].steps == ran[-1] < 256
    again = search(wanted, trials=trials, studies=tmp_path / "studies", traces_dir=None)
    assert again == found
    assert len(ran) == trials


def test_a_damaged_journal_is_named(cli: Cli, config: Path, tmp_path: Path) -> None:
    options = ("--trials", "1", "--studies", tmp_path / "studies", "-o", "best.yaml")
    cli.json("search", config, *options)
    (journal,) = (tmp_path / "studies" / "trainings").iterdir()
    journal.write_text("no journal\n")
    assert f"{journal.name}: is damaged, remove it" in cli.refusal("search", config, *options)
    assert yaml.safe_load((tmp_path / "best.yaml").read_text())["name"] == "tiny"
    assert np.isfinite(load_config(tmp_path / "best.yaml").ppo.learning_rate)
