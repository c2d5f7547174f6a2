"""What a running testbed shows: where it listens, how the load goes, what it came to."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ..drawing import Drawing
from .layout import Layout
from .plan import Plan

_LINE_EVERY_S: Final = 30.0
"""Between two lines about the load where there is no terminal to draw a bar on."""


def notes() -> Console:
    """Standard error, for everything that is no result."""
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


class LoadProgress(Drawing):
    """A bar with the figures of the last minute; without a terminal a line now and then."""

    def __init__(self, seconds: float | None) -> None:
        """Sets up a bar on standard error.

        Args:
            seconds: Length of the load; None: it has no end.
        """
        self._console = notes()
        self._progress = Progress(
            TextColumn("load"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task("load", total=seconds, figures="starting ...")
        self._next_line_s = _LINE_EVERY_S

    def __call__(self, status: dict[str, Any]) -> None:
        """Shows how the load stands."""
        figures = _figures(status)
        elapsed_s = status["elapsed_s"]
        self._progress.update(self._task, completed=elapsed_s, figures=figures)
        if not self._console.is_terminal and elapsed_s >= self._next_line_s:
            self._next_line_s += _LINE_EVERY_S
            self._console.print(f"{elapsed_s:.0f} s: {figures}")

    def note(self, text: str) -> None:
        """Says something beside the bar."""
        self._console.print(text)


def print_start(plan: Plan, layout: Layout, *, to: Console | None) -> None:
    """Where everything is, and what to try.

    Args:
        plan: What runs.
        layout: Where it listens.
        to: Where to print; None: standard output.
    """
    say = to or Console(soft_wrap=True, highlight=False, markup=False)
    for name, url in layout.urls.items():
        say.print(f"{name:<16}{url}")
    say.print(f"{'logs':<16}{layout.folder / 'logs'}")
    say.print(f"{'requests':<16}{layout.requests}")
    say.print(f"{'bridge':<16}{layout.bridge}")
    admin, replica = layout.urls["envoy_admin"], layout.urls[layout.pods[-1]]
    say.print(
        "Try:\n"
        f"  curl {layout.urls['gateway']}/v1/models\n"
        f"  curl {admin}/clusters | grep -E 'health_flags|rq_error'\n"
        f"  curl -d '{{\"error_share\": 0.6}}' {replica}/admin/faults\n"
        f"  gatepilot-bridge check {layout.bridge}\n"
        f"  gatepilot-bridge run {layout.bridge}\n"
        "Ctrl-C ends everything."
    )


def print_end(result: dict[str, Any]) -> None:
    """What the load came to."""
    say = Console(soft_wrap=True, highlight=False, markup=False)
    load = result["load"]
    if load is not None:
        names = ("ok", "error", "timeout", "shed", "unfinished")
        counts = ", ".join(f"{name} {load[name]:,}" for name in names)
        say.print(f"{load['requests']:,} requests: {counts}")
        for name in ("ttft_s", "e2e_s"):
            figures = load[name] or {}
            say.print(f"{name:<8}" + ", ".join(f"{q} {v:.3f}" for q, v in figures.items()))
    say.print(f"All parts have ended. Files: {result['folder']}")


def _figures(status: dict[str, Any]) -> str:
    """The load generator's figures in words."""
    ttft, errors = status["ttft_s"], status["error_rate"]
    parts = [
        f"{status['sent']:,} sent",
        f"{status['under_way']} under way",
        f"{status['rate_rps']:.1f}/s",
        "errors -" if errors is None else f"errors {100 * errors:.1f} %",
        "TTFT -" if ttft is None else f"TTFT P50 {ttft['p50']:.3f} s, P95 {ttft['p95']:.3f} s",
    ]
    return ", ".join(parts)
