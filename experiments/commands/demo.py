"""`gatepilot demo`: trains, compares, seals, rehearses, reports; no service, no trace file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...agents.artifact.parity import ParityError
from ...agents.artifact.placing import check_place
from ...agents.callbacks import TrainingDivergedError
from ...agents.config import replaced
from ..compilation import compile_with_notice
from ..config import load_config
from ..demonstration import CONFIG, INCUMBENT, Places, compared, sealed, trained, watched
from ..files import check_folder
from ..options import MOST_SEED, MOST_TICKS, AsJson
from ..rehearsal.section import section_of
from ..rehearsal.wording import summary_line
from ..report import write_report
from ..terminal import print_study
from ..tracking import RunStore

FAILED = 1
"""Exit code of a training whose weights are no longer finite, and of an export that differs."""


def demo(
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for the report, the artifact and MLflow's runs."),
    ] = Path("gatepilot-demo"),
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_TICKS, help="Training steps; default: about two minutes of them."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of the training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a policy, compare it with the field's controllers, seal it, watch it in shadow, report.

    Takes about four minutes on two cores, the engine's first compilation included. Needs no
    service, no trace file and no network.

    Example: gatepilot demo --out /tmp/demo
    """
    started_s = time.perf_counter()
    check_folder(out)
    places = Places(out)
    if out.is_dir():
        check_place(places.artifact, force=True)  # before minutes of training
    config = replaced(load_config(CONFIG), where="command line", seed=seed, steps=steps)
    compile_with_notice()
    notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    store = RunStore(out)
    notes.print(f"1. PPO learns {config.steps:,} steps of the scenario {config.scenarios[0]}.")
    try:
        finished, scenario = trained(config, store)
        notes.print("2. It is compared with controllers, tuned on the same training range.")
        study = compared(finished, scenario, store)
        notes.print("3. It is sealed: exported, checked against the trained one, signed.")
        manifest = sealed(finished, store, places)
    except (TrainingDivergedError, ParityError) as error:
        notes.print(f"gatepilot demo: {error}")
        raise typer.Exit(FAILED) from None
    notes.print(f"4. The bridge watches {INCUMBENT} with it, in shadow, on a virtual clock.")
    rehearsal = watched(study, scenario, places)
    write_report(study, places.report, section_of(rehearsal))
    wall_s = time.perf_counter() - started_s
    if as_json:
        content = {
            "report": str(places.report),
            "runs": str(out),
            "artifact": str(places.artifact),
            "public_key": str(places.public_key),
            "digest": manifest.digest,
            "wall_s": wall_s,
            "training": finished.as_dict(),
            "evaluation": study.results.as_dict(),
            "rehearsal": rehearsal.as_dict(),
        }
        typer.echo(json.dumps(content, allow_nan=False))
        return
    print_study(study)
    say = Console(soft_wrap=True, highlight=False, markup=False)
    say.print(f"\n{summary_line(rehearsal.findings, INCUMBENT)}")
    say.print(f"Took {wall_s:.0f} s, {finished.result.wall_s:.0f} s of it training.")
    say.print(f"report    {places.report}")
    say.print(f"MLflow    {store.ui_command}")
    say.print(f"artifact  {places.artifact}")
    say.print(
        f"          gatepilot-bridge verify {places.artifact} --public-key {places.public_key}"
    )
    say.print(f"ledger    {rehearsal.shadow.ledger}")
    say.print(f"          gatepilot-bridge replay {rehearsal.shadow.ledger}")
