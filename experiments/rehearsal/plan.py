"""What is rehearsed: one window of a scenario, one artifact, one incumbent, on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import yaml

from ...agents.artifact.errors import ArtifactError, FingerprintMismatchError
from ...agents.artifact.folder import read_folder
from ...agents.artifact.layout import MANIFEST_FILE
from ...agents.artifact.manifest import Manifest, parse_manifest
from ...agents.artifact.runtime import ArtifactPolicy, load_artifact
from ...agents.baselines.planner.advisor import advisor_identity
from ...agents.trial import Trial, prepare_trial
from ...agents.windows import Window
from ...envs.scenario import Scenario, parse_scenarios
from ...envs.schema.fingerprint import Contract
from ...envs.workload.request import Requests
from .errors import RehearsalError
from .faults import TelemetryFault
from .incumbent import IncumbentChoice

_SWING_S: Final = 300.0
"""Load is averaged over so many seconds where windows are compared by it."""


@dataclass(frozen=True)
class RehearsalPlan:
    """Everything that decides how a rehearsal goes."""

    trial: Trial
    """The scenario, with the one window that is played."""
    artifact: ArtifactPolicy
    incumbent: IncumbentChoice
    faults: tuple[TelemetryFault, ...] = ()
    """What goes wrong between the gateway and the bridge's eyes."""

    @property
    def window(self) -> Window:
        """The window that is played."""
        return self.trial.windows[0]


def trained_scenario(folder: Path) -> Scenario:
    """The scenario that an artifact was trained on, as its manifest has it; the first of several.

    Raises:
        ArtifactError: There is no artifact.
        ScenarioError: This version of the code does not read the scenario any more.
    """
    text = _manifest(folder).origin.scenarios_yaml
    return parse_scenarios(yaml.safe_load(text), where=f"{MANIFEST_FILE}: scenarios_yaml")[0]


def load_for(scenario: Scenario, folder: Path, public_key: Path | None) -> ArtifactPolicy:
    """Loads an artifact that is to decide in a scenario.

    Args:
        scenario: What it would see.
        folder: The artifact.
        public_key: Key its signature is checked with; `None`: its signature is not looked at.

    Raises:
        FingerprintMismatchError: It was trained under another contract than the scenario has.
        ArtifactError: It is missing or not as exported.
    """
    manifest, telemetry = _manifest(folder), scenario.telemetry
    contract = Contract(
        manifest.observation_spec,
        scenario.control.tick_s,
        telemetry.window_s,
        telemetry.minimum_samples,
        advisor_identity(manifest.advisor),
    )
    return load_artifact(
        folder, public_key=public_key, allow_unsigned=public_key is None, contract=contract
    )


def one_window(
    scenario: Scenario,
    *,
    split: str | None,
    ticks: int | None,
    number: int | None,
    seed: int,
    traces_dir: Path | None,
) -> Trial:
    """A trial with one window.

    Args:
        scenario: What is run.
        split: Range of its workload; `None`: all of it.
        ticks: Length of the window; `None`: the scenario's.
        number: Which of the windows that fit; `None`: the one in which the load changes most.
        seed: Of traffic, routing and faults.
        traces_dir: Where trace files lie.

    Raises:
        RehearsalError: There is no window of this number.
        WindowError: The range does not hold one window.
        ScenarioError: The traffic cannot be loaded.
    """
    trial = prepare_trial(scenario, split=split, ticks=ticks, seed=seed, traces_dir=traces_dir)
    if number is None:
        length_s = trial.ticks * trial.tick_s
        swings = [swing_rps(trial.requests[w.round], w.start_s, length_s) for w in trial.windows]
        number = int(np.argmax(swings))
    if number >= len(trial.windows):
        msg = f"window {number}: windows 0 to {len(trial.windows) - 1} fit ({trial.ticks} ticks)"
        raise RehearsalError(msg)
    return replace(trial, plan=replace(trial.plan, windows=(trial.windows[number],)))


def swing_rps(requests: Requests, start_s: float, length_s: float) -> float:
    """How far the offered load goes up and down in a window, requests per second.

    Args:
        requests: The offered load of the range.
        start_s: Start of the window, seconds from the range's start.
        length_s: Length of the window.
    """
    parts = max(round(length_s / _SWING_S), 1)
    edges_s = np.linspace(start_s, start_s + length_s, parts + 1)
    rates = np.diff(np.searchsorted(requests.arrival_s, edges_s)) * parts / length_s
    return float(np.ptp(rates))


def _manifest(folder: Path) -> Manifest:
    try:
        return parse_manifest(read_folder(folder)[MANIFEST_FILE])
    except FingerprintMismatchError as error:
        raise FingerprintMismatchError(f"{folder}: {error}") from error
    except ArtifactError as error:
        named = str(error).startswith(str(folder))
        raise ArtifactError(str(error) if named else f"{folder}: {error}") from error
