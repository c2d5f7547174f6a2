"""A light gateway with a load that comes and goes, and an artifact that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatepilot.agents.artifact.layout import MANIFEST_FILE
from gatepilot.agents.artifact.manifest import canonical, parse_manifest
from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.agents.baselines.planner.advisor import advisor_identity
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.evaluation import Progress, no_progress
from gatepilot.envs.scenario import Scenario, load_scenario
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.experiments.config import to_yaml
from gatepilot.experiments.rehearsal.faults import TelemetryFault
from gatepilot.experiments.rehearsal.incumbent import IncumbentChoice, named_incumbent
from gatepilot.experiments.rehearsal.plan import RehearsalPlan, load_for, one_window

from ...deploy_bridge.tiny_artifact import write_artifact
from ..cli_kit import write_scenario, write_trace

TICKS = 40
QUICK_HPA = {"metrics": [{"metric": "outstanding", "target": 2.0}]}
"""Acts on the light load, which hardly warms a replica."""


class Quiet:
    """Shows nothing."""

    def start(self, what: str, ticks: int) -> Progress:
        del what, ticks
        return no_progress


def write_wave(folder: Path) -> Path:
    """A scenario: two requests a second, ten of them from 500 to 700 s."""
    path = write_scenario(
        folder / "wave.yaml",
        splits={"train": [0.0, 150.0], "validation": [150.0, 300.0], "test": [300.0, 900.0]},
        cluster={"max_replicas": 3, "initial_replicas": 1, "cold_start_s": 20.0},
        control={"episode_ticks": TICKS, "warmup_s": 30.0},
    )
    arrivals = sorted(
        [i / 2 for i in range(1800)] + [500 + i / 8 for i in range(1600)],
    )
    write_trace(folder / "light.csv", *(f"{s},100,40" for s in arrivals))
    return path


def contract_of(scenario: Scenario, **changes: Any) -> Contract:  # noqa: ANN401
    telemetry = scenario.telemetry
    contract = Contract(
        ObservationSpec(),
        control_interval_s=scenario.control.tick_s,
        window_s=telemetry.window_s,
        minimum_samples=telemetry.minimum_samples,
    )
    return replace(contract, **changes)


def advised_contract(scenario: Scenario) -> Contract:
    return contract_of(
        scenario,
        observation=ObservationSpec("advised"),
        advisor=advisor_identity(PlannerParams()),
    )


def write_fitting(
    folder: Path,
    scenario: Scenario,
    contract: Contract | None = None,
    **changes: Any,  # noqa: ANN401
) -> ArtifactPolicy:
    """An artifact that was "trained" on the scenario."""
    made = write_artifact(folder, contract=contract or contract_of(scenario), **changes)
    manifest = parse_manifest((folder / MANIFEST_FILE).read_bytes())
    origin = replace(
        manifest.origin, scenarios=(scenario.name,), scenarios_yaml=to_yaml([scenario])
    )
    (folder / MANIFEST_FILE).write_bytes(canonical(replace(manifest, origin=origin)))
    return load_for(scenario, made.folder, None)


def make_plan(
    scenario_file: Path,
    artifact: ArtifactPolicy,
    *,
    faults: Sequence[TelemetryFault] = (),
    incumbent: IncumbentChoice | None = None,
    seed: int = 0,
) -> RehearsalPlan:
    trial = one_window(
        load_scenario(scenario_file),
        split="test",
        ticks=None,
        number=None,
        seed=seed,
        traces_dir=None,
    )
    return RehearsalPlan(
        trial, artifact, incumbent or named_incumbent("hpa", QUICK_HPA), tuple(faults)
    )
