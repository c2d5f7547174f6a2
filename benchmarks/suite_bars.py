"""Bars over the suite: can it be kept, does the threshold matter, and do tricks lose?

    python benchmarks/suite_bars.py feasible [--scenario NAME ...] [--windows 16]
    python benchmarks/suite_bars.py threshold [--scenario NAME ...] [--windows 48]
    python benchmarks/suite_bars.py no_cheating [--scenario NAME ...] [--windows 16]

Prints the figures as JSON (`bars.py` stores them). Exit code 1: missed. Traces are read from
GATEPILOT_TRACES; without it the workload models stand in.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from bar_file import say, traces_dir

from gatepilot.agents.bounds import BestFixed
from gatepilot.agents.contestant import Preparation
from gatepilot.agents.episodes import Outcomes
from gatepilot.agents.evaluation import unkeepable
from gatepilot.agents.oracles.foresight import play_hindsight
from gatepilot.agents.oracles.schedules import Setting, ThresholdStudy
from gatepilot.agents.statistics import Values, compare
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.agents.tuning import SilentReporter
from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments.job_watcher import SilentWatcher
from gatepilot.experiments.places import CELLS_DIR, STUDIES_DIR, Places
from gatepilot.experiments.study import StudyPlan, prepare_study, run_study
from gatepilot.experiments.suites import suite

VIOLATING_LIMIT = 0.01
"""Share of violating ticks below which the hindsight controller must stay."""
GAIN_LIMIT = 0.10
"""Share of the best constant's return by which a schedule must beat it."""
SCENARIOS_NEEDED = 3
"""In how many scenarios."""
LOW_STEPS = 1
"""The threshold that must lose where ejecting is wrong."""
WRONG_TO_EJECT = "brown_out"
"""The scenario in which it is."""
TRICKS = ("always_open", "always_shed")
RIVALS = ("best_fixed", "hpa", "hpa@unit")
SIZE_THAT_COUNTS = 3
"""Replicas of the best constant from which on, with faults on, every trick must come last."""


def main() -> int:
    """Runs one bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bars = parser.add_subparsers(dest="bar", required=True)
    for measure, windows, names in (
        (feasible, 16, suite("full")),
        (threshold, 48, suite("threshold")),
        (no_cheating, 16, (*suite("core"), *suite("full"))),
    ):
        bar = bars.add_parser(measure.__name__, help=measure.__doc__.replace("%", "%%"))
        bar.add_argument("--scenario", action="append", help="default: all of them")
        bar.add_argument("--windows", type=int, default=windows)
        bar.set_defaults(measure=measure, names=names)
    options = parser.parse_args()
    names = tuple(options.scenario or options.names)
    measured: Callable[[tuple[str, ...], int], tuple[bool, dict[str, Any]]] = options.measure
    met, figures = measured(names, options.windows)
    print(json.dumps({"bar": options.bar, "met": met, "figures": figures}, indent=1))  # noqa: T201
    return 0 if met else 1


def feasible(names: tuple[str, ...], windows: int) -> tuple[bool, dict[str, Any]]:
    """In windows that all replicas keep, hindsight stays below 1 % of violating ticks."""
    figures = {}
    for name in names:
        say(name)
        trial, gated_out = _gated(name, windows)
        found: dict[str, Any] = {"windows": windows, "kept": len(trial.windows)}
        found["gated_out"] = gated_out
        if trial.windows:
            hindsight = play_hindsight(trial).outcomes
            best = BestFixed("best_fixed").play(
                trial, Preparation(_no_training, None, SilentReporter())
            )
            constant = best.runs[0][1]
            hours = trial.ticks * trial.tick_s / 3600
            for who, outcomes in (("hindsight", hindsight), ("best_fixed", constant)):
                found[who] = {
                    "return_mean": float(outcomes.returns.mean()),
                    "violation_rate": float(outcomes.violation_rate.mean()),
                    "worst_violation_rate": float(outcomes.violation_rate.max()),
                    "replicas_mean": float(outcomes.replica_hours.mean()) / hours,
                }
            found["best_fixed"] |= best.settings
        figures[name] = found
    return all(
        f["kept"] > 0 and f["hindsight"]["violation_rate"] < VIOLATING_LIMIT
        for f in figures.values()
    ), figures


def threshold(names: tuple[str, ...], windows: int) -> tuple[bool, dict[str, Any]]:
    """In three scenarios a schedule beats the best constant by a tenth; a low one loses."""
    figures = {}
    for name in names:
        say(name)
        trial, gated_out = _gated(name, windows)
        found = ThresholdStudy(trial).headroom()
        schedule, constant = found.schedule_outcomes, found.constant_outcomes
        gain = _gain(schedule.returns, constant.returns, name)
        low = _gain(found.by_threshold[LOW_STEPS].returns, constant.returns, name)
        figures[name] = {
            "gated_out": gated_out,
            "scored_windows": len(schedule.returns),
            "phases": found.phases,
            "constant": _setting(found.constant, constant),
            "schedule": _setting(found.schedule, schedule),
            "gain": gain,
            "low": low,
            "return_by_threshold": {
                f"{steps * 0.05:.2f}": float(outcomes.returns.mean())
                for steps, outcomes in found.by_threshold.items()
            },
        }
    gains = [figure["gain"] for figure in figures.values()]
    won = sum(gain["share"] >= GAIN_LIMIT and gain["ci95"][0] > 0 for gain in gains)
    loses = WRONG_TO_EJECT not in names or figures[WRONG_TO_EJECT]["low"]["ci95"][1] < 0
    return won >= min(SCENARIOS_NEEDED, len(names)) and loses, figures


def no_cheating(names: tuple[str, ...], windows: int) -> tuple[bool, dict[str, Any]]:
    """No trick beats the best constant; where replicas and faults count, all tricks come last.

    Last of what people run. Always-max stands beside it: it serves everybody and is only dear.
    """
    figures: dict[str, Any] = {}
    met = True
    for name in names:
        say(name)
        scenario = load_scenario(name)
        tricks = (*TRICKS, f"fixed:{scenario.cluster.min_replicas}")
        everybody = (*RIVALS, *tricks, "always_max")
        plan = StudyPlan(
            scenarios=(scenario,),
            policies=everybody,
            split="test",
            places=Places(CELLS_DIR, STUDIES_DIR, traces_dir()),
            windows=windows,
        )
        results = run_study(plan, prepare_study(plan), SilentWatcher()).results
        returns = {row.policy: row.return_mean for row in results.summary}
        best = next(row for row in results.summary if row.policy == "best_fixed")
        size = best.settings[name]["replicas"]
        highest = max(returns[trick] for trick in tricks)
        must_be_last = bool(scenario.faults) and size >= SIZE_THAT_COUNTS
        last = highest < min(returns[rival] for rival in RIVALS)
        met &= highest <= returns["best_fixed"] and (last or not must_be_last)
        figures[name] = {
            "returns": returns,
            "violation_rates": {row.policy: row.violation_rate for row in results.summary},
            "best_fixed": best.settings[name],
            "must_be_last": must_be_last,
            "last": last,
        }
    return met, figures


def _gated(name: str, windows: int) -> tuple[Trial, list[int]]:
    """The test windows of a scenario that all replicas keep, and the numbers of the others."""
    trial = prepare_trial(
        load_scenario(name), split="test", windows=windows, traces_dir=traces_dir()
    )
    kept = unkeepable(trial) == 0
    numbers = [window.index for window, keep in zip(trial.windows, kept, strict=True) if not keep]
    return trial.keeping(kept.tolist()), numbers


def _gain(ours: Values, theirs: Values, name: str) -> dict[str, Any]:
    """Paired over windows: difference of returns, and its share of what is beaten."""
    found = compare(ours, theirs, [name] * len(ours), seed=0)
    return {
        "mean_difference": found.mean_difference,
        "ci95": found.ci95,
        "share": found.mean_difference / abs(float(theirs.mean())),
        "probability_of_improvement": found.probability_of_improvement,
    }


def _setting(setting: Setting, outcomes: Outcomes) -> dict[str, Any]:
    """Where replicas and threshold stand, and what came of it."""
    return {
        "replicas": setting.replicas,
        "threshold": {phase: step * 0.05 for phase, step in setting.threshold_steps.items()},
        "return_mean": float(outcomes.returns.mean()),
        "violation_rate": float(outcomes.violation_rate.mean()),
        "error_rate": float(outcomes.error_rate.mean()),
    }


def _no_training() -> Trial:
    """The best constant is not tuned."""
    raise NotImplementedError


if __name__ == "__main__":
    sys.exit(main())
