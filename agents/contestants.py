"""Who can take part in an evaluation, by the name given on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import yaml
from pydantic import TypeAdapter, ValidationError

from ..envs.scenario_file import to_json
from ..envs.schema.fingerprint import Contract
from ..envs.schema.observation import ObservationSpec
from .artifact.errors import ArtifactError
from .artifact.layout import MANIFEST_FILE
from .artifact.manifest import Manifest
from .artifact.runtime import load_artifact
from .baselines.planner.advisor import advisor_identity
from .baselines.planner.params import PlannerParams
from .baselines.registry import UNIT_SUFFIX, controller_names
from .bounds import ORACLES, BestFixed, Oracle, constant_maker
from .choice import default_choice
from .contestant import Contestant, Performance, PolicyError, Preparation, SettingsFrom
from .evaluation import play_controllers, play_policy
from .policy import Controller, Policy
from .pretrained import PREFIX, pretrained_folder, pretrained_names
from .trial import Trial, TrialPlan
from .tuning import is_tunable, tune
from .windows import Window

FORMS: Final = (
    f"a controller's name ({', '.join(controller_names())}; {UNIT_SUFFIX} behind it allows steps "
    f"of one only), best_fixed, {', '.join(ORACLES)}, fixed:N, "
    f"{', '.join(PREFIX + name for name in pretrained_names())}, run:ID or the folder of an "
    "exported artifact"
)
"""Everything that `--policy` understands."""


@dataclass(frozen=True)
class TrainedPolicy:
    """A trained policy and what it was trained under."""

    policy: Policy
    observation: ObservationSpec
    fingerprint: str
    """Of the contract; a scenario with another one is refused."""
    train_seed: int
    digest: str
    """Hash of its weights and of what it was trained under: which policy this is."""
    advisor: PlannerParams | None = None
    """Of the planner whose advice it sees; `None`: it sees none."""
    advisors: Mapping[str, PlannerParams] = field(default_factory=dict)
    """Of the planner that advises it instead in some scenarios, by name."""


LoadRun: TypeAlias = Callable[[str], TrainedPolicy]
"""Loads the best model of a tracked run by its id."""


@dataclass(frozen=True)
class TunedController:
    """A controller of the registry with the parameters that did best on training windows."""

    label: str

    def check(self, trial: TrialPlan) -> None:
        """It fits everywhere."""

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Tunes unless tuned settings ship, then plays."""
        choice = default_choice(self.label)
        settings_from: SettingsFrom | None = None
        if self.label in preparation.shipped:
            choice, settings_from = preparation.shipped[self.label], "shipped"
        elif is_tunable(self.label, trial.site):
            settings_from = "tuned"
            choice = tune(
                self.label,
                preparation.tuning_trials(),
                studies_dir=preparation.studies_dir,
                reporter=preparation.reporter,
            ).choice

        def make(window: Window) -> Controller:
            return choice.make(trial.site, window.seed)

        progress = preparation.reporter.start(self.label, len(trial.windows) * trial.ticks)
        outcomes = play_controllers(trial, [make], progress)[0]
        settings = {} if settings_from is None else choice.settings
        return Performance(((None, outcomes),), settings, settings_from)


@dataclass(frozen=True)
class FixedCount:
    """So many replicas, always."""

    label: str
    replicas: int

    def check(self, trial: TrialPlan) -> None:
        """Refuses a number that the cluster does not allow.

        Raises:
            PolicyError: The number lies outside the limits.
        """
        limits = trial.limits
        if limits.clip(self.replicas) != self.replicas:
            msg = (
                f"{self.label}: {trial.scenario.name} allows "
                f"{limits.min_replicas} to {limits.max_replicas} replicas"
            )
            raise PolicyError(msg)

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Plays."""
        progress = preparation.reporter.start(self.label, len(trial.windows) * trial.ticks)
        maker = constant_maker(trial, self.replicas, trial.scenario.gateway.threshold_steps)
        outcomes = play_controllers(trial, [maker], progress)
        return Performance(((None, outcomes[0]),), {"replicas": self.replicas})


@dataclass(frozen=True)
class Learned:
    """One recipe, trained once or with several seeds."""

    label: str
    members: tuple[TrainedPolicy, ...]

    def check(self, trial: TrialPlan) -> None:
        """Refuses a scenario with another contract than it was trained under.

        Raises:
            PolicyError: A fingerprint differs.
        """
        scenario = trial.scenario
        for member in self.members:
            contract = Contract(
                member.observation,
                control_interval_s=trial.tick_s,
                window_s=scenario.telemetry.window_s,
                minimum_samples=scenario.telemetry.minimum_samples,
                advisor=advisor_identity(member.advisor, trial.site.slo),
            )
            if contract.fingerprint != member.fingerprint:
                msg = (
                    f"{self.label}: trained under contract {member.fingerprint[:12]}, but "
                    f"{scenario.name} (tick {trial.tick_s:g} s, window "
                    f"{scenario.telemetry.window_s:g} s) has {contract.fingerprint[:12]}"
                )
                raise PolicyError(msg)

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Plays every member."""
        ticks = len(self.members) * len(trial.windows) * trial.ticks
        progress = preparation.reporter.start(self.label, ticks)
        return Performance(
            tuple(
                (
                    m.train_seed,
                    play_policy(
                        trial,
                        m.policy,
                        m.observation,
                        progress,
                        advisor=m.advisors.get(trial.scenario.name, m.advisor),
                    ),
                )
                for m in self.members
            )
        )


def parse_contestant(text: str, load_run: LoadRun) -> Contestant:
    """Finds out who is meant.

    Args:
        text: A controller's name, `best_fixed`, `hindsight`, `lookahead`, `fixed:N`,
            `pretrained:NAME`, `run:ID`, or an artifact's folder; `run:ID,ID` names several
            trainings of one recipe that differ in their seed. A name wins over a folder that is
            called like it; `./` before it means the folder.
        load_run: Loads a run's model.

    Raises:
        PolicyError: Nobody, in one line that lists what would be understood.
    """
    if text == "best_fixed":
        return BestFixed(text)
    if text in ORACLES:
        return Oracle(text)
    if match := re.fullmatch(r"fixed:(\d+)", text):
        return FixedCount(text, int(match[1]))
    if text.startswith("run:"):
        ids = text.removeprefix("run:").split(",")
        if not all(ids) or len(set(ids)) < len(ids):
            msg = f"{text!r}: expected run:ID, or run:ID,ID with different ids"
            raise PolicyError(msg)
        members = tuple(load_run(run_id) for run_id in ids)
        if len({member.train_seed for member in members}) < len(members):
            msg = f"{text!r}: two runs have the same training seed; name each once"
            raise PolicyError(msg)
        return Learned(text, members)
    if text.removesuffix(UNIT_SUFFIX) in controller_names():
        return TunedController(text)
    if (folder := _artifact_folder(text)) is not None:
        return Learned(text, (_exported(folder),))
    msg = f"unknown policy {text!r}: expected {FORMS}"
    raise PolicyError(msg)


def _artifact_folder(text: str) -> Path | None:
    """That of an artifact that ships, or of any other."""
    name = text.removeprefix(PREFIX)
    if name != text and name in pretrained_names():
        return pretrained_folder(name)
    return Path(text) if text and Path(text).is_dir() else None


def _exported(folder: Path) -> TrainedPolicy:
    """An artifact as it would act live. Who signed it does not matter to an evaluation.

    Raises:
        PolicyError: It is refused.
    """
    try:
        policy = load_artifact(folder, public_key=None, allow_unsigned=True)
    except ArtifactError as error:
        raise PolicyError(str(error)) from error
    manifest = policy.manifest
    return TrainedPolicy(
        policy,
        manifest.observation_spec,
        manifest.fingerprint,
        manifest.origin.seed,
        policy.digest,
        manifest.advisor,
        _advisors(manifest),
    )


def _advisors(manifest: Manifest) -> Mapping[str, PlannerParams]:
    """Those of the training's scenarios, unless the artifact is bound to one of them.

    Raises:
        PolicyError: The training's configuration is none.
    """
    content = yaml.safe_load(manifest.origin.config_yaml)
    if not isinstance(content, dict) or not content.get("advisors") or "advisor" not in content:
        return {}
    try:
        general = TypeAdapter(PlannerParams).validate_json(to_json(content["advisor"]))
        own = TypeAdapter(dict[str, PlannerParams]).validate_json(to_json(content["advisors"]))
    except ValidationError as error:
        msg = f"{MANIFEST_FILE}: origin.config_yaml: advisors: {error.errors()[0]['msg']}"
        raise PolicyError(msg) from error
    return own if general == manifest.advisor else {}
