"""`gatepilot tune`: the parameters of every controller, searched with the same budget."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ..compilation import compile_with_notice
from ..files import check_folder, writing
from ..job_progress import JobsProgress
from ..options import MOST_TICKS, MOST_WORKERS, AsJson, StudiesDir, TracesDir
from ..places import CELLS_DIR, STUDIES_DIR, Places
from ..provenance import usable_cpus
from ..scenario_choice import Overrides, named_scenarios
from ..shipped_settings import SettingsFile, write_settings
from ..suites import SUITES
from ..terminal import TABLE_WIDTH
from ..tuning_run import TuningPlan, earlier_files, joined, tune_all

SUITE: Final = "full"
"""What is tuned on unless something else is named."""


def tune(  # noqa: PLR0913, PLR0917  # options of the command
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A controller, with @unit behind it for steps of one; repeat it. Default: all.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"List of scenarios: {', '.join(SUITES)}."),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME_OR_FILE",
            help=f"A shipped scenario or a YAML file; repeat it. Default: --suite {SUITE}.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_WORKERS,
            envvar="GATEPILOT_WORKERS",
            help="Processes to spread the studies over; default: one a core.",
        ),
    ] = None,
    ticks: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_TICKS, help="Length of a window; default: the scenario's."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for one YAML file a scenario.")
    ] = Path("tuned"),
    studies: StudiesDir = STUDIES_DIR,
    traces: TracesDir = None,
    as_json: AsJson = False,
) -> None:
    """Tune controllers on the training range of scenarios, each with the same budget.

    The best set of parameters is kept where it is no worse than the upstream defaults on validation
    windows, else the defaults are. An interrupted search goes on where it was. With --policy, files
    in the folder keep their other controllers.

    Example: gatepilot tune --policy hpa --scenario steady
    """
    if suite is None and not scenario:
        suite = SUITE
    plan = TuningPlan(
        scenarios=named_scenarios(suite, scenario or (), Overrides()),
        policies=tuple(dict.fromkeys(policy or ())),
        ticks=ticks,
        places=Places(CELLS_DIR, studies, traces),
        command=_command(suite, scenario or [], policy or [], ticks),
    )
    plan.jobs()
    for folder in (out, studies):
        check_folder(folder)
    earlier = earlier_files(plan, out)
    compile_with_notice()
    with JobsProgress() as progress:
        found = tune_all(plan, workers=workers or usable_cpus(), watcher=progress)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for new in found:
        old = earlier.get(new.scenario)
        write_settings(out / f"{new.scenario}.yaml", new if old is None else joined(old, new))
    if as_json:
        typer.echo(json.dumps({"scenarios": [asdict(file) for file in found]}, allow_nan=False))
        return
    _print(found)
    typer.echo(f"written to {out}: {', '.join(f'{file.scenario}.yaml' for file in found)}")


def _print(found: tuple[SettingsFile, ...]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, TABLE_WIDTH)
    for file in found:
        title = (
            f"{file.scenario}: {file.traffic}, {file.train_windows} training and "
            f"{file.validation_windows} validation windows of {file.ticks} ticks, mean returns"
        )
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("policy", no_wrap=True)
        for name in ("train", "defaults", "validation", "defaults", "kept"):
            table.add_column(name, justify="right", no_wrap=True)
        for name, one in file.controllers.items():
            figures = (one.train, one.train_default, one.validation, one.validation_default)
            kept = "tuned" if one.train > one.train_default else "defaults"
            table.add_row(name, *(f"{figure:.1f}" for figure in figures), kept)
        console.print(table)


def _command(
    suite: str | None, scenarios: list[str], policies: list[str], ticks: int | None
) -> str:
    """The command line that finds the same, without what says where, how fast and how shown."""
    words = ["gatepilot", "tune"]
    words += [] if suite is None else ["--suite", suite]
    for name in scenarios:
        words += ["--scenario", name]
    for name in policies:
        words += ["--policy", name]
    words += [] if ticks is None else ["--ticks", str(ticks)]
    return shlex.join(words)
