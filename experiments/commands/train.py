"""`gatepilot train`: trains a policy and keeps the record."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from ...agents.callbacks import TrainingDivergedError
from ...agents.config import replaced
from ...agents.training import Device, Training
from ..compilation import compile_with_notice
from ..config import load_config
from ..files import check_folder
from ..options import MOST_SEED, MOST_SEEDS, MOST_TICKS, RUNS_DIR, AsJson, RunsDir, TracesDir
from ..progress import TrainingProgress
from ..provenance import collect
from ..seeds import FinishedSeeds, check_seeds, group_config, train_seeds
from ..tracking import RunStore, TrackedRun
from ..training_options import ConfigName, Learner
from ..training_run import FinishedRun, config_to_resume, open_run, run_training
from ..training_summary import print_finished, print_seeds

DIVERGED = 1
"""Exit code of a training whose weights are no longer finite."""


def train(  # noqa: PLR0913, PLR0917  # options of the command
    config: ConfigName,
    algo: Learner = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MOST_SEED, help="Seed instead of the configuration's.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_TICKS, help="Steps instead of the configuration's."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=MOST_SEEDS,
            help="Train so many seeds, one after the other: child runs of one parent.",
        ),
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
    runs: RunsDir = RUNS_DIR,
    traces: TracesDir = None,
) -> None:
    """Train a policy; the best checkpoint by validation is kept, everything is logged to MLflow.

    Ends with 1 if the training diverged.

    Example: gatepilot train tenants70b --seed 1
    """
    if seeds is not None and resume is not None:
        raise typer.BadParameter("--seeds begins a new group of runs; --resume knows its own")
    check_folder(runs)
    store = RunStore(runs)
    given = load_config(config)
    group = None if resume is None else store.group_size(resume)
    if resume is None:
        wanted = replaced(given, where="command line", algo=algo, seed=seed, steps=steps)
    else:
        stored = store.files(resume).config() if group is None else group_config(store, resume)
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
    if seeds is not None:
        check_seeds(wanted, seeds, MOST_SEED)
    notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    set_up = partial(Training, traces_dir=traces, device=device)
    ready = [set_up(wanted)]  # what cannot be trained leaves no run behind
    compile_with_notice()
    begun = resume
    try:
        if seeds is None and group is None:
            training = ready.pop()
            run = open_run(training, store, collect(), resume=resume)
            begun = run.run_id
            finished = _trained(notes, training, run, resume is not None)
            _show(finished, store, begun, as_json=as_json)
        else:
            begun = begun or store.create_group(wanted, seeds or 0, collect())
            notes.print(f"run {begun}, the parent of all seeds")
            found = train_seeds(
                begun, ready, store, collect(), set_up=set_up, train=partial(_trained, notes)
            )
            _show(found, store, begun, as_json=as_json)
    except KeyboardInterrupt:
        notes.print(f"stopped; go on with: gatepilot train {config} --resume {begun}")
        raise
    except TrainingDivergedError as error:
        notes.print(f"gatepilot train: {error}")
        raise typer.Exit(DIVERGED) from None


def _trained(notes: Console, training: Training, run: TrackedRun, is_resumed: bool) -> FinishedRun:
    """Trains with a bar."""
    notes.print(f"run {run.run_id}")
    name = f"{training.config.name}, seed {training.config.seed}"
    with TrainingProgress(name, training.config.steps) as progress:
        return run_training(training, run, resume=is_resumed, on_status=progress)


def _show(
    found: FinishedRun | FinishedSeeds, store: RunStore, run_id: str, *, as_json: bool
) -> None:
    """Writes the page of what was trained, and prints it."""
    from ..comparison_page import write_run_report  # noqa: PLC0415  # plots take a second to load

    write_run_report(store, run_id)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), allow_nan=False))
    elif isinstance(found, FinishedSeeds):
        print_seeds(found, store)
    else:
        print_finished(found, store)
