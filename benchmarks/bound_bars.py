"""Bars over the bound: is it near the exact optimum, wide enough, and beaten by nobody?

    python benchmarks/bound_bars.py exact
    python benchmarks/bound_bars.py converged [--scenario NAME ...] [--windows 3]
    python benchmarks/bound_bars.py unbeaten [--board FOLDER]

Prints a table on standard error and the figures as JSON (`bars.py` stores them). Exit code 1:
missed; 2: `unbeaten` has no leaderboard to read. Traces are read from GATEPILOT_TRACES; without it
the workload models stand in.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from bar_file import say, traces_dir

from gatepilot.agents.digests import json_digest, sources_digest
from gatepilot.agents.oracles.exact import solve_exactly
from gatepilot.agents.oracles.lookahead import play_lookahead
from gatepilot.agents.oracles.search import LookaheadParams
from gatepilot.agents.oracles.small_setups import SMALL_SETUPS
from gatepilot.agents.statistics import compare
from gatepilot.agents.trial import prepare_trial
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.sim.engine import compile_engine
from gatepilot.experiments.cell_grid import LEARNED_SOURCES, RULE_SOURCES
from gatepilot.experiments.leaderboard.output import BOARD_FILE, FROZEN_FILE

NEAR_SHARE: Final = 0.03
"""How far below the exact optimum the look-ahead may stay, as a share of it and of the span
from worst to best."""
ROUNDING: Final = 1e-9
"""Sums in another order differ by less."""
NOISE: Final = 0.15
"""Return a window below which a wider search is no better: what one change of replicas costs."""
SCENARIOS: Final = ("flash_crowd", "same_rate_opposite_cure", "cold_start_300s", "long_prompts")
"""A ramp, thresholds with opposite effects, the longest start-up, and the most replicas."""
WINDOWS: Final = 3
DEFAULT: Final = LookaheadParams()
VARIED: Final = {
    **{f"horizon {n}": replace(DEFAULT, horizon=n) for n in (1, 4, 8, 32)},
    **{f"step {n}": replace(DEFAULT, step=n) for n in (2, 4)},
    **{f"branches {n}": replace(DEFAULT, branches=n) for n in (24, 56, 120, 504)},
    **{f"guides {n}": replace(DEFAULT, guides=n) for n in (1, 16)},
    "rounds 2": replace(DEFAULT, rounds=2),
}
"""Searches beside the default one."""
WIDER: Final = ("horizon 32", "branches 504", "guides 16", "rounds 2")
"""Those that do twice as much of something."""
BOARD: Final = Path(__file__).resolve().parent.parent / "gatepilot-leaderboard"


def main() -> int:
    """Runs one bar; 1 if it was missed, 2 if it could not run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bars = parser.add_subparsers(dest="bar", required=True)
    bars.add_parser("exact", help=exact.__doc__.replace("%", "%%"))
    table = bars.add_parser("converged", help=converged.__doc__)
    table.add_argument("--scenario", action="append", help="default: four of the suite")
    table.add_argument("--windows", type=int, default=WINDOWS)
    one = bars.add_parser("unbeaten", help=unbeaten.__doc__)
    one.add_argument("--board", type=Path, default=BOARD, help="a leaderboard's --out folder")
    options = parser.parse_args()
    if options.bar == "unbeaten":
        try:
            met, figures = unbeaten(options.board)
        except (OSError, ValueError) as error:
            say(f"{options.board}: {error}")
            return 2
    else:
        compile_engine()
        if options.bar == "exact":
            met, figures = exact()
        else:
            met, figures = converged(tuple(options.scenario or SCENARIOS), options.windows)
    print(json.dumps({"bar": options.bar, "met": met, "figures": figures}, indent=1))  # noqa: T201
    return 0 if met else 1


def exact() -> tuple[bool, dict[str, Any]]:
    """Within 3 % of the exact programme in every small set-up."""
    figures: dict[str, Any] = {}
    say("| set-up | states | exact best | exact worst | look-ahead | gap of best | gap of span |")
    say("|---|---|---|---|---|---|---|")
    for name, setup in SMALL_SETUPS.items():
        trial = setup.trial()
        started_s = time.monotonic()
        found = solve_exactly(trial, setup.threshold_steps)
        exact_s = time.monotonic() - started_s
        params = replace(DEFAULT, threshold_steps=setup.threshold_steps)
        reached = float(play_lookahead(trial, params=params).outcomes.returns[0])
        gap = found.best - reached
        one = {
            "states": found.states,
            "exact_s": round(exact_s, 1),
            "best": found.best,
            "worst": found.worst,
            "lookahead": reached,
            "gap_share_of_best": gap / abs(found.best),
            "gap_share_of_span": gap / (found.best - found.worst),
        }
        figures[name] = one | {
            "met": -ROUNDING <= gap <= NEAR_SHARE * min(abs(found.best), found.best - found.worst)
        }
        say(
            f"| {name} | {found.states:,} | {found.best:.2f} | {found.worst:.2f} | {reached:.2f} "
            f"| {one['gap_share_of_best']:.2%} | {one['gap_share_of_span']:.2%} |"
        )
    return all(one["met"] for one in figures.values()), figures


def converged(names: tuple[str, ...], windows: int) -> tuple[bool, dict[str, Any]]:
    """A search that does twice as much gains less than one change of replicas costs."""
    trials = [
        prepare_trial(load_scenario(name), split="test", windows=windows, traces_dir=traces_dir())
        for name in names
    ]
    played: dict[str, list[np.ndarray]] = {}
    figures: dict[str, Any] = {}
    paired = [trial.scenario.name for trial in trials for _ in trial.windows]
    say(f"| search | {' | '.join(names)} | mean against the default | s a window |")
    say("|---" * (len(names) + 3) + "|")
    for label, params in {"default": DEFAULT, **VARIED}.items():
        started_s = time.monotonic()
        played[label] = [play_lookahead(trial, params=params).outcomes.returns for trial in trials]
        seconds = (time.monotonic() - started_s) / len(paired)
        means = {name: float(r.mean()) for name, r in zip(names, played[label], strict=True)}
        one: dict[str, Any] = {"return_mean": means, "s_per_window": round(seconds, 2)}
        shown = "-"
        if label != "default":
            ours, theirs = (np.concatenate(played[who])[None] for who in (label, "default"))
            pair = compare(ours, theirs, paired, seed=0)
            one |= {"mean_difference": pair.mean_difference, "ci95": pair.ci95}
            shown = f"{pair.mean_difference:+.3f}"
        figures[label] = one
        cells = " | ".join(f"{mean:.2f}" for mean in means.values())
        say(f"| {label} | {cells} | {shown} | {seconds:.1f} |")
    return all(figures[label]["mean_difference"] < NOISE for label in WIDER), figures


def unbeaten(folder: Path) -> tuple[bool, dict[str, Any]]:
    """In no scenario of a leaderboard is anybody above the bound by more than noise."""
    board = json.loads((folder / BOARD_FILE).read_text(encoding="utf-8"))
    frozen = json.loads((folder / FROZEN_FILE).read_text(encoding="utf-8"))
    _check(board, frozen)
    bound = board["spec"]["bound"]
    figures: dict[str, Any] = {"bound": bound, "scenarios": {}}
    say("| scenario | nearest to the bound | below it by | 95 % interval |")
    say("|---|---|---|---|")
    for name, found in board["scenarios"].items():
        others = [row for row in found["table"] if row["policy"] != bound]
        unjudged = [row["policy"] for row in others if row["gap_ci95"] is None]
        above = [row["policy"] for row in others if row["gap_ci95"] and row["gap_ci95"][1] < 0]
        nearest = min(others, key=lambda row: row["gap"])
        kept = {key: nearest[key] for key in ("policy", "gap", "gap_ci95")}
        figures["scenarios"][name] = {"nearest": kept, "above": above, "unjudged": unjudged}
        ends = "-" if kept["gap_ci95"] is None else "{:.2f} to {:.2f}".format(*kept["gap_ci95"])
        say(f"| {name} | {kept['policy']} | {kept['gap']:.2f} | {ends} |")
    scenarios = figures["scenarios"].values()
    return bool(scenarios) and not any(f["above"] or f["unjudged"] for f in scenarios), figures


def _check(board: dict[str, Any], frozen: dict[str, Any]) -> None:
    """Refuses tables that were not made as they stand, or by other code.

    Raises:
        ValueError: What is wrong with them.
    """
    digests = board["digests"]
    if digests != frozen["digests"]:
        msg = f"{BOARD_FILE} and {FROZEN_FILE} are of two runs"
        raise ValueError(msg)
    for name, found in board["scenarios"].items():
        if json_digest(found["table"]) != digests["scenarios"][name]["table"]:
            msg = f"the table of {name} is not the one that was hashed"
            raise ValueError(msg)
    if digests["sources"] not in map(sources_digest, (RULE_SOURCES, LEARNED_SOURCES)):
        msg = "made by other code than this: run `gatepilot leaderboard` again"
        raise ValueError(msg)


if __name__ == "__main__":
    sys.exit(main())
