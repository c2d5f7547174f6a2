"""`gatepilot evaluate`: policies over the same windows, with intervals."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...agents.contestants import FORMS
from ...envs.scenario import Scenario
from ..conduct import conduct
from ..files import check_writable
from ..named_contestants import spelt_out
from ..options import (
    MOST_SEED,
    MOST_TICKS,
    MOST_WINDOWS,
    MOST_WORKERS,
    AsJson,
    CellsDir,
    StudiesDir,
    TracesDir,
)
from ..places import CELLS_DIR, STUDIES_DIR, Places
from ..scenario_choice import Overrides, named_scenarios, trace_scenario
from ..study import StudyPlan, prepare_study
from ..suites import SUITES
from ..tables import check_table
from ..terminal import gated_line, print_study

NOTHING_JUDGED = 1
"""Exit code where not one window could be played."""


class SplitName(StrEnum):
    """The ranges that a workload is cut into."""

    train = "train"
    validation = "validation"
    test = "test"


def evaluate(  # noqa: PLR0913, PLR0917  # options of the command
    policy: Annotated[
        list[str],
        typer.Option(metavar="NAME", help=f"Who takes part; repeat it. {FORMS}."),
    ],
    suite: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"List of scenarios: {', '.join(SUITES)}.")
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME_OR_FILE", help="A shipped scenario or a YAML file; repeat it."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A trace instead of a scenario; needs --profile."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="ID_OR_FILE", help="Serving profile for --trace.")
    ] = None,
    rate_scale: Annotated[
        float | None, typer.Option(help="Factor on the rate, by superposing shifted copies.")
    ] = None,
    max_prompt: Annotated[
        int | None, typer.Option(min=1, help="Leaves out requests with longer prompts, tokens.")
    ] = None,
    from_s: Annotated[
        float | None, typer.Option("--from", min=0, help="Start of the workload's part, seconds.")
    ] = None,
    to_s: Annotated[
        float | None, typer.Option("--to", min=0, help="End of the workload's part, seconds.")
    ] = None,
    min_replicas: Annotated[int | None, typer.Option(min=1, help="Fewest replicas.")] = None,
    max_replicas: Annotated[int | None, typer.Option(min=1, help="Most replicas.")] = None,
    cold_start: Annotated[
        float | None, typer.Option(min=0, help="From order to ready, seconds.")
    ] = None,
    split: Annotated[
        SplitName | None,
        typer.Option(help="Range to evaluate; default: test, for --trace everything."),
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_WINDOWS, help="Windows a scenario; default: all that fit, at most 64."
        ),
    ] = None,
    ticks: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_TICKS, help="Length of a window; default: the scenario's."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of windows, traffic, faults, intervals.")
    ] = 0,
    as_json: AsJson = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write an HTML report with plots.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one row an episode: csv, csv.gz, parquet."),
    ] = None,
    traces: TracesDir = None,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of runs, for run:ID.")] = Path(
        "runs"
    ),
    studies: StudiesDir = STUDIES_DIR,
    cells: CellsDir = CELLS_DIR,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_WORKERS,
            envvar="GATEPILOT_WORKERS",
            help="Processes to play on; default: one a core, if there is so much to do.",
        ),
    ] = None,
) -> None:
    """Compare policies and baselines over the same windows, with intervals.

    Controllers are tuned first, on training windows of the same scenario, each at its own step
    size and with the same budget. What was played is kept and not played again, so an interrupted
    evaluation goes on where it was. Ends with 1 if no window could be played.

    Example: gatepilot evaluate --policy hpa --policy best_fixed --scenario azure70b
    """
    _check_outputs(report, out)
    overrides = Overrides(
        rate_scale, max_prompt, from_s, to_s, min_replicas, max_replicas, cold_start
    )
    chosen = [name for name, given in _sources(suite, scenario, trace).items() if given]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none of them"
        raise typer.BadParameter(f"give one of --suite, --scenario and --trace; got {found}")
    if (trace is None) != (profile is None):
        raise typer.BadParameter("--trace and --profile go together")
    if len(set(policy)) < len(policy):
        raise typer.BadParameter("a policy is named twice")
    if trace is not None and profile is not None:
        scenarios: tuple[Scenario, ...] = (trace_scenario(trace, profile, overrides, traces),)
    else:
        scenarios = named_scenarios(suite, scenario or (), overrides)
        split = split or SplitName.test
    plan = StudyPlan(
        scenarios=scenarios,
        policies=tuple(spelt_out(name, runs) for name in policy),
        split=None if split is None else split.value,
        places=Places(cells, studies, traces, runs),
        windows=windows,
        ticks=ticks,
        seed=seed,
        workers=workers,
    )
    study = conduct(plan, prepare_study(plan))
    if out is not None:
        study.results.write(out)
    if report is not None:
        from ..report import write_report  # noqa: PLC0415  # plots take a second to load

        write_report(study, report)
    if as_json:
        typer.echo(json.dumps(study.results.as_dict(), allow_nan=False))
    else:
        print_study(study)
    if not study.results.episodes:
        typer.echo(f"nothing to judge: {gated_line(study)}", err=True)
        raise typer.Exit(NOTHING_JUDGED)


def _check_outputs(report: Path | None, out: Path | None) -> None:
    for path in (report, out):
        if path is not None:
            check_writable(path)
    if out is not None:
        check_table(out)


def _sources(suite: str | None, scenario: list[str] | None, trace: Path | None) -> dict[str, bool]:
    return {
        "--suite": suite is not None,
        "--scenario": bool(scenario),
        "--trace": trace is not None,
    }
