"""What bars with a script of their own share: where traces lie, what is said, what is stored."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"

Measured = tuple[bool, dict[str, Any]]
"""Whether a bar is met, and its figures."""


def run_bar(bar: str, file_name: str, measure: Callable[[], Measured]) -> int:
    """Measures a bar, prints the result and stores it; the exit code, 1 if the bar is missed.

    Bars in real time suffer from what else this machine does, so that stands beside the figures.

    Args:
        bar: Its name.
        file_name: Of the result, in `benchmarks/results`.
        measure: Measures it.
    """
    started_s = time.time()
    load_before = os.getloadavg()[0]
    met, figures = measure()
    result = {
        "bar": bar,
        "met": met,
        "figures": figures,
        "seconds": round(time.time() - started_s, 1),
        "load_average": {"before": load_before, "after": os.getloadavg()[0]},
    }
    text = json.dumps(result, indent=1)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / file_name).write_text(text + "\n", encoding="utf-8")
    print(text)  # noqa: T201
    return 0 if met else 1


def traces_dir() -> Path | None:
    """The folder of traces; `None`: workload models stand in."""
    folder = os.environ.get("GATEPILOT_TRACES")
    return Path(folder) if folder else None


def say(line: str) -> None:
    """Says on standard error how a bar gets on."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201
