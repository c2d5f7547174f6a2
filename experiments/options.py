"""Options that several commands have, and upper bounds far beyond what anybody asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

MOST_SEED: Final = 2**32 - 1
"""Largest seed that every generator takes (NumPy's old one, which the learners use)."""
MOST_TICKS: Final = 2**31 - 1
"""Most ticks of an episode or a training."""
MOST_WINDOWS: Final = 10_000
"""Most windows, a scenario."""
MOST_FITTED_BINS: Final = 100_000
"""Most bins of a fitted rate curve, more than one a second of a day."""
MOST_GROUPS: Final = 10_000
"""Most groups of tenants."""
MOST_SEEDS: Final = 10_000
"""Most samples of a check."""
MOST_WORKERS: Final = 1024
"""Most processes of an evaluation."""

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
RunsDir: TypeAlias = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of runs: MLflow's database, the models.")
]
RUNS_DIR: Final = Path("runs")
"""Where runs are kept, unless another folder is given."""
TracesDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        envvar="GATEPILOT_TRACES",
        help="Folder of request traces; without it, workload models stand in.",
    ),
]
StudiesDir: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        envvar="GATEPILOT_STUDIES",
        show_default="~/.cache/gatepilot/studies",
        help="Where tuning studies are kept, to be gone on with.",
    ),
]
CellsDir: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        envvar="GATEPILOT_CELLS",
        show_default="~/.cache/gatepilot/cells",
        help="Where what was played is kept, to be taken again.",
    ),
]
