"""Figures of loads and of checks as rows of text, for terminal and page alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..envs.workload.check import DISPERSION_LIMIT, LENGTH_LIMIT, ModelCheck
from ..envs.workload.statistics import LoadStatistics

MOST_CLIENTS: Final = 12
"""Tenants that are shown."""
_ROUNDED_TIMES: Final = 0.7
"""Below this share of distinct arrival times, the times were rounded."""


@dataclass(frozen=True)
class TextTable:
    """A table of texts."""

    title: str
    """What it shows."""
    columns: tuple[str, ...]
    """Headings; the first column is text, the others are figures."""
    rows: tuple[tuple[str, ...], ...]
    """Cells."""


def headline(found: LoadStatistics) -> str:
    """Requests, span and rate in a line."""
    return (
        f"{found.requests:,} requests in {duration(found.span_s)}, "
        f"{found.mean_rate_rps:.2f} requests/s"
    )


def notes(found: LoadStatistics) -> list[str]:
    """What else is worth a line."""
    lines = [f"rank correlation of prompt and output: {found.rank_correlation:.2f}"]
    if found.gap_cv is not None:
        lines.insert(0, f"coefficient of variation of the gaps: {found.gap_cv:.2f}")
    if found.prefix is not None:
        lines.append(
            f"prefix reuse (a cache that forgets nothing): {percent(found.prefix.tokens_fraction)} "
            f"of prompt tokens, {percent(found.prefix.requests_fraction)} of requests"
        )
    if found.distinct_arrivals_fraction < _ROUNDED_TIMES:
        lines.append(
            f"only {percent(found.distinct_arrivals_fraction)} of the arrival times are distinct: "
            "they were rounded, and what is shorter than the step is not real"
        )
    return lines


def load_tables(found: LoadStatistics) -> list[TextTable]:
    """Rates and burstiness, lengths, tenants."""
    windows = TextTable(
        "Arrivals",
        ("window", "peak requests/s", "dispersion", "local dispersion"),
        tuple(
            (
                f"{w.window_s:g} s",
                f"{w.peak_rate_rps:.1f}",
                figure(w.dispersion),
                figure(w.local_dispersion),
            )
            for w in found.windows
        ),
    )
    lengths = TextTable(
        "Tokens",
        ("", "mean", *found.prompt.quantiles, "max"),
        tuple(
            (
                name,
                f"{part.mean:,.0f}",
                *(f"{value:,.0f}" for value in part.quantiles.values()),
                f"{part.maximum:,}",
            )
            for name, part in (("prompt", found.prompt), ("output", found.output))
        ),
    )
    tables = [windows, lengths]
    if len(found.clients) > 1:
        tables.append(_clients(found))
    return tables


def _clients(found: LoadStatistics) -> TextTable:
    shown = found.clients[:MOST_CLIENTS]
    rest = len(found.clients) - len(shown)
    title = f"Tenants: the {len(shown)} busiest of {len(found.clients)}" if rest else "Tenants"
    return TextTable(
        title,
        ("tenant", "requests", "requests/s", "local dispersion 15 s", "prompt p50", "output p50"),
        tuple(
            (
                client.name,
                percent(client.requests_fraction),
                f"{client.mean_rate_rps:.3f}",
                figure(client.local_dispersion),
                f"{client.prompt_tokens_p50:,.0f}",
                f"{client.output_tokens_p50:,.0f}",
            )
            for client in shown
        ),
    )


def check_tables(check: ModelCheck) -> list[TextTable]:
    """Burstiness and lengths of a model against its trace."""
    dispersions = TextTable(
        f"Local dispersion (within {percent(DISPERSION_LIMIT)} or the trace's own interval)",
        ("window", "trace", "95 % interval", "model", "ratio", ""),
        tuple(
            (
                f"{d.window_s:g} s",
                f"{d.trace:.2f}",
                f"{d.interval[0]:.2f} to {d.interval[1]:.2f}",
                f"{d.model:.2f}",
                figure(d.ratio),
                _verdict(d.passed),
            )
            for d in check.dispersions
        ),
    )
    lengths = TextTable(
        f"Lengths (within {percent(LENGTH_LIMIT)})",
        ("quantile", "trace", "model", "off by", ""),
        tuple(
            (
                f"{part.column.removesuffix('_tokens')} {part.quantile}",
                f"{part.trace:,.0f}",
                f"{part.model:,.0f}",
                f"{100 * part.error_fraction:+.1f} %",
                _verdict(part.passed),
            )
            for part in check.lengths
        ),
    )
    return [dispersions, lengths]


def checks_table(checks: Sequence[ModelCheck]) -> TextTable:
    """One row a model."""
    windows_s = [d.window_s for d in checks[0].dispersions] if checks else []
    return TextTable(
        "Models against their traces",
        (
            "model",
            *(f"local dispersion {w:g} s" for w in windows_s),
            "worst length quantile",
            "rank correlation",
            "",
        ),
        tuple(_check_row(check) for check in checks),
    )


def _check_row(check: ModelCheck) -> tuple[str, ...]:
    worst = check.worst_length
    return (
        check.model,
        *(f"{d.model:.2f} / {d.trace:.2f} = {figure(d.ratio)}" for d in check.dispersions),
        f"{100 * worst.error_fraction:+.1f} % ({worst.column.removesuffix('_tokens')} "
        f"{worst.quantile})",
        f"{check.model_rank_correlation:.2f} / {check.trace_rank_correlation:.2f}",
        _verdict(check.passed),
    )


def duration(seconds: float) -> str:
    """A length of time in the unit that suits it."""
    for unit_s, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.1f} {unit}"
    return f"{seconds:g} s"


def percent(fraction: float) -> str:
    """A share in percent."""
    return f"{100 * fraction:.3g} %"


def figure(value: float | None) -> str:
    """A figure with two decimals; a dash where there is none."""
    return "-" if value is None else f"{value:.2f}"


def _verdict(passed: bool) -> str:
    return "ok" if passed else "off"
