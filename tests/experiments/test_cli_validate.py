"""`gatepilot validate`: what it prints and writes, how it ends, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .cli_kit import Cli, contents
from .validation.reference_kit import change_entry, write_runs

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("cli") / "runs", requests=200)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """The same runs, to change."""
    copy = tmp_path / "runs"
    copy.mkdir()
    for path in made.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def test_json_is_one_object(cli: Cli, made: Path) -> None:
    found = cli.json("validate", "reference", "--reference", made)
    assert list(found) == ["met", "quick", "seed", "sections", "provenance"]
    assert found["met"] is True
    [section] = found["sections"]
    assert (section["name"], section["skipped"]) == ("reference", None)
    assert len(section["claims"]) == 3 * 9
    assert section["claims"][0] == {
        "subject": "h01-one",
        "quantity": "TTFT p50",
        "measured": pytest.approx(0, abs=1e-4),
        "bar": 0.005,
        "unit": "fraction",
        "passed": True,
        "note": section["claims"][0]["note"],
        "interval": None,
    }


def test_the_terminal_shows_a_table_and_a_verdict(cli: Cli, made: Path) -> None:
    code, out, _ = cli("validate", "reference", "--reference", made)
    assert code == 0
    assert re.search(r"h03-tight +0\.00 % .* 3\.00 %", out)
    assert out.rstrip().endswith("reference: 24 of 24 bars met")


def test_a_bar_that_is_not_met_ends_with_1(cli: Cli, folder: Path) -> None:
    change_entry(folder, "h01-one", max_num_seqs=4)
    code, out, _ = cli("validate", "reference", "--reference", folder)
    assert code == 1
    assert "NOT MET  h01-one, TTFT p99" in out
    assert re.search(r"reference: \d+ of 24 bars met", out)


def test_parameters_that_the_engine_refuses_are_valid_json(cli: Cli, folder: Path) -> None:
    change_entry(folder, "h01-one", router="least_loaded")
    code, out, _ = cli("validate", "reference", "--reference", folder, "--json")
    assert code == 1
    claim = json.loads(out)["sections"][0]["claims"][0]
    assert (claim["measured"], claim["passed"]) == (None, False)
    assert "router 'least_loaded'" in claim["note"]


def test_a_skipped_section_says_so_and_nothing_compared_is_no(cli: Cli) -> None:
    code, out, _ = cli("validate", "reference")
    assert code == 1
    assert "reference: skipped: no reference runs here" in out


def test_files_are_written(cli: Cli, made: Path, tmp_path: Path) -> None:
    page, record, docs = tmp_path / "page.html", tmp_path / "record.json", tmp_path / "docs"
    code, out, err = cli(
        *("validate", "reference", "--reference", made, "--json"),
        *("--report", page, "--out", record, "--docs", docs),
    )
    assert code == 0, err
    assert json.loads(record.read_text()) == json.loads(out)
    html = page.read_text()
    assert "Runs of another simulator: 24 of 24 bars met" in html
    assert html.count("data:image/svg+xml") == 1
    assert "http" not in re.sub(r"data:[^\"]+", "", html)
    assert contents(docs) == ["reference.json", "reference_latencies.svg"]
    assert json.loads((docs / "reference.json").read_text())["name"] == "reference"


def test_the_same_figures_are_the_same_files(cli: Cli, made: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        cli("validate", "reference", "--reference", made, "--docs", tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_what_is_refused(cli: Cli, tmp_path: Path) -> None:
    assert "section theory: expected one of reference, queueing" in cli.refusal(
        "validate", "theory"
    )
    missing = cli.refusal("validate", "--reference", tmp_path / "nowhere")
    assert "nowhere/index.json: no such file" in missing
    assert "not with --quick" in cli.refusal("validate", "--quick", "--docs", tmp_path / "docs")
    assert "does not exist" in cli.refusal("validate", "--out", tmp_path / "no" / "x.json")
    assert contents(tmp_path) == []
