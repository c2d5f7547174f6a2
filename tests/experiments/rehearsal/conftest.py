"""One light scenario and one artifact for all tests of the rehearsal."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments.rehearsal.faults import Blackout
from gatepilot.experiments.rehearsal.plan import RehearsalPlan
from gatepilot.experiments.rehearsal.rehearsal import Rehearsal, rehearse

from .rehearsal_kit import Quiet, advised_contract, make_plan, write_fitting, write_wave


@pytest.fixture(scope="session")
def wave(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wave(tmp_path_factory.mktemp("wave"))


@pytest.fixture(scope="session")
def artifact(wave: Path) -> ArtifactPolicy:
    return write_fitting(wave.with_name("artifact"), load_scenario(wave))


@pytest.fixture(scope="session")
def advised(wave: Path) -> RehearsalPlan:
    """With a policy that is advised by the planner."""
    scenario = load_scenario(wave)
    contract = advised_contract(scenario)
    return make_plan(wave, write_fitting(wave.with_name("advised"), scenario, contract))


@pytest.fixture(scope="session")
def plan(wave: Path, artifact: ArtifactPolicy) -> RehearsalPlan:
    return make_plan(wave, artifact)


@pytest.fixture(scope="session")
def rehearsal(
    wave: Path, artifact: ArtifactPolicy, tmp_path_factory: pytest.TempPathFactory
) -> Rehearsal:
    """With a blackout, and its ledger kept."""
    blinded = make_plan(wave, artifact, faults=[Blackout(10, 14)])
    return rehearse(blinded, tmp_path_factory.mktemp("state"), Quiet())
