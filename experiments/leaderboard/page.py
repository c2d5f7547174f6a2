"""A leaderboard as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ...reward.documented import default_reward
from ..files import replacing
from ..page import Picture, filled
from ..plots import drawn
from . import plots
from .board import Board
from .frozen import Reproduction
from .standings import Standing

_TEMPLATE: Final = "leaderboard.html.j2"


def write_page(
    board: Board, path: Path, run: dict[str, Any], reproduction: Reproduction | None
) -> None:
    """Writes the page; a failure leaves what was there before.

    Args:
        board: The leaderboard.
        path: The file.
        run: Command, versions, machine, notes.
        reproduction: Beside the frozen table; `None`: there is none.

    Raises:
        OutputError: It cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_text(render(board, run, reproduction), encoding="utf-8")


def render(board: Board, run: dict[str, Any], reproduction: Reproduction | None) -> str:
    """The page as HTML text."""
    spec, standings = board.spec, board.standings
    colors = plots.named_colors(standings.suite, (spec.bound, spec.against, spec.floor))
    values = {
        "board": board,
        "spec": spec,
        "colors": colors,
        "suite": _best_first(standings.suite),
        "pictures": _pictures(board, colors),
        "chapters": [
            (
                trial,
                _best_first(standings.scenarios[trial.scenario.name]),
                Picture(
                    f"Cost against broken promises in {trial.scenario.name}",
                    "Down and left is better. Hollow squares: steps of one; stars know what is to "
                    "come.",
                    _pareto(standings.scenarios[trial.scenario.name], colors),
                ),
            )
            for trial in board.trials
        ],
        "run": run,
        "reproduction": reproduction,
        "limits": default_reward.slo,
    }
    return filled(_TEMPLATE, values)


def _pictures(board: Board, colors: dict[str, str]) -> list[Picture]:
    spec, suite = board.spec, board.standings.suite
    if not suite:
        return []
    pictures = [
        Picture(
            "Cost against broken promises",
            "Means over the suite. Down and left is better; the dashed line joins the policies "
            "that no other beats on both counts. Hollow squares: steps of one; stars know what is "
            "to come, and are no rivals.",
            _pareto(suite, colors),
        ),
        Picture(
            "The gap to what could be reached",
            f"{spec.bound} knows what is to come; no controller can. Lines: 95 % intervals.",
            drawn(lambda: plots.gap_plot(suite, spec.bound, spec.floor)),
        ),
    ]
    if board.sweeps:
        pictures.append(
            Picture(
                "The longer replicas take to start",
                "The same day of traffic on replicas that are ready later and later after the "
                "order. Grey: the other policies.",
                drawn(lambda: plots.sweep_plot(board.sweeps, colors)),
            )
        )
    return pictures


def _pareto(rows: Sequence[Standing], colors: dict[str, str]) -> str:
    return drawn(lambda: plots.pareto_plot(rows, colors))


def _best_first(rows: Sequence[Standing]) -> list[Standing]:
    return sorted(rows, key=lambda row: -row.return_mean)
