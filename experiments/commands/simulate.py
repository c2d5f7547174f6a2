"""`gatepilot simulate`: one run of a trace or a scenario, request by request."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ...agents.baselines.registry import params_type
from ...envs.episodes import engine_params
from ...envs.fault_spec import check_onsets
from ...envs.scenario import Scenario, ScenarioError, load_scenario
from ...envs.sim.params import EngineParams
from ...envs.sim.records import MAX_POOL
from ...envs.sim.router import ROUTERS
from ...envs.workload.request import Requests
from ...envs.workload.trace import load_trace
from ..compilation import compile_with_notice
from ..files import check_writable
from ..options import MOST_SEED, AsJson
from ..scenario_choice import around_trace, changed, located_trace
from ..simulation import Simulation, simulate_controlled, simulate_fixed
from ..tables import check_table
from .evaluate import SplitName

NO_POLICY = "none"
"""Fixed replicas and a router: no other feature of the gateway."""
_SHOWN = 0.005
"""Shares of the latency's tail below this are not printed."""


def simulate(  # noqa: PLR0913, PLR0917  # options of the command
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="csv, csv.gz or parquet: arrival_s, prompt_tokens, output_tokens."
        ),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FILE", help="A scenario instead of a trace.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="FILE_OR_ID", help="Serving profile; needed with --trace.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Ready replicas; needed with --trace.")
    ] = None,
    router: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"One of {', '.join(ROUTERS)}.")
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="Sequences a replica holds at once; default 128.")
    ] = None,
    chunk_tokens: Annotated[
        int | None, typer.Option(min=1, help="Token budget of an iteration; default 512.")
    ] = None,
    kv_blocks: Annotated[
        int | None,
        typer.Option(min=1, help="KV blocks of a replica; default: the profile's, if stated."),
    ] = None,
    block_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens a KV block; default 16.")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="A controller, or none: fixed replicas and a router alone."
        ),
    ] = NO_POLICY,
    split: Annotated[
        SplitName | None, typer.Option(help="Range of a scenario's workload; default: all of it.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of routing, faults and sampled workloads.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one row a request: csv, csv.gz, parquet."),
    ] = None,
    as_json: AsJson = False,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="GATEPILOT_TRACES", help="Folder of request traces."),
    ] = None,
) -> None:
    """Run a trace or a scenario through the simulated gateway, request by request.

    A short run is repeated: wall_s is the median of its warm runs.

    Example: gatepilot simulate --trace day.parquet --profile qwen3-32b-bf16-h100_sxm-tp2-vllm
    --replicas 4 --router least_outstanding --json
    """
    if out is not None:
        check_table(out)
        check_writable(out)
    if (trace is None) == (scenario is None):
        raise typer.BadParameter("give one of --trace and --scenario")
    if router is not None and router not in ROUTERS:
        raise typer.BadParameter(f"--router {router}: expected one of {', '.join(ROUTERS)}")
    if policy != NO_POLICY:
        params_type(policy)
    if trace is not None:
        if profile is None or replicas is None:
            raise typer.BadParameter("--trace needs --profile and --replicas")
        if split is not None:
            raise typer.BadParameter("--split goes with --scenario: a trace is run as a whole")
        path = located_trace(trace, traces)
        requests = load_trace(path)
        chosen = around_trace(path, requests.span_s, profile)
    else:
        chosen = load_scenario(str(scenario))
        part = None if split is None else split.value
        requests = chosen.requests(part, seed=seed, traces_dir=traces)
    chosen = _adjusted(
        chosen,
        profile=profile,
        router=router,
        cluster={
            "initial_replicas": replicas,
            "max_num_seqs": max_num_seqs,
            "chunk_tokens": chunk_tokens,
            "kv_blocks": kv_blocks,
            "block_tokens": block_tokens,
        },
    )
    if policy == NO_POLICY and chosen.gateway.router == "dynamic_weight":
        raise typer.BadParameter("router dynamic_weight samples the replicas: give a --policy too")
    compile_with_notice()
    run = _run(chosen, requests, policy, seed)
    if out is not None:
        run.write(out)
    if as_json:
        typer.echo(json.dumps(run.summary(), allow_nan=False))
    else:
        _print(run)


def _adjusted(
    scenario: Scenario, *, profile: str | None, router: str | None, cluster: dict[str, int | None]
) -> Scenario:
    """The scenario with what the command line says put in; more replicas raise the limit.

    Raises:
        ScenarioError: The whole contradicts itself: one line with the key.
    """
    content = asdict(scenario)
    content["cluster"] |= {name: n for name, n in cluster.items() if n is not None}
    replicas = content["cluster"]["initial_replicas"]
    if replicas is not None and replicas > content["cluster"]["max_replicas"]:
        content["cluster"]["max_replicas"] = replicas
    if router is not None:
        content["gateway"]["router"] = router
    if profile is not None:
        content["profile"] = profile
    return changed(scenario, content)


def _run(scenario: Scenario, requests: Requests, policy: str, seed: int) -> Simulation:
    if policy == NO_POLICY:
        if len(requests) >= MAX_POOL:
            raise ScenarioError(
                f"{scenario.name}: {len(requests):,} requests, a run without a --policy holds at "
                f"most {MAX_POOL - 1:,}: take a --split"
            )
        replicas = scenario.cluster.start_replicas
        return simulate_fixed(requests, _bare(scenario), replicas=replicas, seed=seed)
    try:
        check_onsets(scenario.faults, requests.span_s)  # a run may be longer than an episode
    except ValueError as error:
        raise ScenarioError(f"{scenario.name}: {error}") from error
    return simulate_controlled(scenario, requests, policy, seed=seed)


def _bare(scenario: Scenario) -> EngineParams:
    """The replicas of a scenario behind its router, without any other feature of the gateway."""
    full = engine_params(scenario)
    return EngineParams(
        base_s=full.base_s,
        per_seq_s=full.per_seq_s,
        per_ctx_token_s=full.per_ctx_token_s,
        per_prefill_token_s=full.per_prefill_token_s,
        experts_s=full.experts_s,
        expert_share=full.expert_share,
        max_num_seqs=full.max_num_seqs,
        chunk_tokens=full.chunk_tokens,
        kv_blocks=full.kv_blocks,
        block_tokens=full.block_tokens,
        router=full.router,
    )


def _print(run: Simulation) -> None:
    """The figures as a table."""
    summary = run.summary()
    console = Console(highlight=False)
    console.print(
        f"{summary['requests']:,} requests in {run.wall_s:.4g} s "
        f"({summary['requests_per_s']:,.0f} requests/s, median of {run.runs} runs)"
    )
    console.print(
        ", ".join(
            f"{name} {summary[name]:,}" for name in ("ok", "error", "timeout", "shed", "restarts")
        )
    )
    table = Table("", "p50", "p90", "p95", "p99", "mean")
    for name in ("ttft_s", "e2e_s"):
        figures = ("-" if v is None else f"{v:.4f}" for v in summary[name].values())
        table.add_row(name, *figures)
    console.print(table)
    for quantile, shares in summary["ttft_shares"].items():
        if shares is not None:
            parts = (f"{name} {share:.0%}" for name, share in shares.items() if share >= _SHOWN)
            console.print(f"ttft_s beyond {quantile}: {', '.join(parts)}")
