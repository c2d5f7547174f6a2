"""An evaluation as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..agents.episodes import Outcomes
from ..agents.trial import TrialPlan
from ..reward.documented import default_reward
from . import plots
from .files import replacing
from .page import Picture, filled
from .results import Pair, Summary, matrix
from .study import Study
from .timeline import telling_windows, timeline_plot
from .wording import short, ticks_in_words, verdict_line

if TYPE_CHECKING:
    from .rehearsal.section import Section

TIMELINE_POLICIES: Final = 4
"""Policies side by side in a course: more cannot be told apart."""
_TEMPLATE: Final = "report.html.j2"


def write_report(study: Study, path: Path, rehearsal: Section | None = None) -> None:
    """Writes the report of an evaluation; a failure leaves what was there before.

    Args:
        study: The evaluation.
        path: The file.
        rehearsal: Shown in a section of its own.

    Raises:
        OutputError: The folder does not exist or cannot be written to.
    """
    with replacing(path) as temporary:
        temporary.write_text(render(study, rehearsal), encoding="utf-8")


def render(study: Study, rehearsal: Section | None = None) -> str:
    """The report as HTML text."""
    results = study.results
    colors = plots.color_of([row.policy for row in results.summary])
    values = {
        "results": results,
        "verdicts": [
            (pair.comparison.verdict, verdict_line(pair)) for pair in results.pairs_of_the_best()
        ],
        "overall": _overall(results.summary, results.headline_pairs(), colors),
        "headline_pairs": results.headline_pairs(),
        "chapters": [
            (trial, results.by_scenario[trial.scenario.name], _pictures(study, trial, colors))
            for trial in study.trials
            if trial.windows
        ],
        "colors": colors,
        "provenance": results.provenance,
        "ticks": ticks_in_words(trial for trial in study.trials if trial.windows),
        "limits": default_reward.slo,
        "rehearsal": rehearsal,
    }
    return filled(_TEMPLATE, values)


def _overall(
    summary: Sequence[Summary], pairs: Sequence[Pair], colors: dict[str, str]
) -> list[Picture]:
    """What is shown once for everything."""
    pictures = []
    if pairs:
        pictures.append(
            Picture(
                "Differences between policies",
                "Paired: both policies met the same windows. A line that does not touch 0 is a "
                "difference; it is called a win only where the IQM (diamond) has the same sign.",
                plots.drawn(lambda: plots.pairs_plot(pairs, colors)),
            )
        )
    if summary:
        pictures.append(
            Picture(
                "Means and 95 % intervals",
                "Intervals of single policies contain the spread between windows, which pairs "
                "cancel: two that overlap here can still differ clearly above.",
                plots.drawn(lambda: plots.means_plot(summary, colors)),
            )
        )
        pictures.append(
            Picture(
                "Cost against broken promises",
                "Down and left is better. The dashed line joins the policies that no other beats "
                "on both counts.",
                plots.drawn(lambda: plots.pareto_plot(summary, colors)),
            )
        )
    return pictures


def _pictures(study: Study, trial: TrialPlan, colors: dict[str, str]) -> list[Picture]:
    """What is shown of one scenario."""
    name = trial.scenario.name
    rows = study.results.by_scenario[name]
    ranking = [row.policy for row in sorted(rows, key=lambda row: -row.return_mean)]
    pictures = []
    if len(ranking) > 1:
        pictures.append(_scatter(study, name, (ranking[0], ranking[1]), colors))
    shown = ranking[:TIMELINE_POLICIES]
    if rows[0].policy not in shown:
        shown = [rows[0].policy, *shown[:-1]]
    outcomes = {policy: study.outcomes[name, policy] for policy in shown}
    telling, ordinary = telling_windows(outcomes)
    pictures.append(
        _course(trial, telling, "The window in which they differ most.", outcomes, colors)
    )
    if ordinary != telling:
        pictures.append(_course(trial, ordinary, "An ordinary window.", outcomes, colors))
    return pictures


def _course(
    trial: TrialPlan, place: int, why: str, outcomes: dict[str, Outcomes], colors: dict[str, str]
) -> Picture:
    window = trial.windows[place]
    slo = default_reward.slo
    return Picture(
        f"Course of window {window.index}",
        f"{why} It starts {window.start_s / 3600:.2f} h into the range. Red: ticks that violate "
        "the SLO, by latency or by errors. Light: replicas in their cold start.",
        plots.drawn(
            lambda: timeline_plot(
                outcomes,
                place,
                colors,
                tick_s=trial.tick_s,
                latency_limit_s=slo.latency_limit_s,
                max_replicas=trial.limits.max_replicas,
            )
        ),
    )


def _scatter(
    study: Study, scenario: str, names: tuple[str, str], colors: dict[str, str]
) -> Picture:
    episodes = [e for e in study.results.episodes if e.scenario == scenario]
    ours, theirs = (
        matrix([e for e in episodes if e.policy == name]).mean(axis=0) for name in names
    )
    return Picture(
        f"{short(names[0])} against {short(names[1])}, window by window",
        f"A point above the line is a window in which {short(names[0])} did better.",
        plots.drawn(lambda: plots.scatter_plot(ours, theirs, names, colors[names[0]])),
    )
