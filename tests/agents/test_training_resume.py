"""A training that is killed and resumed ends with the same weights, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch

from gatepilot.agents.callbacks import CHECKPOINT_FILE, TrainingStatus
from gatepilot.agents.checkpoint import CheckpointError, load_checkpoint
from gatepilot.agents.config import TrainingConfig
from gatepilot.agents.training import Training

from .training_helpers import SCENARIO, ListRecorder, tiny


class KilledError(Exception):
    """Stands for a kill."""


def weights(training: Training) -> dict[str, Any]:
    optimizer = training._model.policy.optimizer.state_dict()["state"]
    moments = {
        f"{i}.{name}": value for i, state in optimizer.items() for name, value in state.items()
    }
    return dict(training._model.policy.state_dict()) | moments


def killed_at(steps: int, config: TrainingConfig, folder: Path) -> None:
    def kill(status: TrainingStatus) -> None:
        if status.steps >= steps:
            raise KilledError

    with pytest.raises(KilledError):
        Training(config).run(folder, ListRecorder(), on_status=kill)


SEVERAL: dict[str, Any] = {
    "scenarios": [str(SCENARIO), str(SCENARIO.with_name("tiny_faults.yaml"))],
    "load_scales": [1.0, 2.0],
    "randomised": {"cold_start": [0.5, 2.0], "surge": [1.1, 2.0], "more_faults": 0.5},
}


@pytest.mark.parametrize(
    "changes", [{"algo": "ppo"}, {"algo": "dqn"}, SEVERAL], ids=["ppo", "dqn", "several"]
)
def test_resumed_training_equals_an_unbroken_one(changes: dict[str, Any], tmp_path: Path) -> None:
    validation = {"every_steps": 128, "windows": 2, "ticks": 4}
    config = tiny(steps=512, validation=validation, **changes)
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    whole, recorder = Training(config), ListRecorder()
    result = whole.run(tmp_path / "whole", recorder)

    killed_at(192, config, tmp_path / "broken")  # twice, in the middle of episodes
    again = load_checkpoint(tmp_path / "broken" / CHECKPOINT_FILE)
    assert again["counters"]["num_timesteps"] in {128, 192, 256}
    assert again["environment"]["ages"].max() > 0
    torch.manual_seed(12345)  # whatever else has drawn numbers since then
    second, later = Training(config), ListRecorder()
    resumed = second.run(tmp_path / "broken", later, resume=True)

    for name, value in weights(whole).items():
        assert torch.equal(value, weights(second)[name]), name
    assert resumed.steps == result.steps
    assert resumed.validation == result.validation
    assert resumed.best_step == result.best_step
    first_step = later.flushed[0][0]
    expected = [entry for entry in recorder.flushed if entry[0] >= first_step]
    returns = "validation/return_mean"
    assert [(s, v.get(returns)) for s, v in later.flushed] == [
        (s, v.get(returns)) for s, v in expected
    ]


def test_other_seeds_give_other_weights(tmp_path: Path) -> None:
    trainings = [Training(tiny(seed=seed, steps=64)) for seed in (0, 0, 1)]
    for training in trainings:
        training.run(tmp_path, ListRecorder())
    first, same, other = (weights(training)["action_net.weight"] for training in trainings)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint was written"):
        Training(tiny()).run(tmp_path, ListRecorder(), resume=True)
    Training(tiny(steps=64)).run(tmp_path, ListRecorder())
    with pytest.raises(CheckpointError, match="another configuration"):
        Training(tiny(algo="dqn")).run(tmp_path, ListRecorder(), resume=True)
    (tmp_path / CHECKPOINT_FILE).write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        Training(tiny()).run(tmp_path, ListRecorder(), resume=True)
    torch.save({"format": 0}, tmp_path / CHECKPOINT_FILE)
    with pytest.raises(CheckpointError, match="format 1"):
        Training(tiny()).run(tmp_path, ListRecorder(), resume=True)


def test_a_kill_after_the_last_step_leaves_only_the_result_to_resume(tmp_path: Path) -> None:
    result = Training(tiny(steps=64)).run(tmp_path, ListRecorder())
    recorder = ListRecorder()
    again = Training(tiny(steps=64)).run(tmp_path, recorder, resume=True)
    assert (again.validation, again.best_step) == (result.validation, result.best_step)
    assert again.steps == 64
    assert again.wall_s == pytest.approx(result.wall_s, abs=0.5)
    assert recorder.flushed == recorder.pending == []


def test_a_kill_while_writing_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at(128, tiny(), tmp_path)
    before = (tmp_path / CHECKPOINT_FILE).read_bytes()

    save = torch.save

    def half(content: object, target: Any) -> None:  # noqa: ANN401
        if not isinstance(target, Path):  # a model within its archive
            save(content, target)
            return
        target.write_bytes(b"half")
        raise KilledError

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(KilledError):
        Training(tiny()).run(tmp_path, ListRecorder(), resume=True)
    assert (tmp_path / CHECKPOINT_FILE).read_bytes() == before
