"""Section `testbed`: the stored recording holds; another load, gateway or figure is noticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gatepilot.envs.sim.faults import Fault
from gatepilot.experiments.recordings import recording as recordings
from gatepilot.experiments.recordings.recording import Recording, stored
from gatepilot.experiments.testbed.errors import LaunchError
from gatepilot.experiments.validation import testbed
from gatepilot.experiments.validation.claim import Claim, Section, ValidationContext
from gatepilot.experiments.validation.testbed_run import (
    FAILING,
    SETTINGS,
    Setting,
    TestbedRun,
    read_testbed,
    run_testbed,
    simulate_testbed,
)

QUICK = ValidationContext(None, None, quick=True)
HEALTHY, FAILURE = (setting.name for setting in SETTINGS)
SHORT = Setting("short", 60.0, Fault("replica_errors", 10.0, 40.0, 0.9))


@pytest.fixture
def recording() -> Recording:
    found = stored("testbed")
    assert found is not None
    return replace(found, content=copy.deepcopy(found.content))


@pytest.fixture
def with_recording(
    monkeypatch: pytest.MonkeyPatch, recording: Recording
) -> Callable[[Callable[[dict[str, Any]], object]], Section]:
    """Runs the section with a changed recording."""

    def run(change: Callable[[dict[str, Any]], object]) -> Section:
        change(recording.content)
        monkeypatch.setattr(testbed, "stored", lambda name: recording)
        return testbed.run(QUICK)

    return run


def claim_of(section: Section, subject: str, quantity: str) -> Claim:
    return next(c for c in section.claims if (c.subject, c.quantity) == (subject, quantity))


def test_the_engine_is_within_its_bars_of_the_recorded_testbed() -> None:
    section = testbed.run(QUICK)
    assert section.skipped is None
    assert [claim.note for claim in section.missed] == []
    assert len([claim for claim in section.claims if claim.bar is not None]) == 6
    claim = claim_of(section, HEALTHY, "TTFT p50")
    assert claim.interval is not None
    assert claim.interval[0] < claim.measured < claim.interval[1]
    assert "recorded 2" in claim.note
    assert "with Envoy 1." in claim.note


def test_figures_that_are_not_the_engine_s_miss_their_bars(
    with_recording: Callable[[Callable[[dict[str, Any]], object]], Section],
) -> None:
    def worse(content: dict[str, Any]) -> None:
        healthy, failing = content["runs"][HEALTHY], content["runs"][FAILURE]
        healthy["figures"]["ttft_p50_s"] *= 1.2
        healthy["figures"]["error_rate"] += 0.006
        healthy["figures"]["ejections"] = [[2, 100.0]]
        failing["figures"]["ejections"] = []

    section = with_recording(worse)
    assert [(claim.subject, claim.quantity) for claim in section.missed] == [
        (HEALTHY, "TTFT p50"),
        (HEALTHY, "error rate"),
        (HEALTHY, "replicas ejected on one side alone"),
        (FAILURE, "replicas ejected on one side alone"),
    ]


@pytest.mark.parametrize("key", ["load", "replica.base_s", "gateway.breaker_interval_s"])
def test_a_recording_of_something_else_is_not_compared(
    with_recording: Callable[[Callable[[dict[str, Any]], object]], Section], key: str
) -> None:
    section = with_recording(lambda content: content["given"][FAILURE].update({key: 7}))
    assert section.skipped is not None
    assert section.skipped.endswith(f"was made under another {key}: --live makes a new one")


def test_a_setting_that_was_not_recorded_is_not_compared(
    with_recording: Callable[[Callable[[dict[str, Any]], object]], Section],
) -> None:
    section = with_recording(lambda content: content["given"].pop(HEALTHY))
    assert section.skipped is not None
    assert "another setting" in section.skipped


def test_a_parameter_that_is_new_since_changes_nothing(
    with_recording: Callable[[Callable[[dict[str, Any]], object]], Section],
) -> None:
    section = with_recording(
        lambda content: [given.pop("gateway.drain_min_s") for given in content["given"].values()]
    )
    assert section.skipped is None


def test_without_a_recording_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed, "stored", lambda name: None)
    assert testbed.run(QUICK).skipped == "no recording is stored: --live makes one"


def test_a_live_run_without_its_programs_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(setting: Setting, folder: Path) -> TestbedRun:
        raise LaunchError(f"prometheus is nowhere ({setting.name}, {folder.name})")

    monkeypatch.setattr(testbed, "run_testbed", refuse)
    section = testbed.run(replace(QUICK, live=True))
    assert section.skipped == f"prometheus is nowhere ({HEALTHY}, testbed)"


def test_a_testbed_that_does_not_start_says_why(tmp_path: Path) -> None:
    """Its folder is a file; without Prometheus here it does not even get that far."""
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LaunchError, match=r"^testbed, short: gatepilot testbed: .*(file|prom)"):
        run_testbed(SHORT, file)


def test_the_engine_runs_with_the_very_replica_failing_that_fails_there() -> None:
    runs = simulate_testbed(SHORT, 3)
    assert [run.ejected for run in runs] == [{FAILING}] * 3
    assert {run.ejections for run in runs} == {((FAILING, 20.0),)}
    assert len({run.ttft_p50_s for run in runs}) == 3  # another seed each


def test_what_a_testbed_leaves_behind_is_read(tmp_path: Path) -> None:
    head = "arrival_s,sent_at_s,late_s,ttft_s,status\n"
    rows = [f"{i / 10},{1000 + i / 10:.1f},0.001,0.2,ok" for i in range(1, 100)]
    rows += ["10.0,1010.0,0.5,,error"]
    (tmp_path / "requests.csv").write_text(head + "\n".join(rows) + "\n")
    (tmp_path / "load.json").write_text(
        json.dumps({"replicas": {"127.0.0.1:1": "llm-0", "127.0.0.1:2": "llm-1"}})
    )
    events: list[dict[str, Any]] = [
        {"action": "EJECT", "enforced": False, "upstream_url": "127.0.0.1:1"},
        {"action": "EJECT", "enforced": True, "upstream_url": "127.0.0.1:2"},
        {"action": "UNEJECT", "upstream_url": "127.0.0.1:2"},
    ]
    (tmp_path / "envoy").mkdir()
    stamp = {"timestamp": "1970-01-01T00:16:47.510Z"}
    (tmp_path / "envoy" / "ejections.jsonl").write_text(
        "".join(json.dumps(event | stamp) + "\n" for event in events)
    )
    found = read_testbed(tmp_path)
    assert found.requests == 100
    assert found.figures.error_rate == pytest.approx(0.01)
    assert found.figures.ejections == ((1, 7.51),)
    assert 0.1 < found.figures.ttft_p50_s <= 0.25  # the bucket of 0.2 s
    assert TestbedRun.from_json(json.loads(json.dumps(asdict(found)))) == found


def test_a_recording_says_whether_its_sources_are_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recording: Recording
) -> None:
    monkeypatch.setattr(recordings, "_PACKAGE", tmp_path)
    (tmp_path / "part").mkdir()
    source = tmp_path / "part" / "one.py"
    source.write_text("a = 1\n")
    made = replace(recording, sources=recordings.sources_hash(["part"]))
    assert recordings.origin(made, ["part"]).endswith("its sources the same since")
    assert recordings.sources_hash(["part/one.py"]) == made.sources
    source.write_text("a = 2\n")
    assert recordings.origin(made, ["part"]).endswith("its sources changed since")
    source.rename(tmp_path / "part" / "two.py")
    assert recordings.sources_hash(["part"]) != made.sources


def test_a_recording_is_stored_as_it_is_with_rows_on_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recording: Recording
) -> None:
    content = recording.content | {"rows": [[1, 2], [3, 4]], "empty": {}, "none": None}
    made = replace(recording, content=content)
    monkeypatch.setattr(recordings, "_path", lambda name: tmp_path / f"{name}.json")
    recordings.store("a", made)
    assert stored("a") == made
    assert stored("b") is None
    assert '"rows": [\n   [1, 2],\n   [3, 4]\n  ]' in (tmp_path / "a.json").read_text()
