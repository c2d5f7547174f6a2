"""Several sources as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gatepilot.deploy_bridge.metrics.collector import Collector
from gatepilot.deploy_bridge.metrics.query import CRITICAL_FIELDS
from gatepilot.deploy_bridge.metrics.report import ProbeEntry
from gatepilot.deploy_bridge.metrics.source import Problem, Reading, Sample

NOW = 1_700_000_000.0
CRITICAL = dict.fromkeys(CRITICAL_FIELDS, 1.0)


@dataclass(frozen=True)
class Fixed:
    name: str
    values: Mapping[str, float]
    problems: tuple[Problem, ...] = ()

    def read(self, now_s: float) -> Reading:
        assert now_s == NOW
        samples = tuple(Sample(name, self.name, value) for name, value in self.values.items())
        return Reading(self.values, self.problems, samples)

    def probe(self, now_s: float) -> tuple[ProbeEntry, ...]:
        assert now_s == NOW
        return tuple(ProbeEntry(self.name, n, "ok", True, "", v) for n, v in self.values.items())


def test_the_first_source_that_has_a_field_gives_it() -> None:
    first = Fixed("first", CRITICAL | {"running": 3.0})
    second = Fixed("second", {"running": 9.0, "waiting": 4.0})
    reading = Collector([first, second]).read(NOW)
    assert dict(reading.values) == CRITICAL | {"running": 3.0, "waiting": 4.0}
    assert reading.problems == ()
    assert [(s.query, s.name) for s in reading.samples if s.name == "running"] == [
        ("first", "running"),
        ("second", "running"),
    ]


def test_a_critical_field_that_nobody_gives_is_a_problem() -> None:
    known = {name: 1.0 for name in CRITICAL_FIELDS if name != "breaker_threshold"}
    reading = Collector([Fixed("only", known)]).read(NOW)
    assert reading.problems == (Problem("missing", "breaker_threshold", "no source gives it"),)


def test_where_a_source_is_in_doubt_its_own_words_are_enough() -> None:
    doubt = Problem("unreachable", "gateway_up", "refused")
    reading = Collector([Fixed("a", {}, (doubt,)), Fixed("b", {"running": 1.0})]).read(NOW)
    assert reading.problems == (doubt,)


def test_the_report_has_all_sources() -> None:
    report = Collector([Fixed("a", {"x": 1.0}), Fixed("b", {"y": 2.0})]).probe(NOW)
    assert [(entry.source, entry.name) for entry in report.entries] == [("a", "x"), ("b", "y")]
    assert report.is_good
