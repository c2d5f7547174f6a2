"""`gatepilot rehearse`: what it prints and writes, and what it refuses."""

from pathlib import Path

import pytest
import yaml

from gatepilot.agents.artifact.signing import make_key_pair, sign
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.envs.scenario import load_scenario

from ..deploy_bridge.tiny_artifact import write_artifact
from .cli_kit import Cli, contents
from .rehearsal.rehearsal_kit import (
    QUICK_HPA,
    TICKS,
    contract_of,
    write_fitting,
    write_wave,
)

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def wave(tmp_path: Path) -> Path:
    return write_wave(tmp_path)


@pytest.fixture
def artifact(tmp_path: Path, wave: Path) -> Path:
    return write_fitting(tmp_path / "artifact", load_scenario(wave)).folder


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    path = tmp_path / "driver.yaml"
    path.write_text(yaml.safe_dump({"incumbent": {"controller": "hpa", "params": QUICK_HPA}}))
    return path


def test_json_is_one_object(cli: Cli, artifact: Path, driver: Path) -> None:
    before = contents(artifact.parent)
    found = cli.json("rehearse", artifact, "--incumbent", driver, "--blind", "30:34")
    assert list(found) == [
        "scenario",
        "split",
        "window",
        "ticks",
        "tick_s",
        "artifact",
        "incumbent",
        "faults",
        "ledger",
        "shadow",
        "counterfactual",
        "cannot_tell",
    ]
    assert (found["scenario"], found["split"], found["ticks"]) == ("wave", "test", TICKS)
    assert found["incumbent"]["params"] == QUICK_HPA
    assert found["faults"] == ["source unreachable at ticks 30 to 33"]
    shadow = found["shadow"]
    assert (shadow["ticks"], shadow["blind"], shadow["counted"]) == (TICKS, 4, TICKS - 8)
    assert shadow["freezes"] == 1
    assert shadow["incumbent_replicas"]["up"] > 0
    alone = found["counterfactual"]
    assert alone["simulated"] is True
    assert [episode["policy"] for episode in alone["episodes"]] == ["policy", "hpa"]
    assert found["ledger"]["path"] is None
    assert found["ledger"]["records"] == TICKS + 2  # the boot and the end
    assert not any("estimate" in key for key in found)
    assert contents(artifact.parent) == before


def test_ledger_and_report_stay_where_they_are_asked_for(
    cli: Cli, artifact: Path, tmp_path: Path
) -> None:
    code, out, err = cli(
        "rehearse", artifact, "--ticks", "10", "--state", "state", "--report", "page.html"
    )
    assert code == 0, err
    assert f"gatepilot-bridge replay {Path('state') / 'ledger.sqlite'}" in out
    assert "SIMULATED counterfactual" in out
    assert "What shadow data cannot tell" in out
    assert out.index("same direction") < out.index("SIMULATED")
    assert "What would the policy do" in (tmp_path / "page.html").read_text(encoding="utf-8")
    records = list(LedgerReader(tmp_path / "state" / "ledger.sqlite").verified())
    assert [record.kind for record in records] == ["boot", *["tick"] * 10, "stop"]


def test_a_signature_is_checked_with_the_key_that_is_named(
    cli: Cli, artifact: Path, tmp_path: Path
) -> None:
    private, public = make_key_pair(tmp_path / "keys")
    _, other = make_key_pair(tmp_path / "others")
    assert "unsigned" in cli.refusal("rehearse", artifact, "--public-key", public)
    sign(artifact, private)
    short = ("rehearse", artifact, "--ticks", "4")
    assert cli.json(*short, "--public-key", public)["artifact"]["is_signed"] is True
    assert cli.json(*short)["artifact"]["is_signed"] is False
    assert "another key" in cli.refusal(*short, "--public-key", other)


def test_another_tick_than_the_trainings_is_refused(
    cli: Cli, artifact: Path, wave: Path, tmp_path: Path
) -> None:
    write_artifact(
        tmp_path / "quick", contract=contract_of(load_scenario(wave), control_interval_s=5.0)
    )
    said = cli.refusal("rehearse", tmp_path / "quick", "--scenario", wave)
    assert "trained under contract" in said
    assert "tick 5 s" in said
    assert "tick 15 s" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: not a folder with an artifact"),
        (["{artifact}", "--scenario", "demoo"], "demoo: unknown scenario; did you mean demo?"),
        (["{artifact}", "--incumbent", "hpaa"], "did you mean hpa"),
        (["{artifact}", "--incumbent", "no.yaml"], "no.yaml"),
        (["{artifact}", "--blind", "5"], "expected FROM:TO in ticks"),
        (["{artifact}", "--blind", "40:44"], "the rehearsal has ticks 0 to 39"),
        (["{artifact}", "--window", "1"], "window 1: windows 0 to 0 fit (40 ticks)"),
        (["{artifact}", "--ticks", "41"], "at most 40 ticks fit"),
        (["{artifact}", "--ticks", "0"], "--ticks"),
        (["{artifact}", "--report", "no/page.html"], "the folder no does not exist"),
        (["{artifact}", "--state", "wave.yaml/state"], "wave.yaml/state"),
        (["{artifact}", "--split", "future"], "--split"),
        (["{artifact}", "extra"], "extra"),
        ([], "ARTIFACT"),
    ],
)
def test_wrong_usage(
    cli: Cli, artifact: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    before = contents(tmp_path)
    given = [word.format(artifact=artifact) for word in arguments]
    assert message in cli.refusal("rehearse", *given)
    assert contents(tmp_path) == before


def test_a_ledger_that_is_there_is_not_touched(cli: Cli, artifact: Path, tmp_path: Path) -> None:
    short = ("rehearse", artifact, "--ticks", "4", "--state", "state")
    cli.json(*short)
    before = (tmp_path / "state" / "ledger.sqlite").read_bytes()
    assert "is there already" in cli.refusal(*short)
    assert (tmp_path / "state" / "ledger.sqlite").read_bytes() == before


def test_help_has_an_example(cli: Cli) -> None:
    code, out, _ = cli("rehearse", "--help")
    assert code == 0
    assert "Example: gatepilot rehearse" in " ".join(out.split())
