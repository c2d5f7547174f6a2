"""Writes the page and the plot of every scenario of the suite, and their list.

    python docs/scenario_pages.py [NAME ...]

Words come from `docs/scenario_texts.yaml` and from the scenarios, figures from what the bars have
stored in `benchmarks/results`, plots from one test window that is played here. Traces are read from
GATEPILOT_TRACES.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from scenario_plots import NAMES, legend, picture

from gatepilot.agents.oracles.phases import CALM
from gatepilot.envs.fault_spec import FaultSpec
from gatepilot.envs.scenario import Scenario, load_scenario
from gatepilot.experiments.suites import suite

DOCS: Final = Path(__file__).parent
RESULTS: Final = DOCS.parent / "benchmarks" / "results"
MAX_BYTES: Final = 120_000
"""A plot must stay below this."""


def main() -> None:
    """Writes the pages of the scenarios that are named, or all, and the list of all."""
    texts = yaml.safe_load((DOCS / "scenario_texts.yaml").read_text(encoding="utf-8"))
    figures = {bar: _stored(bar) for bar in ("feasible", "no_cheating", "threshold")}
    names = sys.argv[1:] or suite("full")
    (DOCS / "scenarios").mkdir(exist_ok=True)
    for name in names:
        found = {bar: by_scenario.get(name, {}) for bar, by_scenario in figures.items()}
        svg, caption = picture(load_scenario(name), found["feasible"])
        if len(svg) > MAX_BYTES:
            raise SystemExit(f"{name}.svg has {len(svg)} bytes, allowed are {MAX_BYTES}")
        folder = DOCS / "scenarios"
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        page = written(load_scenario(name), texts[name], found, caption)
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
    (DOCS / "scenarios" / "index.md").write_text(listed(texts, figures), encoding="utf-8")


def _stored(bar: str) -> dict[str, Any]:
    """What a bar has found, by scenario."""
    path = RESULTS / f"{bar}.json"
    found: dict[str, Any] = json.loads(path.read_text())["figures"] if path.is_file() else {}
    return found


def written(
    scenario: Scenario, text: Mapping[str, str], found: Mapping[str, Any], caption: str
) -> str:
    """The page of one scenario, as Markdown."""
    parts = [
        f"# {text['title']}",
        scenario.description,
        f"![What happens in a window]({scenario.name}.svg)",
        f"*{caption} {legend(scenario.faults)}*",
        f"**What it tests.** {text['tests']}",
        f"**Cure.** {text['cure']}",
        "## Setting",
        _table(("what", "value"), _setting(scenario)),
        "## Figures",
        _feasible(found["feasible"]),
        _contestants(found["no_cheating"]),
        _threshold(found["threshold"]),
        f"```sh\ngatepilot evaluate --scenario {scenario.name} --policy hpa --policy best_fixed "
        "--policy hindsight\n```",
        "<!-- written by docs/scenario_pages.py -->",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _setting(scenario: Scenario) -> list[tuple[str, str]]:
    workload, cluster, gateway = scenario.workload, scenario.cluster, scenario.gateway
    source = " or ".join(f"`{name}`" for name in (workload.trace, workload.model) if name)
    control = scenario.control
    rows = [
        ("workload", f"{source}, {workload.rate_scale:g} times over"),
        ("profile", f"`{scenario.profile}`"),
        (
            "replicas",
            f"{cluster.min_replicas}-{cluster.max_replicas}, {cluster.start_replicas} at the start",
        ),
        ("episode", f"{control.episode_ticks} ticks of {control.tick_s:g} s"),
        ("gateway", f"`{gateway.router}`, {gateway.max_retries} retries"),
    ]
    for split in ("train", "validation", "test"):
        from_s, to_s = scenario.split_range(split)
        rows.append((split, f"hours {from_s / 3600:g}-{to_s / 3600:g} of the workload"))
    return rows + [("fault", _fault(fault)) for fault in scenario.faults]


def _fault(fault: FaultSpec) -> str:
    when = (
        f"at {fault.start_s:g} s"
        if fault.start_s is not None
        else f"{fault.mean_interval_s:g} s after the last one, on average"
    )
    return f"`{fault.kind}`, {when}"


def _feasible(found: Mapping[str, Any]) -> str:
    if not found:
        return ""
    rows = [
        (
            NAMES.get(who, who),
            f"{found[who]['return_mean']:.1f}",
            f"{100 * found[who]['violation_rate']:.2f} %",
            f"{100 * found[who]['worst_violation_rate']:.1f} %",
            f"{found[who]['replicas_mean']:.1f}",
        )
        for who in ("hindsight", "best_fixed")
    ]
    apart = ", ".join(str(number) for number in found["gated_out"]) or "none"
    best = found["best_fixed"]
    at = f", threshold {best['threshold_steps'] * 0.05:.2f}" if "threshold_steps" in best else ""
    return (
        f"{found['kept']} of {found['windows']} test windows can be kept at all (set apart: "
        f"{apart}). Best fixed: {best['replicas']} replicas{at}.\n\n"
        + _table(("who", "return", "violating ticks", "worst window", "replicas"), rows)
    )


def _contestants(found: Mapping[str, Any]) -> str:
    if not found:
        return ""
    returns, violations = found["returns"], found["violation_rates"]
    ranked = sorted(returns, key=lambda who: -returns[who])
    rows = [(f"`{who}`", f"{returns[who]:.1f}", f"{100 * violations[who]:.2f} %") for who in ranked]
    return "All test windows, those that nobody can keep included:\n\n" + _table(
        ("policy", "mean return", "violating ticks"), rows
    )


def _threshold(found: Mapping[str, Any]) -> str:
    if not found:
        return ""
    rows = [
        (
            who,
            str(found[who]["replicas"]),
            ", ".join(f"{phase} {value:.2f}" for phase, value in found[who]["threshold"].items())
            if who == "schedule"
            else f"{found[who]['threshold'][CALM]:.2f}",
            f"{found[who]['return_mean']:.1f}",
            f"{100 * found[who]['violation_rate']:.2f} %",
        )
        for who in ("constant", "schedule")
    ]
    gain = found["gain"]
    low, high = gain["ci95"]
    return (
        "What it is worth to move the threshold, replicas fixed; chosen on one half of the windows "
        f"and scored on the other {found['scored_windows']}: {gain['mean_difference']:+.1f} "
        f"({low:.1f} to {high:.1f}), {100 * gain['share']:.0f} % of the constant's return.\n\n"
        + _table(("who", "replicas", "threshold", "return", "violating ticks"), rows)
    )


def listed(texts: Mapping[str, Mapping[str, str]], figures: Mapping[str, Any]) -> str:
    """The list of all scenarios, as Markdown."""
    rows = []
    for name in suite("full"):
        found = figures["feasible"].get(name)
        title = f"[{texts[name]['title']}]({name}.md)"
        if found is None:
            rows.append((f"`{name}`", title, "", "", ""))
            continue
        best = found["best_fixed"]
        at = f" at {best['threshold_steps'] * 0.05:.2f}" if "threshold_steps" in best else ""
        rows.append(
            (
                f"`{name}`",
                title,
                f"{found['kept']} of {found['windows']}",
                f"{best['replicas']}{at}",
                f"{100 * found['hindsight']['violation_rate']:.2f} %",
            )
        )
    return (
        "\n\n".join(
            (
                "# Scenarios",
                "The suite `full`: one scenario for each thing that happens to a gateway. "
                "`gatepilot evaluate --suite full` runs them all, `--suite quick` four of them. "
                "Every one trains, validates and is tested on disjoint ranges of its workload.",
                _table(
                    ("scenario", "what", "windows kept", "best fixed", "hindsight violates"), rows
                ),
                "Kept: all replicas keep the limits through the window while nothing fails. Best "
                "fixed: replicas, and the threshold where faults are on. Hindsight: a controller "
                "that knows traffic and faults beforehand; violating ticks in kept windows.",
                "<!-- written by docs/scenario_pages.py -->",
            )
        )
        + "\n"
    )


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
