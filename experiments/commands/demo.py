"""`gatepilot demo`: trains on a shipped scenario, compares, reports; no service, no trace file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...agents.callbacks import TrainingDivergedError
from ...agents.config import replaced
from ..compilation import compile_with_notice
from ..config import load_config
from ..demonstration import CONFIG, compared, trained
from ..files import check_folder
from ..report import write_report
from ..terminal import print_study
from ..tracking import RunStore

REPORT = "report.html"
"""Name of the report in the demo's folder."""
DIVERGED = 1
"""Exit code of a training whose weights are no longer finite."""


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the report and MLflow's runs.")
    ] = Path("gatepilot-demo"),
    steps: Annotated[
        int | None, typer.Option(min=1, help="Training steps; default: about two minutes of them.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the training.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a policy, compare it with the controllers of the field, and write a report.

    Takes about four minutes on two cores, the engine's first compilation included. Needs no
    service, no trace file and no network.

    Example: gatepilot demo --out /tmp/demo
    """
    started_s = time.perf_counter()
    check_folder(out)
    config = replaced(load_config(CONFIG), where="command line", seed=seed, steps=steps)
    compile_with_notice()
    notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    store = RunStore(out)
    notes.print(f"1. PPO learns {config.steps:,} steps of the scenario {config.scenario}.")
    try:
        finished, scenario = trained(config, store)
    except TrainingDivergedError as error:
        notes.print(f"gatepilot demo: {error}")
        raise typer.Exit(DIVERGED) from None
    notes.print("2. It is compared with controllers, which are tuned on the same training range.")
    study = compared(finished, scenario, store)
    report = out / REPORT
    write_report(study, report)
    wall_s = time.perf_counter() - started_s
    if as_json:
        content = {
            "report": str(report),
            "runs": str(out),
            "wall_s": wall_s,
            "training": finished.as_dict(),
            "evaluation": study.results.as_dict(),
        }
        typer.echo(json.dumps(content, allow_nan=False))
        return
    print_study(study)
    say = Console(soft_wrap=True, highlight=False, markup=False)
    say.print(f"\nTook {wall_s:.0f} s, {finished.result.wall_s:.0f} s of it training.")
    say.print(f"report  {report}")
    say.print(f"MLflow  {store.ui_command}")
