"""Bars over the comparison: is it quick and the same everywhere, and is everybody tuned fairly?

    python benchmarks/leaderboard_bars.py leaderboard
    python benchmarks/leaderboard_bars.py tuned [--scenario NAME ...] [--each 2]

Prints the figures as JSON (`bars.py` stores them). Exit code 1: missed. Traces are read from
GATEPILOT_TRACES; without it the workload models stand in.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bar_file import say, traces_dir

from gatepilot.agents.baselines.registry import UNIT_SUFFIX
from gatepilot.agents.choice import Choice, default_choice
from gatepilot.agents.evaluation import play_controllers
from gatepilot.agents.policy import Controller
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.agents.trial import Trial
from gatepilot.agents.tuning import tunable_names, tuning_trials
from gatepilot.agents.windows import Window
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.sim.engine import compile_engine
from gatepilot.experiments.leaderboard.spec import QUICK, load_spec
from gatepilot.experiments.shipped_settings import SettingsFile, shipped_settings
from gatepilot.experiments.suites import suite

WALL_LIMIT_S = 300.0
"""Within which the quick leaderboard is there, on two cores."""
WHEN_AND_HOW = ("run.json", "report.html")
"""Files that say when and how they were made."""
EACH = 2
"""Controllers a scenario that are played again."""


def main() -> int:
    """Runs one bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bars = parser.add_subparsers(dest="bar", required=True)
    bars.add_parser("leaderboard", help=leaderboard.__doc__)
    one = bars.add_parser("tuned", help=tuned.__doc__)
    one.add_argument("--scenario", action="append", help="default: all of the suite")
    one.add_argument("--each", type=int, default=EACH, help="controllers that are played again")
    options = parser.parse_args()
    if options.bar == "leaderboard":
        met, figures = leaderboard()
    else:
        met, figures = tuned(tuple(options.scenario or suite("full")), options.each)
    print(json.dumps({"bar": options.bar, "met": met, "figures": figures}, indent=1))  # noqa: T201
    return 0 if met else 1


def leaderboard() -> tuple[bool, dict[str, Any]]:
    """The quick one takes less than five minutes on two cores; 1 and 2 workers: the same bytes."""
    compile_engine()
    spec = load_spec(QUICK)
    untuned = [name for name in spec.scenarios if shipped_settings(load_scenario(name)) is None]
    figures: dict[str, Any] = {"scenarios_without_shipped_settings": untuned}
    made: dict[str, dict[str, str]] = {}
    with TemporaryDirectory() as work:
        for workers in ("2", "1"):
            folder = Path(work) / workers
            command = [sys.executable, "-m", "gatepilot.experiments", "leaderboard", "--quick"]
            command += ["--workers", workers, "--out", str(folder / "out")]
            command += ["--cells", str(folder / "cells"), "--studies", str(folder / "studies")]
            say(f"{workers} workers")
            started_s = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
            figures[f"wall_s_{workers}_workers"] = round(time.monotonic() - started_s, 1)
            made[workers] = _hashes(folder)
        figures["files"] = len(made["1"])
        figures["differing"] = sorted(
            name for name in {*made["1"], *made["2"]} if made["1"].get(name) != made["2"].get(name)
        )
    return figures["wall_s_2_workers"] < WALL_LIMIT_S and not figures["differing"], figures


def tuned(names: tuple[str, ...], each: int) -> tuple[bool, dict[str, Any]]:
    """Every controller ships tuned, none below its defaults on validation; some play again."""
    figures: dict[str, Any] = {}
    met = True
    for name in names:
        say(name)
        scenario = load_scenario(name)
        wanted = tunable_names(scenario_site(scenario))
        shipped = shipped_settings(scenario)
        if shipped is None:
            figures[name] = {"missing": list(wanted)}
            met = False
            continue
        found: dict[str, Any] = {
            "missing": [policy for policy in wanted if policy not in shipped.controllers],
            "better_than_defaults": sum(
                one.validation > one.validation_default for one in shipped.controllers.values()
            ),
            "controllers": len(shipped.controllers),
            "played_again": _played_again(shipped, each),
        }
        met &= not found["missing"] and all(
            one["validation"] >= one["validation_default"] for one in found["played_again"].values()
        )
        figures[name] = found
    return met, figures


def _played_again(shipped: SettingsFile, each: int) -> dict[str, Any]:
    """A few controllers and their defaults on the validation windows."""
    scenario = load_scenario(shipped.scenario)
    trial = tuning_trials(scenario, shipped.ticks, traces_dir()).validation
    drawn = sorted(shipped.controllers, key=partial(_hash_of, scenario.name))[:each]
    found = {}
    for name in drawn:
        score, default = (
            float(play_controllers(trial, [partial(_made, choice, trial)])[0].returns.mean())
            for choice in (shipped.choices[name], default_choice(name))
        )
        stored = shipped.controllers[name]
        found[name] = {
            "steps": "unit" if name.endswith(UNIT_SUFFIX) else "native",
            "validation": score,
            "validation_default": default,
            "stored": [stored.validation, stored.validation_default],
        }
    return found


def _made(choice: Choice, trial: Trial, window: Window) -> Controller:
    return choice.make(trial.site, window.seed)


def _hash_of(scenario: str, policy: str) -> str:
    """An order that nobody chose."""
    return hashlib.sha256(f"{scenario} {policy}".encode()).hexdigest()


def _hashes(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for kind in ("out", "cells")
        for path in (folder / kind).rglob("*.*")
        if path.name not in WHEN_AND_HOW
    }


if __name__ == "__main__":
    sys.exit(main())
