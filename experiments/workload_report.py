"""Picture and page of a workload command, if they are asked for.

Matplotlib takes a second to load: only where something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..envs.workload.request import Requests
from .files import check_writable, replacing
from .workload_wording import TextTable


@dataclass(frozen=True)
class Page:
    """What a page says beside its plots."""

    title: str
    """Heading."""
    headline: str
    """The line below it."""
    notes: tuple[str, ...]
    """More lines."""
    tables: tuple[TextTable, ...]
    """Figures."""
    facts: Mapping[str, str] | None
    """Where a model comes from, if there is one."""


@dataclass(frozen=True)
class Outputs:
    """Files to write besides what is printed; found out to be writable before the work.

    Raises:
        OutputError: One cannot be written, or its name says no format.
    """

    plot: Path | None
    """A png or svg picture."""
    report: Path | None
    """An HTML page."""

    def __post_init__(self) -> None:
        """Tries the places."""
        if self.plot is not None:
            from .workload_plots import check_plot  # noqa: PLC0415

            check_plot(self.plot)
            check_writable(self.plot)
        if self.report is not None:
            check_writable(self.report)

    def write(self, loads: Mapping[str, Requests], page: Page) -> None:
        """Draws the loads and fills the page.

        Args:
            loads: By name; none: a page without plots.
            page: What it says.

        Raises:
            OutputError: A file cannot be written.
        """
        if self.plot is not None:
            from .workload_plots import write_plot  # noqa: PLC0415

            write_plot(loads, self.plot)
        if self.report is not None:
            from .page import filled  # noqa: PLC0415
            from .workload_plots import pictures  # noqa: PLC0415

            shown = {"pictures": pictures(loads) if loads else []}
            values = {name: getattr(page, name) for name in Page.__dataclass_fields__}
            with replacing(self.report) as temporary:
                text = filled("workload.html.j2", values | shown)
                temporary.write_text(text, encoding="utf-8")
