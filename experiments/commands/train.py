"""`gatepilot train`: trains a policy and keeps the record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...agents.callbacks import TrainingDivergedError
from ...agents.config import Algorithm, replaced
from ...agents.training import Device, Training
from ..compilation import compile_with_notice
from ..config import config_names, load_config
from ..files import check_folder
from ..options import MOST_SEED, MOST_TICKS, AsJson, TracesDir
from ..progress import TrainingProgress
from ..provenance import collect
from ..tracking import RunStore
from ..training_run import config_to_resume, open_run, run_training
from ..training_summary import print_finished

DIVERGED = 1
"""Exit code of a training whose weights are no longer finite."""


def train(  # noqa: PLR0913, PLR0917  # options of the command
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG", help=f"A file, or a shipped one: {', '.join(config_names())}."
        ),
    ],
    algo: Annotated[
        Algorithm | None, typer.Option(help="Learner instead of the configuration's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MOST_SEED, help="Seed instead of the configuration's.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_TICKS, help="Steps instead of the configuration's."),
    ] = None,
    device: Annotated[
        Device,
        typer.Option(help="auto is cpu: networks of 64 units are faster there than on a GPU."),
    ] = "auto",
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run that was broken off, where it stopped."),
    ] = None,
    as_json: AsJson = False,
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of runs: MLflow's database, the models.")
    ] = Path("runs"),
    traces: TracesDir = None,
) -> None:
    """Train a policy; the best checkpoint by validation is kept, everything is logged to MLflow.

    Ends with 1 if the training diverged.

    Example: gatepilot train tenants70b --seed 1
    """
    check_folder(runs)
    store = RunStore(runs)
    given = load_config(config)
    if resume is None:
        wanted = replaced(given, where="command line", algo=algo, seed=seed, steps=steps)
    else:
        stored = store.files(resume).config()
        wanted = config_to_resume(
            stored,
            replaced(
                given,
                where="command line",
                algo=algo or stored.algo,
                seed=stored.seed if seed is None else seed,
                steps=stored.steps if steps is None else steps,
            ),
            resume,
        )
    training = Training(wanted, traces_dir=traces, device=device)
    compile_with_notice()
    notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    run = open_run(training, store, collect(), resume=resume)
    notes.print(f"run {run.run_id}")
    try:
        with TrainingProgress(wanted.name, wanted.steps) as progress:
            finished = run_training(training, run, resume=resume is not None, on_status=progress)
    except KeyboardInterrupt:
        notes.print(f"stopped; go on with: gatepilot train {config} --resume {run.run_id}")
        raise
    except TrainingDivergedError as error:
        notes.print(f"gatepilot train: {error}")
        raise typer.Exit(DIVERGED) from None
    if as_json:
        typer.echo(json.dumps(finished.as_dict(), allow_nan=False))
    else:
        print_finished(finished, store)
