"""Which window is played, which artifact fits, which faults there are, who drives."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from gatepilot.agents.artifact.errors import ArtifactError, FingerprintMismatchError
from gatepilot.agents.artifact.layout import MANIFEST_FILE
from gatepilot.agents.artifact.manifest import canonical, canonical_json, parse_manifest
from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.registry import ControllerError
from gatepilot.deploy_bridge.errors import SettingsError
from gatepilot.deploy_bridge.metrics.source import Reading
from gatepilot.envs.scenario import ScenarioError, load_scenario
from gatepilot.envs.workload.request import Requests
from gatepilot.experiments.rehearsal.errors import RehearsalError
from gatepilot.experiments.rehearsal.faults import Blackout, check_within, parse_blackout
from gatepilot.experiments.rehearsal.incumbent import named_incumbent, parse_incumbent
from gatepilot.experiments.rehearsal.plan import (
    load_for,
    one_window,
    swing_rps,
    trained_scenario,
)

from ...deploy_bridge.tiny_artifact import write_artifact
from .rehearsal_kit import QUICK_HPA, advised_contract, contract_of


def evenly(rates: list[float], part_s: float = 300.0) -> Requests:
    """Requests at one rate after the other."""
    arrivals = np.concatenate(
        [i * part_s + np.arange(0, part_s, 1 / rate) for i, rate in enumerate(rates)]
    )
    tokens = np.full(len(arrivals), 10)
    return Requests(arrivals, tokens, tokens, len(rates) * part_s)


def test_the_swing_is_the_span_of_five_minute_rates() -> None:
    requests = evenly([2.0, 2.0, 10.0, 4.0])
    assert swing_rps(requests, 0.0, 600.0) == pytest.approx(0.0)
    assert swing_rps(requests, 300.0, 900.0) == pytest.approx(8.0)
    assert swing_rps(requests, 600.0, 600.0) == pytest.approx(6.0)
    assert swing_rps(requests, 0.0, 15.0) == 0.0


def test_the_window_with_the_largest_swing_is_taken_unless_one_is_named(wave: Path) -> None:
    scenario = load_scenario(wave)

    def chosen(number: int | None) -> float:
        trial = one_window(scenario, split="test", ticks=20, number=number, seed=0, traces_dir=None)
        assert len(trial.windows) == 1
        return trial.windows[0].start_s

    assert chosen(None) == chosen(0) == 0.0  # the wave comes 200 s into the test range
    assert chosen(1) == 300.0
    with pytest.raises(RehearsalError, match=r"window 2: windows 0 to 1 fit \(20 ticks\)"):
        chosen(2)


def test_an_artifact_of_another_contract_is_refused(wave: Path, tmp_path: Path) -> None:
    scenario = load_scenario(wave)
    for changes in ({"control_interval_s": 5.0}, {"window_s": 30.0}, {"minimum_samples": 3}):
        write_artifact(tmp_path / "other", contract=contract_of(scenario, **changes))
        with pytest.raises(FingerprintMismatchError, match="trained under contract"):
            load_for(scenario, tmp_path / "other", None)


def test_an_advised_artifact_fits_wherever_its_advisor_does(wave: Path, tmp_path: Path) -> None:
    scenario = load_scenario(wave)
    write_artifact(tmp_path / "advised", contract=advised_contract(scenario))
    larger = replace(scenario, cluster=replace(scenario.cluster, max_replicas=9))
    for place in (scenario, larger):
        assert load_for(place, tmp_path / "advised", None).manifest.advisor == PlannerParams()
    manifest = parse_manifest((tmp_path / "advised" / MANIFEST_FILE).read_bytes())
    content = json.loads(canonical(manifest))
    content["contract"]["advice"]["advisor"]["version"] = 99
    (tmp_path / "advised" / MANIFEST_FILE).write_bytes(canonical_json(content))
    with pytest.raises(
        FingerprintMismatchError, match=r"advised: .* advisor planner 99"
    ) as refused:
        load_for(scenario, tmp_path / "advised", None)
    assert len(str(refused.value).splitlines()) == 1


def test_no_artifact_is_one_line(wave: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="nowhere"):
        load_for(load_scenario(wave), tmp_path / "nowhere", None)
    (tmp_path / "odd").mkdir()
    for name in ("manifest.json", "policy.onnx", "golden.npz"):
        (tmp_path / "odd" / name).write_text("{}")
    with pytest.raises(ArtifactError, match=r"odd: manifest\.json: ") as refused:
        trained_scenario(tmp_path / "odd")
    assert len(str(refused.value).splitlines()) == 1


def test_the_scenario_of_the_training_comes_with_the_artifact(
    wave: Path, artifact: ArtifactPolicy, tmp_path: Path
) -> None:
    assert trained_scenario(artifact.folder) == load_scenario(wave)
    write_artifact(tmp_path / "bare")
    with pytest.raises(ScenarioError, match=r"manifest\.json: scenarios_yaml"):
        trained_scenario(tmp_path / "bare")


@pytest.mark.parametrize(
    "text", ["", "5", "5:", ":5", "5:5", "6:5", "-1:5", "1.5:3", "a:b", "1:2:3"]
)
def test_what_is_no_blackout(text: str) -> None:
    with pytest.raises(RehearsalError, match="expected FROM:TO") as refused:
        parse_blackout(text)
    assert len(str(refused.value).splitlines()) == 1


def test_a_blackout_hides_its_ticks_and_no_other() -> None:
    blackout = parse_blackout("3:5")
    assert blackout == Blackout(3, 5)
    reading = Reading({"running": 1.0})
    for number in range(8):
        found = blackout.applied(number, reading)
        if number in (3, 4):
            assert found.values == {}
            assert [problem.kind for problem in found.problems] == ["unreachable"]
        else:
            assert found is reading


def test_a_blackout_after_the_end_is_refused() -> None:
    check_within((Blackout(3, 50),), 4)
    with pytest.raises(RehearsalError, match="ticks 0 to 3"):
        check_within((Blackout(4, 5),), 4)


def test_an_incumbent_by_name_and_from_a_file(tmp_path: Path) -> None:
    assert named_incumbent("hpa").params == HpaParams()
    tuned = HpaParams(metrics=(MetricTarget("outstanding", 2.0),))
    assert named_incumbent("hpa", QUICK_HPA).params == tuned
    section = {"controller": "hpa@unit", "params": QUICK_HPA}
    for name, content in {"alone": section, "bridge": {"name": "x", "incumbent": section}}.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        found = parse_incumbent(str(path))
        assert (found.name, found.params) == ("hpa@unit", tuned)


def test_an_incumbent_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ControllerError, match="did you mean hpa"):
        parse_incumbent("hpaa")
    with pytest.raises(ScenarioError, match="nowhere"):
        parse_incumbent(str(tmp_path / "nowhere.yaml"))
    path = tmp_path / "odd.yaml"
    for content, said in {
        "controller: hpa\nparams: {metric: 1}\n": r"incumbent\.params.*metric",
        "controller: 5\n": r"odd\.yaml: incumbent\.controller",
        "- 1\n": r"odd\.yaml: incumbent",
    }.items():
        path.write_text(content)
        with pytest.raises(SettingsError, match=said):
            parse_incumbent(str(path))
