"""The project's promised figures, each measured by a command; resumable, stored with hashes.

    python benchmarks/bars.py [NAME ...] [--again]

A bar is run once for a state of the sources: its result is kept in `benchmarks/results/NAME.json`
with a hash over those floors that can change its figures, and is not measured again while that hash
is the same (`--again` does).
Bars that need the traces read their folder from GATEPILOT_TRACES.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measures
from bar_file import say

from gatepilot.experiments.recordings.recording import sources_hash

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
WORLD: tuple[str, ...] = ("envs",)
LEARNING: tuple[str, ...] = ("envs", "reward", "agents", "experiments/configs")
JUDGING: tuple[str, ...] = (
    "experiments/leaderboard",
    "experiments/cells.py",
    "experiments/cell_grid.py",
    "experiments/cell_job.py",
    "experiments/jobs.py",
    "experiments/study.py",
)
VALIDATION: tuple[str, ...] = ("experiments/testbed", "experiments/validation")
HOUSE: tuple[str, ...] = ("envs", "reward", "agents", "deploy_bridge", "experiments")


def main() -> int:
    """Runs the bars that are named, or all; 1 if one was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*BARS, []], help="default: all")
    parser.add_argument("--again", action="store_true", help="measure even what is stored")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    missed = []
    for name in options.names or BARS:
        stored = RESULTS / f"{name}.json"
        measure, floors = BARS[name]
        sources = sources_hash(floors)
        if stored.is_file() and not options.again:
            result = json.loads(stored.read_text())
            if result["sources"] == sources and result["met"] is not None:
                say(f"{name}: stored, met: {result['met']}")
                missed += [] if result["met"] else [name]
                continue
        say(f"{name} ...")
        start = time.time()
        try:
            met, figures = measure()
        except measures.BarError as error:
            met, figures = None, {"not_run": str(error)}
        result = {
            "bar": name,
            "met": met,
            "figures": figures,
            "seconds": round(time.time() - start, 1),
            "sources": sources,
        }
        temporary = stored.with_suffix(".partial")
        temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        temporary.replace(stored)
        say(f"{name}: met: {met}; {json.dumps(figures)}")
        missed += [] if met else [name]
    return 1 if missed else 0


BARS: dict[str, tuple[Callable[[], tuple[bool, dict[str, Any]]], tuple[str, ...]]] = {
    "dynamics": (measures.dynamics, (*WORLD, "experiments/validation")),
    "speed": (measures.speed, WORLD),
    "no_cheating": (measures.no_cheating, LEARNING),
    "feasible": (measures.feasible, LEARNING),
    "threshold": (measures.threshold, LEARNING),
    "tuned": (measures.tuned, LEARNING),
    "bounds": (measures.bounds, LEARNING),
    "unbeaten": (measures.unbeaten, (*LEARNING, *JUDGING)),
    "leaderboard": (measures.leaderboard, (*LEARNING, *JUDGING)),
    "learning": (measures.learning, LEARNING),
    "documented": (measures.documented, LEARNING),
    "breaker": (measures.breaker, (*WORLD, *VALIDATION)),
    "testbed": (measures.testbed, (*WORLD, *VALIDATION)),
    "bridge": (measures.bridge, HOUSE),
    "fresh_machine": (measures.fresh_machine, HOUSE),
}
"""Bar to its measurement and to the folders that can change its figures."""


if __name__ == "__main__":
    if shutil.which("git") is None:
        say("git is not here: the bar fresh_machine cannot run")
    sys.exit(main())
