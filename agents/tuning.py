"""Chooses a controller's parameters on training windows, so that a comparison with it is fair.

Every candidate of the controller's own grid is played through a few windows of the scenario's
`train` split, the best third of them through more; never through those that are evaluated. The one
with the highest mean documented return is taken, the first of equals. A controller at one step a
tick is tuned as such: what suits jumps does not suit steps. Results are kept on disk under a hash
of everything they depend on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ..envs.profiles.profile import load_profile
from ..envs.scenario import Scenario
from .baselines.registry import ControllerParams, make_controller, params_type
from .evaluation import MakeController, Progress, no_progress, play_controllers, unkeepable
from .policy import Controller
from .trial import Trial, prepare_trial
from .windows import Window

TUNING_WINDOWS: Final = 16
"""Training windows the finalists are judged on."""
SCREENING_WINDOWS: Final = 4
"""Training windows every candidate is judged on: hopeless ones are the slow ones to simulate."""
MIN_FINALISTS: Final = 6
"""Candidates that reach the final, if the grid has as many."""
TUNING_SEED: Final = 7_919
"""Base of the training windows' seeds: one, so that a result can be kept whatever is evaluated."""

_ROOT = Path(__file__).parents[1]
_SOURCES: Final = (
    "envs/**/*.py",
    "reward/*.py",
    "agents/baselines/*.py",
    "agents/evaluation.py",
    "agents/episodes.py",
    "agents/trial.py",
    "agents/tuning.py",
    "agents/windows.py",
)
"""Code that a result depends on."""


class Reporter(Protocol):
    """Shows what is going on."""

    def start(self, what: str, ticks: int) -> Progress:
        """Begins a piece of work of so many ticks over all gateways."""
        ...


class SilentReporter:
    """Shows nothing: for callers without a terminal."""

    def start(self, what: str, ticks: int) -> Progress:
        """A piece of work of which nobody is told."""
        del what, ticks
        return no_progress


@dataclass(frozen=True)
class Tuned:
    """The parameters a search has chosen."""

    params: ControllerParams
    return_mean: float
    """Mean documented return on the training windows."""
    candidates: int
    """How many were tried."""
    windows: int
    """On how many training windows."""
    varied: tuple[str, ...]
    """Parameters in which the candidates differ."""

    @property
    def settings(self) -> dict[str, Any]:
        """What was chosen, as plain data: the parameters in which the candidates differ."""
        return {name: asdict(self.params)[name] for name in self.varied}  # type: ignore[call-overload]


def tuning_trial(scenario: Scenario, ticks: int, traces_dir: Path | None) -> Trial:
    """Training windows of a scenario, as long as the evaluated ones where the range allows.

    Raises:
        WindowError: The training range does not hold a single tick.
        ScenarioError: The traffic cannot be loaded.
    """
    from_s, to_s = scenario.split_range("train")
    fitting = max(int((to_s - from_s) // scenario.control.tick_s), 1)
    return prepare_trial(
        scenario,
        split="train",
        ticks=min(ticks, fitting),
        windows=TUNING_WINDOWS,
        seed=TUNING_SEED,
        traces_dir=traces_dir,
    )


def tune(name: str, trial: Trial, *, cache_dir: Path | None, reporter: Reporter) -> Tuned:
    """Chooses the parameters of a controller.

    Training windows that no number of replicas keeps are left out, unless none would remain.

    Args:
        name: A name of the registry, with or without `@unit`.
        trial: Training windows, from `tuning_trial`.
        cache_dir: Where results are kept; `None`: nowhere.
        reporter: Shows progress.
    """
    grid = params_type(name).grid(trial.limits)
    path = None if cache_dir is None else cache_dir / f"{_key(name, grid, trial)}.json"
    kept = _read(path, len(grid))
    if kept is None:
        kept = _search(name, grid, trial, reporter)
        _write(path, kept)
    return Tuned(
        params=grid[kept["choice"]],
        return_mean=kept["return_mean"],
        candidates=len(grid),
        windows=kept["windows"],
        varied=_varied(grid),
    )


def _varied(grid: tuple[ControllerParams, ...]) -> tuple[str, ...]:
    """Fields that do not have the same value in every candidate."""
    contents = [asdict(params) for params in grid]  # type: ignore[call-overload]  # all dataclasses
    return tuple(
        name for name in contents[0] if any(c[name] != contents[0][name] for c in contents)
    )


def _search(
    name: str, grid: tuple[ControllerParams, ...], trial: Trial, reporter: Reporter
) -> dict[str, Any]:
    n_windows = len(trial.windows)
    finalists = min(len(grid), max(MIN_FINALISTS, math.ceil(len(grid) / 3)))
    runs = n_windows + len(grid) * min(SCREENING_WINDOWS, n_windows) + finalists * n_windows
    progress = reporter.start(f"tuning {name}", runs * trial.ticks)
    keepable = unkeepable(trial, progress) == 0
    if keepable.any():
        trial = trial.keeping(keepable.tolist())
    screening = _every(trial, SCREENING_WINDOWS)
    screened = _returns(name, grid, screening, progress)
    best_first = sorted(range(len(grid)), key=lambda i: -screened[i])
    final = sorted(best_first[:finalists])
    means = _returns(name, [grid[i] for i in final], trial, progress)
    best = int(np.argmax(means))
    return {
        "choice": final[best],
        "return_mean": float(means[best]),
        "windows": len(trial.windows),
    }


def _returns(
    name: str, candidates: Sequence[ControllerParams], trial: Trial, progress: Progress
) -> NDArray[np.float64]:
    """Mean documented return of each candidate."""
    makers = [_maker(name, params, trial) for params in candidates]
    outcomes = play_controllers(trial, makers, progress)
    return np.array([outcome.returns.mean() for outcome in outcomes])


def _every(trial: Trial, count: int) -> Trial:
    """So many of the windows, evenly spread."""
    total = len(trial.windows)
    chosen = {place * total // count for place in range(min(count, total))}
    return trial.keeping([i in chosen for i in range(total)])


def _maker(name: str, params: ControllerParams, trial: Trial) -> MakeController:
    def make(window: Window) -> Controller:
        return make_controller(
            name, trial.limits, params=params, tick_s=trial.tick_s, seed=window.seed
        )

    return make


def _key(name: str, grid: tuple[ControllerParams, ...], trial: Trial) -> str:
    """A hash of all that the result depends on."""
    digest = hashlib.sha256(code_digest().encode())
    profile = load_profile(trial.scenario.profile)
    for part in (name, grid, trial.scenario, profile, trial.ticks, trial.windows):
        digest.update(repr(part).encode())
    for requests in trial.requests:
        for array in (requests.arrival_s, requests.prompt_tokens, requests.output_tokens):
            digest.update(array.tobytes())
    return digest.hexdigest()


@cache
def code_digest() -> str:
    """A hash of the sources that decide what a controller achieves."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in _ROOT.glob(pattern)):
        digest.update(path.relative_to(_ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _read(path: Path | None, candidates: int) -> dict[str, Any] | None:
    """A kept result; `None` where there is none that can be used."""
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        usable = 0 <= content["choice"] < candidates and content["windows"] > 0
        return content if usable and isinstance(content["return_mean"], float) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path | None, content: dict[str, Any]) -> None:
    """Keeps a result; a folder that cannot be written to costs only the time of the next search."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(content), encoding="utf-8")
        partial.replace(path)
    except OSError:
        return
