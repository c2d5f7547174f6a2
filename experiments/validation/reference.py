"""Section `reference`: runs of another simulator, repeated and compared by percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from ...envs.sim.outcomes import OK, Outcomes
from ...envs.sim.whole_run import simulate
from .claim import Claim, Figure, Section, ValidationContext, skipped_section
from .reference_runs import LATENCIES, PERCENTILES, ReferenceRun, load_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

BAR: Final = 0.005
"""Largest relative error of a percentile."""
KV_BOUND_BAR: Final = 0.03
"""The same where requests were evicted for want of KV blocks."""
_TITLE: Final = "Runs of another simulator"
_INTRO: Final = (
    "Runs of Vidur (microsoft/vidur at 7d47513, MIT) with its step predictor replaced by the "
    "linear step model of the run's profile, so that only the dynamics are compared: routing, "
    "chunked prefill, continuous batching, KV preemption. The engine gets the same requests and "
    "parameters; each percentile of time to first token (TTFT) and end-to-end time may differ by "
    f"{100 * BAR:g} %, by {100 * KV_BOUND_BAR:g} % where the KV cache was short. The last column "
    "is the largest difference of a single request; nothing is promised about it."
)


def run(context: ValidationContext) -> Section:
    """Simulates every run of the folder.

    Raises:
        ReferenceRunError: The folder is there and cannot be used.
    """
    if context.reference is None:
        reason = "no reference runs here: name their folder with --reference"
        return skipped_section("reference", _TITLE, _INTRO, reason)
    runs = load_runs(context.reference)
    advance = context.progress.start(_TITLE, len(runs))
    claims: list[Claim] = []
    pairs: list[tuple[ReferenceRun, Outcomes]] = []
    for reference in runs:
        outcomes = repeat(reference)
        claims += compare(reference, outcomes)
        if outcomes is not None:
            pairs.append((reference, outcomes))
        advance(1)
    return Section("reference", _TITLE, _INTRO, tuple(claims), figures=_draw(pairs))


def repeat(reference: ReferenceRun) -> Outcomes | None:
    """The run again, by the engine; `None` where it refuses the parameters."""
    if reference.params is None:
        return None
    return simulate(reference.requests, reference.params, replicas=reference.replicas).outcomes


def compare(reference: ReferenceRun, outcomes: Outcomes | None) -> list[Claim]:
    """A claim for each percentile; one that the engine could not even run is not met.

    Args:
        reference: The other simulator's run.
        outcomes: The engine's.
    """
    bar = KV_BOUND_BAR if reference.is_kv_bound else BAR
    claims = []
    for key, name in LATENCIES.items():
        found = np.full(len(PERCENTILES), math.nan)
        if outcomes is not None:
            found = np.percentile(_served_s(outcomes, key), PERCENTILES)
        for q, ours, theirs in zip(PERCENTILES, found, reference.percentiles_s[key], strict=True):
            error = float(ours / theirs - 1.0)
            note = (
                f"{theirs:.6g} s there, {ours:.6g} s here"
                if outcomes is not None
                else reference.refused
            )
            passed = abs(error) <= bar
            claims.append(
                Claim(reference.name, f"{name} p{q}", error, bar, "fraction", passed, note)
            )
    if outcomes is not None and reference.latencies_s:
        worst = max(
            float(np.abs(_served_s(outcomes, key) - theirs).max())
            for key, theirs in reference.latencies_s.items()
        )
        note = f"{len(reference.requests):,} requests, TTFT and e2e"
        claims.append(Claim(reference.name, "worst request", worst, None, "s", None, note))
    return claims


def _served_s(outcomes: Outcomes, key: str) -> NDArray[np.float64]:
    """A latency of every request; NaN, and with it every percentile, where one was not served."""
    served: NDArray[np.float64] = np.where(outcomes.status == OK, getattr(outcomes, key), math.nan)
    return served


def _draw(pairs: Sequence[tuple[ReferenceRun, Outcomes]]) -> tuple[Figure, ...]:
    shown = [pair for pair in pairs if pair[0].latencies_s]
    if not shown:
        return ()
    return (
        Figure(
            "reference_latencies",
            "Latencies of the reference runs",
            "Share of requests that are served within a time. Grey: the other simulator; thin: the "
            "engine, upon it.",
            partial(_curves, shown),
        ),
    )


def _curves(pairs: Sequence[tuple[ReferenceRun, Outcomes]]) -> Drawn:
    from matplotlib.figure import Figure as Drawn  # noqa: PLC0415  # loaded for pages alone

    from ..plots import COLORS  # noqa: PLC0415

    columns = min(len(pairs), 4)
    rows = math.ceil(len(pairs) / columns)
    figure = Drawn(figsize=(10.5, 0.4 + 2.2 * rows), layout="constrained")
    axes: list[Axes] = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    shares = np.linspace(0.0, 1.0, 81)
    for ax, (reference, outcomes) in zip(axes, pairs, strict=False):
        for (key, name), color in zip(LATENCIES.items(), COLORS, strict=False):
            if key not in reference.latencies_s:
                continue
            theirs = np.quantile(reference.latencies_s[key], shares)
            ours = np.nanquantile(_served_s(outcomes, key), shares)
            ax.plot(theirs, shares, color="#c3cad1", lw=5)
            ax.plot(ours, shares, color=color, lw=1.2, label=name)
        ax.set_xscale("log")
        ax.set_title(reference.name, fontsize=8)
        ax.set_xlabel("seconds")
    for ax in axes[len(pairs) :]:
        ax.set_visible(False)
    axes[0].set_ylabel("share of requests")
    axes[0].legend(loc="upper left")
    return figure
