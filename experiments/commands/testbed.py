"""`gatepilot testbed`: a real Envoy and a real Prometheus around emulated replicas."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import MOST_SEED
from ..testbed.console import LoadProgress, notes, print_end, print_start
from ..testbed.injection import SYNTAX
from ..testbed.launcher import Launcher
from ..testbed.layout import Layout
from ..testbed.plan import Plan, Wishes, planned

testbed = typer.Typer(
    help="A real gateway and real telemetry on this machine, around emulated replicas.",
    no_args_is_help=True,
    add_completion=False,
)


@testbed.callback()
def _group() -> None:
    """A real gateway and real telemetry on this machine, around emulated replicas."""


@testbed.command()
def up(  # noqa: PLR0913, PLR0917  # options of the command
    replicas: Annotated[
        int | None,
        typer.Option(metavar="N", help="Emulated replicas; default: the scenario's at its start."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Requests to replay instead of the scenario's."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="X", help="Requests a second to scale the load to; 0: no load."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Length of the load; default: until stopped.")
    ] = None,
    scenario: Annotated[
        str, typer.Option(metavar="NAME", help="Shipped name or file: load, gateway, limits.")
    ] = "testbed",
    profile: Annotated[
        str | None, typer.Option(metavar="ID", help="Serving profile instead of the scenario's.")
    ] = None,
    fault: Annotated[list[str] | None, typer.Option(metavar="FAULT", help=SYNTAX)] = None,
    restart_after: Annotated[
        float,
        typer.Option(metavar="S", min=0, help="How long a part that died stays dead."),
    ] = 20.0,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of sampled loads and injected errors.")
    ] = 0,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for requests, logs and configurations.")
    ] = Path("gatepilot-testbed"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end.")
    ] = False,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="GATEPILOT_TRACES", help="Folder of request traces."),
    ] = None,
) -> None:
    """Start Envoy, Prometheus, replicas and a load on free ports of this machine; Ctrl-C ends all.

    Example: gatepilot testbed up --replicas 4 --rate 20 --seconds 600 --fault 1:errors=0.6@60-180
    """
    plan = planned(
        Wishes(
            scenario=scenario,
            replicas=replicas,
            trace=trace,
            rate_rps=rate,
            seconds=seconds,
            profile=profile,
            faults=tuple(fault or ()),
            seed=seed,
            traces_dir=traces,
        )
    )
    layout = Layout.choose(out, plan.replicas)
    result = asyncio.run(_until_stopped(plan, layout, restart_after, as_json=as_json))
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
    else:
        print_end(result)


async def _until_stopped(
    plan: Plan, layout: Layout, restart_after_s: float, *, as_json: bool
) -> dict[str, Any]:
    """The testbed to its end, by itself or by a signal."""
    result: dict[str, Any] = {"urls": layout.urls, "folder": str(layout.folder), "load": None}

    async def whole() -> None:
        with LoadProgress(plan.seconds) as progress:
            async with Launcher(
                plan, layout, say=progress.note, restart_after_s=restart_after_s
            ) as launcher:
                print_start(plan, layout, to=notes() if as_json else None)
                try:
                    result["load"] = await launcher.run(progress)
                finally:
                    result["cpu_s"] = launcher.cpu_s

    task = asyncio.create_task(whole())
    loop = asyncio.get_running_loop()

    def stop() -> None:
        """Once is a request; after that the signals act as usual, and the parts die with us."""
        for number in signals:
            loop.remove_signal_handler(number)
        task.cancel()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, stop)
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
    return result
