"""The sections of a validation, by name; a section's module is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from .claim import Section, ValidationContext

SECTIONS: Final[dict[str, str]] = {
    "reference": "runs of another simulator, percentile by percentile",
    "queueing": "set-ups whose mean wait queueing theory knows",
    "breaker": "a real Envoy's ejections and returns, interval by interval",
    "testbed": "a real Envoy before emulated replicas: latencies, errors, ejections",
    "silicon": "measured serving engines, at concurrencies left out of the fit",
}
"""Name to what it compares the simulator with; `NAME.py` beside this file holds its `run`."""


def run_section(name: str, context: ValidationContext) -> Section:
    """Runs one section.

    Args:
        name: One of `SECTIONS`.
        context: What it may use.
    """
    section: Section = import_module(f".{name}", __package__).run(context)
    return section
