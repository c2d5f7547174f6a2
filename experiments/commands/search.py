"""`gatepilot search`: hyperparameters of a training, with trainings that lag behind broken off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ...agents.config import replaced
from ..compilation import compile_with_notice
from ..config import load_config, to_yaml
from ..files import check_folder, replacing
from ..hyper_search import Found, OnStatus, Watch
from ..hyper_search import search as search_trainings
from ..options import MOST_TICKS, AsJson, StudiesDir, TracesDir
from ..places import STUDIES_DIR
from ..progress import TrainingProgress
from ..training_options import ConfigName, Learner

_SHOWN = 10
"""Trainings in the table, the best first."""


def search(  # noqa: PLR0913, PLR0917  # options of the command
    config: ConfigName,
    trials: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Trainings to try, the configuration's own first."),
    ] = 20,
    algo: Learner = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_TICKS, help="Steps of a training instead of its own."),
    ] = None,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="The best configuration, as YAML.")
    ] = Path("best.yaml"),
    studies: StudiesDir = STUDIES_DIR,
    traces: TracesDir = None,
    as_json: AsJson = False,
) -> None:
    """Search for hyperparameters of a training; those that lag behind are broken off.

    Judged by validation windows alone. An interrupted search goes on where it was.

    Example: gatepilot search demo --trials 10 --steps 200000 -o best.yaml
    """
    wanted = replaced(load_config(config), where="command line", algo=algo, steps=steps)
    for folder in (out.parent, studies):
        check_folder(folder)
    compile_with_notice()
    with _bars() as watch:
        found = search_trainings(
            wanted, trials=trials, studies=studies, traces_dir=traces, watch=watch
        )
    with replacing(out) as temporary:
        temporary.write_text(to_yaml(found.config), encoding="utf-8")
    if as_json:
        content = {
            "out": str(out),
            "score": found.score,
            "trials": [asdict(one) for one in found.trials],
        }
        typer.echo(json.dumps(content, allow_nan=False))
        return
    _print(found)
    typer.echo(f"written to {out}; train it with: gatepilot train {out}")


@contextmanager
def _bars() -> Iterator[Watch]:
    """A bar for the training that is under way, each in the place of the one before."""
    with ExitStack() as shown:

        def watch(name: str, steps: int) -> OnStatus:
            shown.close()
            return shown.enter_context(TrainingProgress(name, steps))

        yield watch


def _print(found: Found) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("trial", "state", "validation", "steps"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("hyperparameters")
    ranked = sorted(found.trials, key=lambda one: float("inf") if one.score is None else -one.score)
    for one in ranked[:_SHOWN]:
        drawn = [f"{name} {value:.3g}" for name, value in one.hyperparameters.items()]
        values = ", ".join(drawn) or "the configuration's own"
        score = "" if one.score is None else f"{one.score:.2f}"
        table.add_row(str(one.number + 1), one.state, score, f"{one.steps:,}", values)
    Console(highlight=False, markup=False, soft_wrap=True).print(table)
