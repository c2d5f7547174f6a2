"""What a training prints when it has come to its end."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from .run_files import REPORT_FILE
from .seeds import FinishedSeeds
from .tracking import RunStore
from .training_run import FinishedRun


def print_finished(finished: FinishedRun, store: RunStore) -> None:
    """Prints run, validation of the best checkpoint, model, and where to look on."""
    result = finished.result
    table = Table(
        title=f"best checkpoint, after {result.best_step:,} steps, on the validation split",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=False,
    )
    table.add_column()
    table.add_column(justify="right")
    for name, value in figures(finished):
        table.add_row(name, value)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(table)
    speed = f"{result.steps_per_s:,.0f} steps/s"
    console.print(f"run     {finished.run_id}")
    console.print(f"steps   {result.steps:,} in {result.wall_s:.0f} s ({speed})")
    console.print(f"model   {result.model_path}")
    console.print(f"report  {store.files(finished.run_id).folder / REPORT_FILE}")
    console.print(f"MLflow  {store.ui_command}")
    if result.validation.has_collapsed:
        console.print("The best checkpoint has collapsed: it chooses one action nearly everywhere.")
    if result.best_step == 0:
        console.print("No checkpoint was better than the untrained policy: train longer.")


def print_seeds(finished: FinishedSeeds, store: RunStore) -> None:
    """Prints what each seed reached, and how to judge them together."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for seed, value in finished.returns.items():
        console.print(f"seed {seed}  return {value:.2f} on the validation windows")
    mean, spread = finished.return_mean, finished.return_sd
    console.print(f"mean    {mean:.2f}, standard deviation {spread:.2f}")
    console.print(f"run     {finished.run_id}, the parent of all")
    console.print(f"report  {store.files(finished.run_id).folder / REPORT_FILE}")
    console.print(f"judge   gatepilot evaluate --policy run:{finished.run_id} ...")
    console.print(f"MLflow  {store.ui_command}")


def figures(finished: FinishedRun) -> list[tuple[str, str]]:
    """The best checkpoint's figures in words."""
    best = finished.result.validation
    return [
        ("windows", f"{best.windows} of {best.ticks} ticks"),
        ("return, mean", f"{best.return_mean:.2f}"),
        ("return, median", f"{best.return_median:.2f}"),
        ("violating ticks", f"{100 * best.violation_rate:.2f} %"),
        ("replica-hours a window", f"{best.replica_hours:.2f}"),
        ("failed requests", f"{100 * best.error_rate:.3f} %"),
        ("changes a window", f"{best.changes:.1f}"),
        ("threshold, distance from its start", f"{best.threshold_distance:.3f}"),
        ("entropy of the choices", f"{best.action_entropy:.2f} nats"),
    ]
