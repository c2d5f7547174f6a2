"""Serving profiles as the command line and the documentation show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from ..envs.profiles.memory import memory_problem
from ..envs.profiles.profile import Profile

SHAPE: Final = (1024, 1024)
"""Prompt and answer tokens for which the output rate is given, the commonest benchmark's."""
MOST_SEQUENCES: Final = 128
"""Sequences at once for which it is given where the fit states no range (a scenario's default)."""
_WIDTH: Final = 150
"""Characters a table takes; a narrower terminal wraps its lines."""


def concurrency_of(profile: Profile) -> int:
    """Most requests of `SHAPE` in flight: the highest of the fit, as far as the KV cache holds."""
    most = max(profile.fit.concurrency, default=MOST_SEQUENCES)
    if profile.kv_capacity_tokens is None:
        return most
    return max(min(most, profile.kv_capacity_tokens // sum(SHAPE)), 1)


def output_tps(profile: Profile) -> float:
    """Output tokens a second of one replica at that concurrency, by the closed-loop identity."""
    concurrency = concurrency_of(profile)
    return concurrency / float(profile.step.tpot_s(concurrency, *SHAPE))


def summary(profile: Profile) -> dict[str, Any]:
    """One profile as JSON: times in seconds, memory in GiB."""
    start = profile.start_times
    return {
        "id": profile.id,
        "kind": profile.kind,
        "model": profile.model,
        "gpu": profile.gpu,
        "gpus_per_replica": profile.gpus_per_replica,
        "engine": profile.engine,
        "engine_version": profile.engine_version,
        "precision": profile.precision,
        "step": asdict(profile.step),
        "output_tokens_per_s": {
            "value": output_tps(profile),
            "concurrency": concurrency_of(profile),
            "prompt_tokens": SHAPE[0],
            "output_tokens": SHAPE[1],
        },
        "fit": asdict(profile.fit),
        "memory": {
            "weights_gib": profile.weights_gib,
            "vram_gib": profile.vram_gib,
            "kv_bytes_per_token": profile.kv_bytes_per_token,
            "kv_capacity_tokens": profile.kv_capacity_tokens,
            "problem": memory_problem(profile),
        },
        "start_times": {**asdict(start), "assumed": sorted(start.assumed)},
        "cold_start_s": profile.cold_start_s,
        "cold_start_source": profile.cold_start_source,
        "cpu": asdict(profile.cpu),
        "source": profile.source,
    }


def print_catalogue(profiles: Sequence[Profile]) -> None:
    """Prints one line a profile."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("profile", no_wrap=True)
    for name in ("base ms", "seq ms", "ctx ms/1k", "prefill ms/1k", "experts ms", "out tok/s"):
        table.add_column(name, justify="right")
    for name in ("fit %", "left out %", "cold s", "cached s"):
        table.add_column(name, justify="right")
    for profile in profiles:
        table.add_row(
            profile.id,
            *_step_cells(profile),
            f"{output_tps(profile):,.0f}",
            percent(profile.fit.mape),
            percent(profile.fit.loo_mape),
            f"{profile.start_times.cold_s:.0f}",
            f"{profile.start_times.cached_s:.0f}",
        )
    console = _console()
    console.print(table)
    console.print(
        f"out tok/s: one replica, {SHAPE[0]:,} prompt and {SHAPE[1]:,} output tokens, at the "
        "highest fitted concurrency that its KV cache holds. fit, left out: mean error on the "
        "fitted points, and on each one left out of the fit. One profile: gatepilot profiles ID"
    )


def print_profile(profile: Profile) -> None:
    """Prints one profile in full."""
    fit, start = profile.fit, profile.start_times
    console = _console()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    kv = profile.kv_capacity_tokens
    rows = [
        ("model", f"{profile.model or 'not stated'}, {profile.precision or 'not stated'}"),
        ("hardware", f"{profile.gpus_per_replica} x {profile.gpu or 'not stated'}"),
        ("engine", f"{profile.engine} {profile.engine_version}".strip() or "not stated"),
        ("iteration", " + ".join(_terms(profile))),
        (
            "output",
            f"{output_tps(profile):,.0f} tokens/s with {concurrency_of(profile)} requests of "
            f"{SHAPE[0]:,} + {SHAPE[1]:,} tokens in flight",
        ),
        (
            "fit",
            f"{profile.kind or 'not stated'}, {fit.points or 'unstated'} points; error: mean "
            f"{percent(fit.mape)} %, largest {percent(fit.max_ape)} %, each point left out "
            f"{percent(fit.loo_mape)} %",
        ),
        (
            "range",
            f"concurrency {_range(fit.concurrency)}, prompts {_range(fit.prompt_tokens)}, "
            f"answers {_range(fit.output_tokens)} tokens",
        ),
        (
            "memory",
            f"weights {_gib(profile.weights_gib)} of {_gib(profile.vram_gib)}, "
            f"KV cache {'not stated' if kv is None else f'{kv:,} tokens'}",
        ),
        (
            "start",
            f"cold {start.cold_s:g} s, cached {start.cached_s:g} s, warm {start.warm_s:g} s, lazy "
            f"{start.lazy_ready_s:g} s; assumed: {', '.join(sorted(start.assumed)) or 'none'}",
        ),
        ("start source", start.source),
        ("cold_start_s", f"{profile.cold_start_s:g} s ({profile.cold_start_source})"),
        ("source", profile.source or "not stated"),
    ]
    for name, text in rows:
        table.add_row(name, text)
    console.print(profile.id)
    console.print(table)


def catalogue_markdown(profiles: Sequence[Profile]) -> str:
    """The catalogue as a table of the documentation."""
    head = (
        "| profile | base ms | ms a sequence | ms a 1,000 context tokens "
        "| ms a 1,000 prefill tokens | experts ms | output tokens/s | mean error on the fitted "
        "points / left out | points | concurrency |"
    )
    lines = [head, "|---|" + "---:|" * 9]
    for profile in profiles:
        fit = profile.fit
        cells = [
            f"`{profile.id}`",
            *_step_cells(profile),
            f"{output_tps(profile):,.0f}",
            f"{percent(fit.mape)} / {percent(fit.loo_mape)} %",
            "-" if fit.points is None else str(fit.points),
            _range(fit.concurrency),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def start_times_markdown(profiles: Sequence[Profile]) -> str:
    """Start-up times by strategy, one line for each model, precision and kind of GPU."""
    lines = [
        "| model | GPU | weights GiB | cold s | cached s | lazy s | warm s |",
        "|---|---|" + "---:|" * 5,
    ]
    rows: dict[tuple[str, ...], str] = {}
    for profile in profiles:
        start, weights = profile.start_times, profile.weights_gib or 0.0
        cells = [
            f"{profile.model} {profile.precision}",
            profile.gpu,
            f"{weights:.1f}",
            f"{start.cold_s:.0f}",
            f"{start.cached_s:.0f}",
            f"{start.lazy_ready_s:.0f}",
            f"{start.warm_s:g}",
        ]
        rows.setdefault(tuple(cells[:2]), "| " + " | ".join(cells) + " |")
    return "\n".join([*lines, *(rows[key] for key in sorted(rows))])


def percent(share: float | None) -> str:
    """A share in percent with one decimal; a dash where there is none."""
    return "-" if share is None else f"{100 * share:.1f}"


def _terms(profile: Profile) -> list[str]:
    step = profile.step
    terms = [
        f"{1e3 * step.base_s:.4g} ms",
        f"{1e3 * step.per_seq_s:.4g} ms a sequence",
        f"{1e6 * step.per_ctx_token_s:.4g} ms a 1,000 context tokens",
        f"{1e6 * step.per_prefill_token_s:.4g} ms a 1,000 prefill tokens",
    ]
    if step.experts_s > 0:
        terms.append(
            f"{1e3 * step.experts_s:.4g} ms x share of experts read "
            f"({step.expert_share:.3g} a token)"
        )
    return terms


def _step_cells(profile: Profile) -> list[str]:
    step = profile.step
    return [
        f"{1e3 * step.base_s:.2f}",
        f"{1e3 * step.per_seq_s:.3f}",
        f"{1e6 * step.per_ctx_token_s:.4f}",
        f"{1e6 * step.per_prefill_token_s:.1f}",
        f"{1e3 * step.experts_s:.2f}" if step.experts_s > 0 else "-",
    ]


def _range(values: Sequence[int]) -> str:
    return f"{min(values):,} to {max(values):,}" if values else "not stated"


def _gib(value: float | None) -> str:
    return "not stated" if value is None else f"{value:.4g} GiB"


def _console() -> Console:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, _WIDTH)
    return console
