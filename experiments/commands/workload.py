"""`gatepilot workload`: look at a load, fit a model, draw requests from one, check one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...envs.scenario_numbers import MOST_LOAD_S, MOST_SCALE
from ...envs.workload.check import SEEDS, ModelCheck, check_model
from ...envs.workload.fit import (
    LEAST_BIN_REQUESTS,
    LEAST_BIN_S,
    MOST_BINS,
    check_fittable,
    default_bins,
    fit_model,
)
from ...envs.workload.group import Facts
from ...envs.workload.model import MAX_FILE_BYTES, model_names
from ...envs.workload.request import Requests
from ...envs.workload.statistics import load_statistics
from ...envs.workload.thinning import fewer_tenants
from ..files import check_ending, check_writable, replacing
from ..options import MOST_FITTED_BINS, MOST_GROUPS, MOST_SEED, MOST_SEEDS, AsJson
from ..tables import check_table
from ..workload_report import Outputs, Page
from ..workload_source import WorkloadError, open_model, open_source, trace_of, write_requests
from ..workload_terminal import CheckProgress, print_check, print_checks, print_load
from ..workload_wording import check_tables, checks_table, headline, load_tables, notes

NOT_ALIKE = 1
"""Exit code where a model is not like its trace."""

workload = typer.Typer(
    help="Traffic: describe it, fit a model to it, generate it, check a model.",
    no_args_is_help=True,
    add_completion=False,
)

Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Write a picture: png or svg.")
]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with plots.")
]
From = Annotated[
    float | None,
    typer.Option("--from", min=0, max=MOST_LOAD_S, help="Start of the range, seconds."),
]
To = Annotated[
    float | None, typer.Option("--to", min=0, max=MOST_LOAD_S, help="End of the range, seconds.")
]
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of what is drawn.")]
Seeds = Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="Samples that a check draws.")]


@workload.callback()
def _group() -> None:
    """Traffic: describe it, fit a model to it, generate it, check a model."""


@workload.command()
def describe(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="A trace, a model (name or .json), or a ServeGen folder."
        ),
    ],
    from_s: From = None,
    to_s: To = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    plot: Plot = None,
    report: Report = None,
) -> None:
    """Say what a load is like: rates, burstiness, lengths, tenants, prefix reuse.

    A model is sampled first.

    Example: gatepilot workload describe day.parquet --report day.html

    Example: gatepilot workload describe azure-code-2023 --plot code.png
    """
    outputs = Outputs(plot, report)
    source = open_source(what)
    requests = source.requests(from_s, to_s, seed=seed)
    if not len(requests):
        raise WorkloadError(f"{source.name}: no request between these seconds")
    found = load_statistics(requests)
    loads = {source.name: requests}
    facts = None if source.model is None else vars(source.model.facts)
    lines = notes(found)
    if source.model is not None:
        lines.insert(0, f"drawn from the model {source.name} with seed {seed}")
    outputs.write(
        loads,
        Page(source.name, headline(found), tuple(lines), tuple(load_tables(found)), facts),
    )
    if as_json:
        kind = "trace" if source.model is None else "model"
        content = {"workload": source.name, "kind": kind, **found.as_dict(), "facts": facts}
        typer.echo(json.dumps(content, allow_nan=False))
    else:
        print_load(headline(found), lines, load_tables(found))


@workload.command()
def fit(  # noqa: PLR0913, PLR0917  # options of the command
    trace: Annotated[Path, typer.Argument(metavar="FILE", help="A trace of requests.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="MODEL.json", help="The model.")],
    bins: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_FITTED_BINS,
            help=f"Bins of the rate curve; default: of at least {LEAST_BIN_S:g} s and "
            f"{LEAST_BIN_REQUESTS} requests, at most {MOST_BINS}.",
        ),
    ] = None,
    by_client: Annotated[
        bool, typer.Option("--by-client", help="A group for each tenant (column client).")
    ] = False,
    groups: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_GROUPS,
            help="Most groups with --by-client, the last for all other tenants.",
        ),
    ] = 16,
    from_s: From = None,
    to_s: To = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the model; default: the file's.")
    ] = None,
    description: Annotated[str, typer.Option(help="What kind of service.")] = "",
    source: Annotated[str, typer.Option(help="Publisher, dataset and version.")] = "not stated",
    licence: Annotated[str, typer.Option(help="Licence of the data.")] = "not stated",
    attribution: Annotated[str, typer.Option(help="How to credit the data.")] = "not stated",
    seed: Seed = 0,
    seeds: Seeds = SEEDS,
    as_json: AsJson = False,
    plot: Plot = None,
    report: Report = None,
) -> None:
    """Fit a model to a trace: rate curve, gap law, bursts, lengths, tenants. Then check it.

    The model holds no request. Ends with 1 if it is not like its trace; it is written all the same.

    Example: gatepilot workload fit day.parquet -o day.json --by-client --licence internal
    """
    outputs = Outputs(plot, report)
    check_ending(out, ".json")
    check_writable(out)
    opened = open_source(str(trace))
    if opened.trace is None:
        raise WorkloadError(f"{trace}: is a model already; fit takes a trace")
    requests = opened.requests(from_s, to_s)
    try:
        check_fittable(requests, by_client=by_client)
    except ValueError as error:
        raise WorkloadError(f"{trace}: {error}") from error
    facts = Facts(
        name=name or out.stem,
        description=description or f"Fitted to {trace.name}.",
        fitted_to=trace.name,
        source=source,
        licence=licence,
        attribution=attribution,
    )
    with CheckProgress(f"fitting {trace.name}", 0) as fitting:
        model = fit_model(
            requests,
            facts,
            bins=default_bins(requests) if bins is None else bins,
            by_client=by_client,
            most_groups=groups,
            seed=seed,
        )
        fitting.start(f"checking {facts.name}", seeds)
        check = check_model(model, requests, seeds=seeds, progress=fitting)
    text = model.to_json() + "\n"
    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    loads = {trace.name: requests, f"{facts.name}, seed 0": model.sample(0.0, model.span_s, 0)}
    line = f"{out}: {len(text.encode()):,} bytes, {len(model.groups)} groups"
    lines = [line]
    if len(text.encode()) > MAX_FILE_BYTES:
        lines.append(f"more than {MAX_FILE_BYTES:,} bytes: fewer --bins or --groups make it small")
    tables = tuple(check_tables(check))
    outputs.write(loads, Page(facts.name, line, tuple(lines[1:]), tables, vars(facts)))
    if as_json:
        content = {"model": str(out), "bytes": len(text.encode()), "check": check.as_dict()}
        typer.echo(json.dumps(content, allow_nan=False))
    else:
        print_check(check, lines)
    _end(check.passed)


@workload.command()
def generate(  # noqa: PLR0913, PLR0917  # options of the command
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="Name of a shipped model, a .json, a ServeGen folder."
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="csv, csv.gz or parquet.")
    ],
    from_s: From = None,
    to_s: To = None,
    rate_scale: Annotated[
        float,
        typer.Option(
            max=MOST_SCALE,
            help="Factor on the rate: so many independent copies, a part of one thinned.",
        ),
    ] = 1.0,
    whole_tenants: Annotated[
        bool,
        typer.Option("--whole-tenants", help="Below 1: leave tenants out instead of requests."),
    ] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
    plot: Plot = None,
    report: Report = None,
) -> None:
    """Draw requests from a model into a file that every command takes as a trace.

    A scale below 1 drops requests independently, which evens bursts out; whole tenants keep theirs.

    Example: gatepilot workload generate servegen-r1 -o r1.parquet --to 3600 --rate-scale 4
    """
    check_table(out)
    check_writable(out)
    outputs = Outputs(plot, report)
    facts = open_model(model).facts
    source = open_source(model)
    if whole_tenants and not 0 < rate_scale <= 1:
        raise typer.BadParameter(f"--whole-tenants needs --rate-scale up to 1; got {rate_scale:g}")
    copies = 1.0 if whole_tenants else rate_scale
    requests = source.requests(from_s, to_s, seed=seed, rate_scale=copies)
    if whole_tenants:
        requests = fewer_tenants(requests, rate_scale, seed=seed)
    write_requests(requests, out)
    found = load_statistics(requests)
    title, tables = f"{facts.name}, seed {seed}", tuple(load_tables(found))
    outputs.write(
        {title: requests},
        Page(title, headline(found), tuple(notes(found)), tables, vars(facts)),
    )
    if as_json:
        content = {"file": str(out), "model": source.name, "seed": seed, **found.as_dict()}
        typer.echo(json.dumps(content, allow_nan=False))
    else:
        typer.echo(f"{out}: {headline(found)}")


@workload.command()
def check(  # noqa: PLR0913, PLR0917  # options of the command
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Names or .json files; default: all shipped."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Trace of the one model; default: a shipped one's own."),
    ] = None,
    seeds: Seeds = SEEDS,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write all figures, to keep them.")
    ] = None,
    plot: Plot = None,
    report: Report = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="GATEPILOT_TRACES", help="Folder of request traces."),
    ] = None,
) -> None:
    """Compare models with the traces they were fitted to: burstiness and lengths over many seeds.

    Ends with 1 if one is not alike.

    Example: gatepilot workload check --traces ../traces

    Example: gatepilot workload check day.json --trace day.parquet --report check.html
    """
    outputs = Outputs(plot, report)
    if out is not None:
        check_ending(out, ".json")
        check_writable(out)
    names = models or list(model_names())
    if trace is not None and len(names) != 1:
        raise typer.BadParameter(f"--trace goes with one model; got {len(names)}")
    if plot is not None and len(names) != 1:
        raise typer.BadParameter(f"--plot goes with one model; got {len(names)}")
    opened = [open_model(name) for name in names]
    checks: list[ModelCheck] = []
    loads: dict[str, Requests] = {}
    with CheckProgress("", 0) as progress:
        for model in opened:
            requests = trace_of(model, trace, traces)
            progress.start(f"checking {model.facts.name}", seeds)
            checks.append(check_model(model, requests, seeds=seeds, progress=progress))
            loads = {"trace": requests, "model, seed 0": model.sample(0.0, model.span_s, 0)}
    content = {"seeds": seeds, "models": [one.as_dict() for one in checks]}
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    if len(checks) > 1:
        loads = {}
    tables = (checks_table(checks), *(table for one in checks for table in check_tables(one)))
    title = "Workload models against their traces"
    outputs.write(loads, Page(title, f"{seeds} samples of each model", (), tables, None))
    if as_json:
        typer.echo(json.dumps(content, allow_nan=False))
    elif len(checks) == 1:
        print_check(checks[0], [])
    else:
        print_checks(checks)
    _end(all(one.passed for one in checks))


def _end(alike: bool) -> None:
    if not alike:
        raise typer.Exit(NOT_ALIKE)
