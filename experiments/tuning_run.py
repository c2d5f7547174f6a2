"""Tunes controllers over scenarios, and lays the results down as files that can ship."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..agents.baselines.registry import params_type
from ..agents.digests import scenario_digest, traffic_of
from ..agents.scenario_site import scenario_site
from ..agents.tuning import is_tunable, tunable_names
from ..envs.scenario import Scenario
from .job_watcher import Watcher
from .jobs import run_jobs
from .places import Places
from .shipped_settings import (
    FORMAT,
    SettingsFile,
    ShippedSettingsError,
    read_settings,
    tuned_controller,
)
from .tuning_job import TuningJob


class TuningError(ValueError):
    """A search that cannot be made: one line."""


@dataclass(frozen=True)
class TuningPlan:
    """What is asked of a search."""

    scenarios: tuple[Scenario, ...]
    policies: tuple[str, ...]
    """Controllers by name, with or without `@unit`; none: all that have something to tune."""
    ticks: int | None
    """Length of a window; `None`: each scenario's episode."""
    places: Places
    command: str
    """The command line, which the files name."""

    def jobs(self) -> tuple[TuningJob, ...]:
        """What is to do, scenario by scenario.

        Raises:
            ControllerError: An unknown controller.
            TuningError: One that has nothing to tune.
        """
        return tuple(
            TuningJob(name, scenario, self.ticks_of(scenario), self.places)
            for scenario in self.scenarios
            for name in self._names(scenario)
        )

    def ticks_of(self, scenario: Scenario) -> int:
        """Length of a window of a scenario."""
        return scenario.control.episode_ticks if self.ticks is None else self.ticks

    def _names(self, scenario: Scenario) -> tuple[str, ...]:
        site = scenario_site(scenario)
        if not self.policies:
            return tunable_names(site)
        for name in self.policies:
            params_type(name)
            if not is_tunable(name, site):
                known = ", ".join(tunable_names(site))
                raise TuningError(f"{name} has nothing to tune: expected one of {known}")
        return self.policies


def tune_all(plan: TuningPlan, *, workers: int, watcher: Watcher) -> tuple[SettingsFile, ...]:
    """Carries every study through.

    Args:
        plan: Which.
        workers: Processes to spread them over.
        watcher: Shows progress.

    Returns:
        One file a scenario, not written yet.
    """
    jobs = plan.jobs()
    studies = run_jobs(jobs, workers=workers, watcher=watcher)
    files = []
    for scenario in plan.scenarios:
        found = {
            job.policy: study
            for job, study in zip(jobs, studies, strict=True)
            if job.scenario == scenario
        }
        one = next(iter(found.values()))
        traffic = traffic_of(scenario, plan.places.traces)
        files.append(
            SettingsFile(
                format=FORMAT,
                scenario=scenario.name,
                scenario_digest=scenario_digest(scenario),
                traffic=str(traffic),
                traffic_sha256="" if traffic is None else traffic.sha256,
                ticks=plan.ticks_of(scenario),
                train_windows=one.train_windows,
                validation_windows=one.validation_windows,
                commands=(plan.command,),
                controllers={name: tuned_controller(study.tuned) for name, study in found.items()},
            )
        )
    return tuple(files)


def earlier_files(plan: TuningPlan, folder: Path) -> dict[str, SettingsFile]:
    """Files that a search over some controllers is to add to, by scenario.

    A search over all controllers replaces what is there.

    Args:
        plan: The search.
        folder: Where its files go.

    Raises:
        TuningError: A file cannot be read, or was made on other traffic or windows.
    """
    found = {}
    for scenario in plan.scenarios if plan.policies else ():
        path = folder / f"{scenario.name}.yaml"
        if not path.is_file():
            continue
        try:
            old = read_settings(path, scenario)
        except ShippedSettingsError as error:
            raise TuningError(f"{error}; remove it, or choose another --out") from error
        traffic = traffic_of(scenario, plan.places.traces)
        here = {
            "ticks": plan.ticks_of(scenario),
            "traffic_sha256": "" if traffic is None else traffic.sha256,
        }
        for key, value in here.items():
            if getattr(old, key) != value:
                raise TuningError(
                    f"{path}: {key} is {getattr(old, key)}, here it is {value}: remove it, or "
                    "choose another --out"
                )
        found[scenario.name] = old
    return found


def joined(old: SettingsFile, new: SettingsFile) -> SettingsFile:
    """A file with the controllers of both; those of the new one count."""
    return replace(
        new,
        controllers={**old.controllers, **new.controllers},
        commands=tuple(dict.fromkeys((*old.commands, *new.commands))),
    )
