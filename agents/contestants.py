"""Who can take part in an evaluation, by the name given on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from ..envs.schema.fingerprint import Contract
from ..envs.schema.observation import ObservationSpec
from .artifact.errors import ArtifactError
from .artifact.runtime import load_artifact
from .baselines.fixed import FixedParams
from .baselines.planner.advisor import advisor_identity
from .baselines.planner.planner import PlannerParams
from .baselines.registry import UNIT_SUFFIX, controller_names
from .choice import Choice, default_choice
from .episodes import Outcomes
from .evaluation import MakeController, Progress, play_controllers, play_policy
from .oracles.foresight import plan_count, play_hindsight
from .policy import Controller, Policy
from .trial import Trial, TrialPlan
from .tuning import Reporter, TuningTrials, is_tunable, tune
from .windows import Window

FORMS: Final = (
    f"a controller's name ({', '.join(controller_names())}; {UNIT_SUFFIX} behind it allows steps "
    "of one only), best_fixed, hindsight, fixed:N, run:ID or the folder of an exported artifact"
)
"""Everything that `--policy` understands."""
THRESHOLDS_TRIED: Final = (1, 2, 3, 4, 6, 8, 14, 19)
"""Thresholds at which the best constant is looked for, besides the scenario's own."""
SIZES_TRIED: Final = 3
"""Numbers of replicas for which it is looked for at all of them."""


class PolicyError(ValueError):
    """A policy that cannot take part: one line."""


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


LoadRun: TypeAlias = Callable[[str], TrainedPolicy]
"""Loads the best model of a tracked run by its id."""


@dataclass(frozen=True)
class Preparation:
    """What a contestant may use to get ready for a trial."""

    tuning_trials: Callable[[], TuningTrials]
    """Windows of the same scenario to tune on; loaded only when somebody tunes."""
    studies_dir: Path | None
    """Where tuning studies are kept."""
    reporter: Reporter
    shipped: Mapping[str, Choice] = field(default_factory=dict)
    """Settings that ship with the project for this very scenario, by label: they are not looked for
    again."""


SettingsFrom: TypeAlias = Literal["shipped", "tuned"]
"""Whether settings ship with the project or were searched for in this evaluation."""


@dataclass(frozen=True)
class Performance:
    """What a contestant did in a trial."""

    runs: tuple[tuple[int | None, Outcomes], ...]
    """Outcomes by training seed; a rule has one, without seed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Chosen parameters."""
    settings_from: SettingsFrom | None = None
    """Where they come from; `None`: nobody tuned them."""


class Contestant(Protocol):
    """A policy that can be put through a trial."""

    @property
    def label(self) -> str:
        """Its name, as given."""
        ...

    def check(self, trial: TrialPlan) -> None:
        """Raises PolicyError if it does not fit the trial's scenario."""
        ...

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Prepares itself and plays every window."""
        ...


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
        maker = _fixed(trial, self.replicas, trial.scenario.gateway.threshold_steps)
        outcomes = play_controllers(trial, [maker], progress)
        return Performance(((None, outcomes[0]),), {"replicas": self.replicas})


@dataclass(frozen=True)
class BestFixed:
    """The constant that turned out best on these very windows: a bound for constants.

    Every allowed number of replicas is played at the scenario's own threshold. Where faults are on,
    so that it plays a part, the best few are played at other thresholds too.
    """

    label: str

    def check(self, trial: TrialPlan) -> None:
        """It fits everywhere."""

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Plays them all and keeps the highest mean return."""
        limits, start = trial.limits, trial.scenario.gateway.threshold_steps
        counts = range(limits.min_replicas, limits.max_replicas + 1)
        others = [step for step in THRESHOLDS_TRIED if step != start and trial.scenario.faults]
        sizes = min(SIZES_TRIED, len(counts))
        ticks = (len(counts) + sizes * len(others)) * len(trial.windows) * trial.ticks
        progress = preparation.reporter.start(self.label, ticks)
        constants = [(count, start) for count in counts]
        played = _play_constants(trial, constants, progress)
        best_first = sorted(constants, key=lambda c: played[c].returns.mean(), reverse=True)
        further = [(count, step) for count, _ in best_first[:sizes] for step in others]
        played |= _play_constants(trial, further, progress)
        best = max(played, key=lambda constant: played[constant].returns.mean())
        settings = {"replicas": best[0]} | ({"threshold_steps": best[1]} if others else {})
        return Performance(((None, played[best]),), settings)


@dataclass(frozen=True)
class Oracle:
    """The hindsight controller, which knows what is to come: a bound, not a rival."""

    label: str

    def check(self, trial: TrialPlan) -> None:
        """It fits everywhere."""

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Lays its plans and plays them all."""
        plans = plan_count(trial)
        progress = preparation.reporter.start(self.label, plans * len(trial.windows) * trial.ticks)
        return Performance(((None, play_hindsight(trial, progress).outcomes),))


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
                    play_policy(trial, m.policy, m.observation, progress, advisor=m.advisor),
                )
                for m in self.members
            )
        )


def parse_contestant(text: str, load_run: LoadRun) -> Contestant:
    """Finds out who is meant.

    Args:
        text: A controller's name, `best_fixed`, `hindsight`, `fixed:N`, `run:ID`, or an artifact's
            folder; `run:ID,ID` names several trainings of one recipe that differ in their seed. A
            name wins over a folder that is called like it; `./` before it means the folder.
        load_run: Loads a run's model.

    Raises:
        PolicyError: Nobody, in one line that lists what would be understood.
    """
    if text == "best_fixed":
        return BestFixed(text)
    if text == "hindsight":
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
    if text and Path(text).is_dir():
        return Learned(text, (_exported(Path(text)),))
    msg = f"unknown policy {text!r}: expected {FORMS}"
    raise PolicyError(msg)


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
    )


def _play_constants(
    trial: Trial, constants: Sequence[tuple[int, int]], progress: Progress
) -> dict[tuple[int, int], Outcomes]:
    """Outcomes by replicas and threshold."""
    if not constants:
        return {}
    makers = [_fixed(trial, *constant) for constant in constants]
    return dict(zip(constants, play_controllers(trial, makers, progress), strict=True))


def _fixed(trial: Trial, replicas: int, threshold_steps: int) -> MakeController:
    params = FixedParams(replicas, threshold_steps)

    def make(window: Window) -> Controller:
        return params.make(trial.site, seed=window.seed)

    return make
