"""Plots of the section `silicon`: predicted against measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .claim import Figure
from .silicon_profiles import MEASURED, Compared, Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn


def silicon_figures(found: Sequence[Compared], bar: float, aim: float) -> tuple[Figure, ...]:
    """Predicted against measured; none where no row of a measured profile was predicted.

    Args:
        found: Profiles against their rows.
        bar: Of the time a token, as a share.
        aim: Of the time to the first token, as a share.
    """
    measured = [one for one in found if one.profile.kind == MEASURED and one.points]
    if not measured:
        return ()
    return (
        Figure(
            "silicon_tpot",
            "Time a token, predicted and measured",
            "Each dot a measured row whose concurrency was left out of the fit; shaded: the bar.",
            partial(_scatter, measured, bar, first_token=False),
        ),
        Figure(
            "silicon_ttft",
            "Time to the first token, predicted and measured",
            "The same rows; front end and prefill token fitted to the other concurrencies. "
            "Shaded: the aim.",
            partial(_scatter, measured, aim, first_token=True),
        ),
    )


def _scatter(found: Sequence[Compared], band: float, *, first_token: bool) -> Drawn:
    """Predicted over measured, a panel an engine, a colour a model."""
    from matplotlib.figure import Figure as Drawn  # noqa: PLC0415  # loaded for pages alone

    from ..plots import COLORS  # noqa: PLC0415

    engines = sorted({one.profile.engine for one in found}, reverse=True)
    models = sorted({one.profile.model for one in found})
    figure = Drawn(figsize=(10.5, 4.2), layout="constrained")
    axes = figure.subplots(1, len(engines), sharex=True, sharey=True, squeeze=False)[0]
    low, high = np.inf, 0.0
    for ax, engine in zip(axes, engines, strict=True):
        ax.set_title(engine)
        for model, color in zip(models, COLORS, strict=False):
            chosen = [o for o in found if (o.profile.engine, o.profile.model) == (engine, model)]
            points = [point for one in chosen for point in one.points]
            x, y = _coordinates(points, first_token=first_token)
            ax.plot(x, y, "o", color=color, ms=4, alpha=0.75, mec="white", mew=0.3, label=model)
            low = min([low, *x, *y])
            high = max([high, *x, *y])
    ends = np.array([0.8 * low, 1.25 * high])
    for ax in axes:
        ax.fill_between(
            ends, (1 - band) * ends, (1 + band) * ends, color="#009E73", alpha=0.12, lw=0
        )
        ax.plot(ends, ends, color="#333333", lw=1)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(ends)
        ax.set_ylim(ends)
        ax.set_xlabel("measured, s" if first_token else "measured, ms")
    axes[0].set_ylabel("predicted, s" if first_token else "predicted, ms")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(models))
    return figure


def _coordinates(points: Sequence[Point], *, first_token: bool) -> tuple[list[float], list[float]]:
    """Measured and predicted, seconds for first tokens, else milliseconds."""
    if not first_token:
        measured = [1000 * point.run.row.tpot_s for point in points]
        return measured, [1000 * point.tpot_s for point in points]
    measured = [point.run.row.ttft_s for point in points]
    return measured, [(1 + point.fitted_ttft_error) * point.run.row.ttft_s for point in points]
