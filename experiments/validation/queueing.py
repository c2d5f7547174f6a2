"""Section `queueing`: set-ups of the engine whose mean wait queueing theory knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from .claim import Claim, Figure, Section, ValidationContext
from .queues import FULL, QUEUES, QUICK, Effort, MeanWait, Queue, measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

BAR: Final = 0.02
"""Largest error of a mean wait, and widest half of its interval."""
QUICK_LOADS: Final = (0.1, 0.5, 0.9)
QUICK_QUEUES: Final = ("M/M/1", "M/D/1", "M/M/2", "M/M/1-PS")
_TITLE: Final = "Queueing theory"
_INTRO: Final = (
    "The engine set up as a queue of the textbook, in front of Poisson arrivals: its mean wait "
    "against the formula. M/M/1 and M/D/1: one sequence at a time, an iteration of constant "
    "length; Pollaczek-Khinchine. M/M/c: c sequences at a time; Erlang C. PS: iterations that grow "
    "with the batch share the processor; what is compared is the mean time that sharing adds, "
    "which depends on the mean service alone. A mean service takes 500,000 iterations; where it is "
    "known exactly what these steps change, the full list says so; nothing is subtracted. Met: "
    f"the error is at most {100 * BAR:g} % and the 95 % interval, over independent runs, no wider "
    f"than {100 * BAR:g} % to either side; one in twenty such intervals misses 0 by chance. Left "
    "out: M/M/8 below load 0.5, where few requests wait at all."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One queue at one load: simulated, and by its formula."""

    queue: Queue
    load: float
    found: MeanWait
    stepped_s: float | None
    """Exact mean of the stepped queue; `None` where it is not known."""

    @property
    def formula_s(self) -> float:
        """By the textbook."""
        return self.queue.formula_s(self.load)

    @property
    def error(self) -> float:
        """Simulated against the formula, as a fraction."""
        return self.found.mean_s / self.formula_s - 1.0

    @property
    def half_width(self) -> float:
        """Half of the error's 95 % interval."""
        return self.found.half_width_s / self.formula_s

    def claim(self) -> Claim:
        """Met if the error is small, and known well enough to say so."""
        note = (
            f"formula {self.formula_s:.6g}, simulated {self.found.mean_s:.6g} mean services; "
            f"{self.found.requests:,} requests in {self.found.runs} runs"
        )
        if self.stepped_s is not None:
            note += f"; the steps shift the exact mean by {self.stepped_s / self.formula_s - 1:.1e}"
        return Claim(
            self.queue.name,
            f"load {self.load:g}",
            self.error,
            BAR,
            "fraction",
            abs(self.error) <= BAR and self.half_width <= BAR,
            note,
            (self.error - self.half_width, self.error + self.half_width),
        )


def run(context: ValidationContext) -> Section:
    """Measures every queue at every load."""
    queues = [q for q in QUEUES if not context.quick or q.name in QUICK_QUEUES]
    plan = [
        (queue, load)
        for queue in queues
        for load in queue.loads
        if not context.quick or load in QUICK_LOADS
    ]
    advance = context.progress.start(_TITLE, len(plan))
    cells = []
    for queue, load in plan:
        cells.append(cell(queue, load, QUICK if context.quick else FULL, seed=context.seed))
        advance(1)
    return Section(
        "queueing", _TITLE, _INTRO, tuple(c.claim() for c in cells), figures=_draw(cells)
    )


def cell(queue: Queue, load: float, effort: Effort, *, seed: int) -> Cell:
    """One queue at one load.

    Args:
        queue: The queue.
        load: Of each server.
        effort: How much to simulate.
        seed: Of arrivals and services.
    """
    return Cell(queue, load, measure(queue, load, effort, seed=seed), queue.stepped_s(load))


def _draw(cells: Sequence[Cell]) -> tuple[Figure, ...]:
    return (
        Figure(
            "queueing_errors",
            "Error of the mean wait",
            "Point: simulated against the formula; line: 95 % interval; shaded: the bar.",
            partial(_errors, cells),
        ),
        Figure(
            "queueing_waits",
            "Mean wait by load",
            "Lines: the formulas; points: simulated. In units of the mean service time. Under "
            "processor sharing it is the time that sharing adds, and has the curve of M/M/1 for "
            "both laws of service.",
            partial(_waits, cells),
        ),
    )


def _errors(cells: Sequence[Cell]) -> Drawn:
    from matplotlib.figure import Figure as Drawn  # noqa: PLC0415  # loaded for pages alone

    from ..plots import COLORS  # noqa: PLC0415

    names = list(dict.fromkeys(c.queue.name for c in cells))
    figure = Drawn(figsize=(10.5, 3.0), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for ax, name, color in zip(axes, names, COLORS, strict=False):
        shown = [c for c in cells if c.queue.name == name]
        ax.set_title(name.replace(", ", ",\n"))
        ax.axhspan(-100 * BAR, 100 * BAR, color="#009E73", alpha=0.10, lw=0)
        ax.axhline(0, color="#333333", lw=1)
        for place, c in enumerate(shown):
            ends = [100 * (c.error - c.half_width), 100 * (c.error + c.half_width)]
            ax.plot([place, place], ends, color=color, lw=2.2, alpha=0.55)
            ax.plot(place, 100 * c.error, "o", color=color, ms=5)
        ax.set_xticks(range(len(shown)), [f"{c.load:g}" for c in shown], rotation=90)
        ax.set_xlim(-0.6, len(shown) - 0.4)
        ax.set_xlabel("load")
    axes[0].set_ylabel("error of the mean wait, %")
    return figure


def _waits(cells: Sequence[Cell]) -> Drawn:
    from matplotlib.figure import Figure as Drawn  # noqa: PLC0415  # loaded for pages alone

    from ..plots import COLORS  # noqa: PLC0415

    figure = Drawn(figsize=(10.5, 4.0), layout="constrained")
    ax = figure.subplots()
    names = list(dict.fromkeys(c.queue.name for c in cells))
    for name, color in zip(names, COLORS, strict=False):
        shown = [c for c in cells if c.queue.name == name]
        curve = np.linspace(shown[0].load, shown[-1].load, 100)
        ax.plot(curve, [shown[0].queue.formula_s(x) for x in curve], color=color, lw=1.4)
        means = [c.found.mean_s for c in shown]
        ax.plot([c.load for c in shown], means, "o", color=color, ms=5.5, label=name)
    ax.set_yscale("log")
    ax.set_xlabel("load")
    ax.set_ylabel("mean wait, mean services")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
