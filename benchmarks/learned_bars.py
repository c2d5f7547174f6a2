"""Bars over trained policies: the suite, cold starts, services that were never seen.

    python benchmarks/learned_bars.py suite --policy run:ID [--policy run:ID ...]
    python benchmarks/learned_bars.py cliff --policy run:ID
    python benchmarks/learned_bars.py unseen --policy run:ID

`run:ID` may be a parent of several seeds; `pretrained:NAME` and artifacts do, too. Prints figures
as JSON; exit code 1: missed. Traces are read from GATEPILOT_TRACES, runs from --runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bar_file import say

GATEPILOT: Final = [sys.executable, "-m", "gatepilot.experiments"]
PEOPLE_USE: Final = (
    *("hpa", "keda", "knative_kpa", "aibrix_kpa", "aibrix_apa", "wva_v1", "wva_v2", "wva_queue"),
    *("dynamo_load", "dynamo_throughput", "ray_serve"),
)
"""Controllers that are to be beaten beyond doubt, natively and at steps of one."""
OURS: Final = ("planner", "planner@unit", "fixed")
"""The real rivals, and the best constant."""
BOUND: Final = "lookahead"
"""Its returns on the suite's test windows stand in the frozen table of the full leaderboard; to
search them anew takes longer than all the rest."""
FROZEN: Final = (
    Path(__file__).resolve().parent.parent / "experiments" / "leaderboard" / "full.frozen.json"
)
SERVICES: Final = sorted(Path(__file__).with_name("services").glob("*.yaml"))
"""What no shipped training has seen."""
COLD_STARTS_S: Final = range(0, 301, 30)
FLOOR: Final = -3.0
"""Return that may be lost to the planner in a scenario."""
STEP: Final = 0.05
"""Share of ticks by which the objective may be kept less often with a cold start 30 s longer."""
LIKELY: Final = 0.9
"""Share of windows in which the best of the field is to be beaten."""
HOURS_SAVED: Final = 0.25
"""Share of `hpa@unit`'s replica-hours to be saved at no more violations ..."""
VIOLATIONS_SHARE: Final = 0.1
"""... or share of its violating ticks that may be left at no more replica-hours."""
SPAN: Final = 0.7
"""Of the way from tuned HPA to the bound."""


def main() -> int:
    """Measures one bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bar", choices=list(BARS))
    parser.add_argument("--policy", action="append", required=True, help="run:ID; repeat it")
    parser.add_argument("--runs", default="runs", help="folder of runs")
    parser.add_argument("--windows", type=int, default=16, help="of each scenario")
    options = parser.parse_args()
    met, figures = BARS[options.bar](options)
    json.dump({"met": met, "figures": figures}, sys.stdout, indent=1)
    return 0 if met else 1


def suite(options: argparse.Namespace) -> tuple[bool, dict[str, Any]]:
    """Against everybody, on the test split of the suite."""
    people = [name + unit for name in PEOPLE_USE for unit in ("", "@unit")]
    found = _evaluated(options, ["--suite", "full"], [*options.policy, *people, *OURS])
    rows = {row["policy"]: row for row in found["summary"]}
    named = _labels(found, options.policy)
    pairs = {(pair["policy"], pair["against"]): pair for pair in found["pairs"]}
    best = max(people, key=lambda name: rows[name]["return_mean"])
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))["suite"]
    bound = next(row["return_mean"] for row in frozen if row["policy"] == BOUND)
    hpa = max(rows["hpa"]["return_mean"], rows["hpa@unit"]["return_mean"])
    figures: dict[str, Any] = {}
    for policy in named:
        own, peer = rows[policy], rows["hpa@unit"]
        against = {name: _told(pairs[policy, name]) for name in (*people, *OURS)}
        by_scenario = {
            name: _difference(lines, policy, "planner")
            for name, lines in found["by_scenario"].items()
        }
        figures[policy] = {
            "return_mean": own["return_mean"],
            "violation_rate": own["violation_rate"],
            "replica_hours": own["replica_hours"],
            "against": against,
            "wins": all(
                against[name]["ci95"][0] > 0 and against[name]["iqm"] > 0 for name in people
            ),
            "best_of_people": {best: against[best]},
            "beats_planner": against["planner"]["ci95"][0] > 0,
            "worst_scenario": min(by_scenario.items(), key=lambda item: item[1]),
            "above_floor": min(by_scenario.values()) >= FLOOR,
            "hours_saved": 1 - own["replica_hours"] / peer["replica_hours"],
            "violations_share": own["violation_rate"] / peer["violation_rate"],
            "span_closed": (own["return_mean"] - hpa) / (bound - hpa),
            "by_scenario_against_planner": by_scenario,
        }
    return all(_is_met(one) for one in figures.values()), figures


def _is_met(one: dict[str, Any]) -> bool:
    """Whether a policy reaches every number of the suite's bars."""
    (best,) = one["best_of_people"].values()
    saved, left = one["hours_saved"], one["violations_share"]
    is_cheaper = (saved >= HOURS_SAVED and left <= 1) or (left <= VIOLATIONS_SHARE and saved >= 0)
    return bool(
        one["wins"]
        and best["probability_of_improvement"] >= LIKELY
        and one["beats_planner"]
        and one["above_floor"]
        and is_cheaper
        and one["span_closed"] >= SPAN
    )


def cliff(options: argparse.Namespace) -> tuple[bool, dict[str, Any]]:
    """The objective's share by cold start, on `daily`."""
    figures: dict[str, Any] = {}
    for cold_s in COLD_STARTS_S:
        given = ["--scenario", "daily", "--cold-start", str(cold_s)]
        for row in _evaluated(options, given, options.policy)["summary"]:
            kept = figures.setdefault(row["policy"], {})
            kept[str(cold_s)] = 1 - row["violation_rate"]
    met = all(
        before - after <= STEP
        for kept in figures.values()
        for before, after in pairwise(kept.values())
    )
    return met, figures


def unseen(options: argparse.Namespace) -> tuple[bool, dict[str, Any]]:
    """Services that nobody was trained on; controllers are tuned on them, policies are not."""
    rivals = ["hpa", "hpa@unit", "planner@unit"]
    figures: dict[str, Any] = {}
    for service in SERVICES:
        found = _evaluated(options, ["--scenario", str(service)], [*options.policy, *rivals])
        pairs = {(pair["policy"], pair["against"]): pair for pair in found["pairs"]}
        for policy in _labels(found, options.policy):
            figures.setdefault(policy, {})[service.stem] = {
                name: _told(pairs[policy, name]) for name in rivals
            } | {row["policy"]: _row(row) for row in found["summary"]}
    ahead = [
        services[name][hpa]["mean"]
        for services in figures.values()
        for name in services
        for hpa in ("hpa", "hpa@unit")
    ]
    return min(ahead) >= 0 and sum(ahead) > 0, figures


BARS: Final = {"suite": suite, "cliff": cliff, "unseen": unseen}


def _evaluated(
    options: argparse.Namespace, scenarios: list[str], policies: list[str]
) -> dict[str, Any]:
    """What `gatepilot evaluate --json` prints."""
    command = [*GATEPILOT, "evaluate", *scenarios, "--windows", str(options.windows), "--json"]
    command += ["--seed", "0", "--split", "test", "--runs", options.runs]
    command += [part for policy in policies for part in ("--policy", policy)]
    say(" ".join(scenarios))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _labels(found: dict[str, Any], given: list[str]) -> list[str]:
    """What the given policies are called: parents are spelt out."""
    return [row["policy"] for row in found["summary"]][: len(given)]


def _told(pair: dict[str, Any]) -> dict[str, Any]:
    return {
        "mean": pair["mean_difference"],
        "ci95": pair["ci95"],
        "iqm": pair["iqm_difference"],
        "probability_of_improvement": pair["probability_of_improvement"],
    }


def _row(row: dict[str, Any]) -> dict[str, float]:
    keys = ("return_mean", "return_median", "violation_rate", "replica_hours")
    return {key: row[key] for key in keys}


def _difference(lines: list[dict[str, Any]], policy: str, against: str) -> float:
    means = {line["policy"]: line["return_mean"] for line in lines}
    return float(means[policy] - means[against])


if __name__ == "__main__":
    sys.exit(main())
