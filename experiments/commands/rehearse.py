"""`gatepilot rehearse`: the bridge beside the simulated gateway, on a virtual clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...envs.scenario import load_scenario
from ..compilation import compile_with_notice
from ..files import check_writable
from ..options import MOST_SEED, MOST_TICKS, AsJson, TracesDir
from ..rehearsal.faults import check_within, parse_blackout
from ..rehearsal.incumbent import parse_incumbent
from ..rehearsal.plan import RehearsalPlan, load_for, one_window, trained_scenario
from ..rehearsal.rehearsal import rehearse as hold
from ..rehearsal.shadow import new_ledger
from ..rehearsal.terminal import print_rehearsal
from ..terminal import StudyProgress
from .evaluate import SplitName


def rehearse(  # noqa: PLR0913, PLR0917  # options of the command
    artifact: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="Folder of an artifact.")],
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_FILE",
            help="A shipped scenario or a YAML file; default: the (first) one it was trained on.",
        ),
    ] = None,
    ticks: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_TICKS, help="Length of the window; default: the scenario's."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            min=0, help="Which of the windows that fit; default: where the load changes most."
        ),
    ] = None,
    incumbent: Annotated[
        str,
        typer.Option(
            metavar="NAME_OR_FILE",
            help="Controller that drives, with its defaults; or a YAML file with controller and "
            "params, such as a bridge.yaml.",
        ),
    ] = "hpa",
    blind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FROM:TO",
            help="Ticks without an answer from the source, TO excluded; repeat it.",
        ),
    ] = None,
    split: Annotated[
        SplitName, typer.Option(help="Range of the scenario's workload.")
    ] = SplitName.test,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of traffic, routing, cold starts, faults.")
    ] = 0,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the ledger here; default: it is thrown away."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write an HTML page with plots.")
    ] = None,
    as_json: AsJson = False,
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Check the signature with this key; default: it is not checked."
        ),
    ] = None,
    traces: TracesDir = None,
) -> None:
    """Watch an artifact in shadow: a controller drives, the policy is asked, nothing is applied.

    The bridge's own loop, guardrails and ledger run against the simulated gateway on a virtual
    clock. Beside the shadow, and apart from it, the policy and the controller play the same window
    alone, simulated.

    Example: gatepilot rehearse artifact --scenario demo --ticks 480 --blind 100:112 --state shadow
    """
    if report is not None:
        check_writable(report)
    faults = tuple(parse_blackout(text) for text in blind or ())
    driver = parse_incumbent(incumbent)
    chosen = trained_scenario(artifact) if scenario is None else load_scenario(scenario)
    check_within(faults, ticks or chosen.control.episode_ticks)
    policy = load_for(chosen, artifact, public_key)
    trial = one_window(
        chosen, split=split.value, ticks=ticks, number=window, seed=seed, traces_dir=traces
    )
    if state is not None:
        new_ledger(state)
    compile_with_notice()
    with StudyProgress() as progress:
        held = hold(RehearsalPlan(trial, policy, driver, faults), state, progress)
    if report is not None:
        from ..rehearsal.section import write_page  # noqa: PLC0415  # plots take a second to load

        write_page(held, report)
    if as_json:
        typer.echo(json.dumps(held.as_dict(), allow_nan=False))
    else:
        print_rehearsal(held)
