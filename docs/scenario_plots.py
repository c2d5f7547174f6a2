"""The plot of a scenario: what happens in one test window."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.episodes import Outcomes
from gatepilot.agents.evaluation import MakeController, play_controllers
from gatepilot.agents.oracles.phases import SINGLE, Phases, window_phases
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.agents.tuning import SilentReporter, tune, tuning_trials
from gatepilot.envs.fault_spec import METRIC_KINDS, FaultSpec
from gatepilot.envs.scenario import Scenario
from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.experiments.places import STUDIES_DIR
from gatepilot.experiments.plots import COLORS, drawn
from gatepilot.experiments.timeline import draw_latency, draw_load
from gatepilot.reward.slo import Slo

NAMES: Final = {"best_fixed": "best fixed", "hpa": "HPA"}
"""What policies are called in plots and tables."""
WINDOWS_LOOKED_AT: Final = 16
"""Of these the window with most phases is drawn, of equals the one whose load swings most."""
FAULT_COLOURS: Final = {"one": "#E69F00", "all": "#d62728", "metrics": "#56B4E9"}
INSTANTS: Final = {"crash", "counter_reset"}
INSTANT_MIN: Final = 0.25
"""How wide an instant is drawn, in minutes."""


def picture(scenario: Scenario, feasible: Mapping[str, Any]) -> tuple[str, str]:
    """What happens in a window, as SVG text, and a caption."""
    folder = os.environ.get("GATEPILOT_TRACES")
    traces = Path(folder) if folder else None
    trial = prepare_trial(scenario, split="test", windows=WINDOWS_LOOKED_AT, traces_dir=traces)
    gated_out = set(feasible.get("gated_out", ()))
    trial = trial.keeping([window.index not in gated_out for window in trial.windows])
    best = feasible["best_fixed"]
    fixed = FixedParams(
        best["replicas"], best.get("threshold_steps", scenario.gateway.threshold_steps)
    )
    hpa = tune(
        "hpa",
        tuning_trials(scenario, trial.ticks, traces),
        studies_dir=STUDIES_DIR,
        reporter=SilentReporter(),
    ).choice
    makers: dict[str, MakeController] = {
        "best_fixed": lambda w: fixed.make(trial.site, seed=w.seed),
        "hpa": lambda w: hpa.make(trial.site, w.seed),
    }
    played = play_controllers(trial, list(makers.values()))
    phases = [window_phases(trial, window) for window in trial.windows]
    rates = played[0].rows[..., FIELD_INDEX["request_rate_rps"]]
    swings = np.ptp(rates, axis=1)
    place = max(range(len(phases)), key=lambda i: (len(set(phases[i].names)), float(swings[i])))
    shown = dict(zip(makers, played, strict=True))
    svg = drawn(lambda: _figure(trial, shown, phases[place], place))
    window = trial.windows[place]
    start_h = (trial.scenario.split_range("test")[0] + window.start_s) / 3600
    length = trial.ticks * trial.tick_s / 60
    caption = (
        f"Test window {window.index}, {length:.0f} minutes from hour {start_h:.1f} of the "
        f"workload: {best['replicas']} fixed replicas, and the tuned HPA."
    )
    return svg, caption


def _figure(trial: Trial, played: Mapping[str, Outcomes], phases: Phases, place: int) -> Figure:
    figure = Figure(figsize=(8.5, 6.2), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True, height_ratios=[1.0, 1.0, 1.4, 0.9])
    minutes = np.arange(1, trial.ticks + 1) * trial.tick_s / 60
    colors = {name: COLORS[i] for i, name in enumerate(played)}
    rows = {name: outcomes.rows[place] for name, outcomes in played.items()}
    draw_load(axes[0], next(iter(rows.values())), minutes)
    axes[0].set_title("Requests per second")
    for name, seen in rows.items():
        requested = seen[:, FIELD_INDEX["replicas_requested"]]
        axes[1].step(minutes, requested, where="pre", color=colors[name], lw=1.4, label=NAMES[name])
        failed = 100 * np.nan_to_num(seen[:, FIELD_INDEX["error_rate"]])
        axes[3].plot(minutes, failed, color=colors[name], lw=1.2)
    axes[1].set_ylim(0, trial.limits.max_replicas + 0.5)
    axes[1].set_title("Replicas asked for")
    axes[1].legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2, borderaxespad=0)
    slo = Slo()
    p95_s = {name: seen[:, FIELD_INDEX["ttft_p95_s"]] for name, seen in rows.items()}
    draw_latency(axes[2], p95_s, minutes, colors, slo.latency_limit_s)
    axes[2].set_title("P95 of time to first token, log scale")
    axes[3].axhline(100 * slo.error_rate_limit, color="#d62728", lw=1, ls="--")
    axes[3].set_ylim(
        0, max(4.0, *(1.1 * float(np.max(line.get_ydata())) for line in axes[3].lines))
    )
    axes[3].set_title("Errors that clients see, %")
    axes[3].set_xlabel("Minutes since the start of the window")
    axes[3].set_xlim(0, minutes[-1])
    for ax in axes:
        _shade(ax, phases)
    return figure


def _shade(ax: Axes, phases: Phases) -> None:
    length_min = ax.get_xlim()[1]
    for fault in (*phases.faults, *phases.metric_faults):
        # a crash and a restarted counter are instants
        end_min = fault.start_s / 60 + INSTANT_MIN if fault.kind in INSTANTS else fault.end_s / 60
        if fault.start_s == 0.0 and end_min >= length_min:
            continue  # ordinary noise, always on
        ax.axvspan(fault.start_s / 60, end_min, color=_colour(fault.kind), alpha=0.15, lw=0)


def _colour(kind: str) -> str:
    if kind in SINGLE:
        return FAULT_COLOURS["one"]
    return FAULT_COLOURS["metrics" if kind in METRIC_KINDS else "all"]


def legend(faults: tuple[FaultSpec, ...]) -> str:
    """What the shades of a plot mean."""
    kinds = [fault.kind for fault in faults]
    shades = {
        "orange: one replica is ill": any(_colour(k) == FAULT_COLOURS["one"] for k in kinds),
        "red: the whole service is hit": any(_colour(k) == FAULT_COLOURS["all"] for k in kinds),
        "blue: the metrics fail": any(_colour(k) == FAULT_COLOURS["metrics"] for k in kinds),
    }
    shown = [shade for shade, is_there in shades.items() if is_there]
    return f"Shaded {'; '.join(shown)}." if shown else "No fault."
