"""Several sources as one: Prometheus, Envoy's admin interface, NVML."""

from __future__ import annotations

from collections.abc import Sequence

from .query import CRITICAL_FIELDS
from .report import ProbedSource, ProbeReport
from .source import Problem, Reading, Sample


class Collector:
    """Merges what the sources say. Their deadlines add up to the collector's.

    Args:
        sources: In order of precedence: the first that has a field gives it.
    """

    def __init__(self, sources: Sequence[ProbedSource]) -> None:
        self._sources = tuple(sources)

    def read(self, now_s: float) -> Reading:
        """Reads all sources; a critical field that none of them gives is a problem of its own."""
        values: dict[str, float] = {}
        problems: list[Problem] = []
        samples: list[Sample] = []
        for source in self._sources:
            reading = source.read(now_s)
            values = {**reading.values, **values}
            problems += reading.problems
            samples += reading.samples
        if not problems:
            problems = [
                Problem("missing", name, "no source gives it")
                for name in CRITICAL_FIELDS
                if name not in values
            ]
        return Reading(values, tuple(problems), tuple(samples))

    def probe(self, now_s: float) -> ProbeReport:
        """What each query brings now."""
        return ProbeReport(tuple(e for source in self._sources for e in source.probe(now_s)))
