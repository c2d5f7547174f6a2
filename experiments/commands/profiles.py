"""`gatepilot profiles`: what is known of replicas, and profiles of one's own hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ...envs.profiles.measured_rows import load_rows
from ...envs.profiles.profile import Profile, load_profile, profile_ids
from ..closed_loops import DEFAULT_CHUNK_TOKENS, LoopProtocol, LoopRun
from ..compilation import compile_closed_loop_with_notice
from ..files import check_ending, check_writable, replacing
from ..options import MOST_SEED, AsJson
from ..profile_files import Description, fitted_profile
from ..profile_tables import print_catalogue, print_profile, summary
from ..silicon_rows import FILE_NAME, load_silicon_rows, runs_of


class _ShowByDefault(TyperGroup):
    """`gatepilot profiles ID` is `gatepilot profiles show ID`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Puts `show` before what is no command of the group."""
        if not args or args[0] not in {*self.commands, "--help"}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


profiles = typer.Typer(
    cls=_ShowByDefault,
    help="Serving profiles: how long an iteration lasts, what fits, how fast a replica starts.",
    add_completion=False,
)

TracesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", envvar="GATEPILOT_TRACES", help="Folder of the traces: measured points."
    ),
]


@profiles.callback()
def _group() -> None:
    """Serving profiles: how long an iteration lasts, what fits, how fast a replica starts.

    Example: gatepilot profiles llama-3.1-70b-fp8-h100_sxm-tp2-vllm
    """


@profiles.command()
def show(
    profile: Annotated[
        str | None, typer.Argument(metavar="[ID_OR_FILE]", help="One profile; default: all.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw time a token over concurrency: png, svg or pdf."),
    ] = None,
    as_json: AsJson = False,
    traces: TracesOption = None,
) -> None:
    """List the catalogue, or show one profile in full.

    Example: gatepilot profiles qwen3-32b-bf16-h100_sxm-tp2-vllm --plot tpot.png
    """
    if profile is None:
        if plot is not None:
            raise typer.BadParameter("--plot draws one profile: name it")
        found = [load_profile(name) for name in profile_ids()]
        if as_json:
            typer.echo(json.dumps({"profiles": [summary(one) for one in found]}, allow_nan=False))
        else:
            print_catalogue(found)
        return
    if plot is not None:
        if plot.suffix not in {".png", ".svg", ".pdf"}:
            raise typer.BadParameter(
                f"--plot {plot}: expected a name that ends in .png, .svg or .pdf"
            )
        check_writable(plot)
    one = load_profile(profile)
    if plot is not None:
        _draw(one, plot, traces)
    if as_json:
        typer.echo(json.dumps(summary(one), allow_nan=False))
    else:
        print_profile(one)


@profiles.command()
def fit(  # noqa: PLR0913, PLR0917  # options of the command
    rows: Annotated[
        Path,
        typer.Argument(
            metavar="ROWS.csv",
            help="Closed-loop runs: concurrency, prompt_tokens, output_tokens, tpot_s, maybe "
            f"ttft_s. Or {FILE_NAME} of the trace folder, with --like.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the profile, for --profile.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="ID_OR_FILE", help="Take memory, start-up times and descriptions from it."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="What was served.")] = None,
    gpu: Annotated[str | None, typer.Option(help="On which GPU.")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of one replica.")] = None,
    engine: Annotated[str | None, typer.Option(help="By which engine.")] = None,
    precision: Annotated[str | None, typer.Option(help="In which precision.")] = None,
    weights_gib: Annotated[float | None, typer.Option(min=0, help="Weights a GPU, GiB.")] = None,
    vram_gib: Annotated[float | None, typer.Option(min=0, help="Memory of a GPU, GiB.")] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens the KV cache holds, as the engine logs it.")
    ] = None,
    expert_share: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Mixture of experts: share a token activates, e.g. 0.03125."
        ),
    ] = None,
    requests_per_client: Annotated[
        int, typer.Option(min=1, help="Requests of a run over its concurrency.")
    ] = 10,
    shortest_share: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Lengths were drawn evenly from this share of the nominal one up to it; 1: all "
            "were of the nominal length.",
        ),
    ] = 1.0,
    chunk_tokens: Annotated[
        int, typer.Option(min=1, help="Token budget of an iteration (max_num_batched_tokens).")
    ] = DEFAULT_CHUNK_TOKENS,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of drawn lengths.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
) -> None:
    """Fit a profile to closed-loop runs on your own hardware (vllm bench serve --max-concurrency).

    The coefficients are those with which the engine, run in the same closed loop, gives the
    measured times a token. At least five rows, of several concurrencies, prompt lengths and answer
    lengths.

    Example: gatepilot profiles fit rows.csv --model mine --gpus 2 --out mine.json
    """
    if out is not None:
        check_ending(out, ".json")
        check_writable(out)
    if expert_share is not None and not expert_share < 1:
        raise typer.BadParameter(f"--expert-share {expert_share:g}: expected a share below 1")
    pattern = None if like is None else load_profile(like)
    if rows.name == FILE_NAME:
        if pattern is None:
            raise typer.BadParameter(f"{FILE_NAME} holds many models: say which one with --like")
        matching = [row for row in load_silicon_rows(rows) if row.matches(pattern)]
        free, bound = runs_of(matching, pattern)
        runs = (*free, *bound)
    else:
        if kv_tokens is None and pattern is not None:
            kv_tokens = pattern.kv_capacity_tokens
        protocol = LoopProtocol(requests_per_client, shortest_share, chunk_tokens, kv_tokens)
        runs = tuple(LoopRun(row, protocol) for row in load_rows(rows))
    description = Description(
        like=like,
        model=model,
        gpu=gpu,
        gpus_per_replica=gpus,
        engine=engine,
        precision=precision,
        weights_gib_per_gpu=weights_gib,
        vram_gib_per_gpu=vram_gib,
        kv_capacity_tokens=kv_tokens,
        expert_share=expert_share,
    )
    compile_closed_loop_with_notice()
    content = fitted_profile(runs, description, rows=rows, seed=seed)
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(content, allow_nan=False))
        return
    found = content["fit"]
    if found["n_kv_bound_points_excluded"]:
        typer.echo(f"left out, for the KV cache binds them: {found['n_kv_bound_points_excluded']}")
    typer.echo(
        f"{found['n_points']} rows: mean error {found['mape']:.1%}, "
        f"largest {found['max_ape']:.1%}; {_left_out(found['loo_mape'])}"
    )
    for name, value in content["step"].items():
        typer.echo(f"{name:24s} {value:.6g}")
    if out is not None:
        typer.echo(f"written: {out}; use it with --profile {out}")


def _left_out(loo_mape: float | None) -> str:
    """What is said of the rows left out of the fit."""
    if loo_mape is None:
        return "each left out: not known, for nothing can be fitted to the others alone"
    return f"each left out {loo_mape:.1%}"


def _draw(profile: Profile, path: Path, traces: Path | None) -> None:
    """Draws a profile into a file."""
    # Matplotlib takes a second to load: a list needs none.
    from ..plots import write_figure  # noqa: PLC0415
    from ..profile_plot import tpot_plot  # noqa: PLC0415

    measured: tuple[LoopRun, ...] = ()
    if traces is not None and (traces / FILE_NAME).is_file():
        rows = load_silicon_rows(traces / FILE_NAME)
        free, bound = runs_of([row for row in rows if row.matches(profile)], profile)
        measured = (*free, *bound)
    compile_closed_loop_with_notice()
    with replacing(path) as temporary:
        write_figure(lambda: tpot_plot(profile, measured), temporary, path.suffix[1:])
