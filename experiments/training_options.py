"""What commands that train have in common: which configuration, which learner."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from ..agents.config import Algorithm
from .config import config_names

ConfigName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG", help=f"A file, or a shipped one: {', '.join(config_names())}."
    ),
]
Learner: TypeAlias = Annotated[
    Algorithm | None, typer.Option(help="Learner instead of the configuration's.")
]
