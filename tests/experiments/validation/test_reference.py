"""Section `reference` on a made-up folder: equal runs pass, changed ones do not."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from gatepilot.experiments.validation.claim import Section, ValidationContext
from gatepilot.experiments.validation.reference import BAR, KV_BOUND_BAR, run
from gatepilot.experiments.validation.reference_runs import ReferenceRunError, load_runs

from .reference_kit import change_entry, write_runs


def section(folder: Path | None) -> Section:
    return run(ValidationContext(traces=None, reference=folder))


def rewrite(path: Path, column: int, factor: float) -> None:
    """Multiplies a column of a run's file."""
    with gzip.open(path, "rt") as file:
        header, *rows = file.read().splitlines()
    cells = [row.split(",") for row in rows]
    for row in cells:
        row[column] = repr(float(row[column]) * factor)
    with gzip.open(path, "wt") as file:
        file.write("\n".join([header, *(",".join(row) for row in cells)]) + "\n")


def test_the_runs_of_the_second_implementation_are_reproduced(made_runs: Path) -> None:
    found = section(made_runs)
    judged = [claim for claim in found.claims if claim.bar is not None]
    assert len(judged) == 3 * 8
    assert all(claim.passed and abs(claim.measured) < 1e-4 for claim in judged)
    worst = [claim for claim in found.claims if claim.bar is None]
    assert [claim.quantity for claim in worst] == ["worst request"] * 3
    assert max(claim.measured for claim in worst) < 2e-6
    assert {figure.name for figure in found.figures} == {"reference_latencies"}


def test_where_requests_were_evicted_the_bar_is_wider(made_runs: Path) -> None:
    found = section(made_runs)
    bars = {claim.subject: claim.bar for claim in found.claims if claim.bar is not None}
    assert bars == {"h01-one": BAR, "h02-three-rr": BAR, "h03-tight": KV_BOUND_BAR}


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_tokens": 128},
        {"max_num_seqs": 8},
        {"router": "random"},
        {"replicas": 2},
        {"kv_blocks": 90},
    ],
    ids=str,
)
def test_a_run_with_another_parameter_is_noticed(
    reference_runs: Path, changes: dict[str, Any]
) -> None:
    change_entry(reference_runs, "h02-three-rr", **changes)
    found = section(reference_runs)
    assert {claim.subject for claim in found.missed} == {"h02-three-rr"}


def test_a_percent_of_latency_is_noticed(reference_runs: Path) -> None:
    rewrite(reference_runs / "h01-one.csv.gz", 3, 1.006)
    missed = section(reference_runs).missed
    assert [claim.quantity for claim in missed] == ["TTFT p50", "TTFT p90", "TTFT p95", "TTFT p99"]
    assert missed[0].measured == pytest.approx(1 / 1.006 - 1, abs=1e-4)


def test_files_without_results_are_held_to_the_index(tmp_path: Path) -> None:
    folder = write_runs(tmp_path / "inputs-only", requests=200, results=False)
    found = section(folder)
    assert len(found.claims) == 3 * 8
    assert all(claim.passed for claim in found.claims)
    assert found.figures == ()
    assert not load_runs(folder)[0].latencies_s
    assert load_runs(folder)[2].restarts > 0


def test_what_the_engine_refuses_is_not_met_and_does_not_hide_the_others(
    reference_runs: Path,
) -> None:
    change_entry(reference_runs, "h01-one", chunk_tokens=32)
    found = section(reference_runs)
    assert len(found.missed) == 8
    for claim in found.missed:
        assert claim.subject == "h01-one"
        assert math.isnan(claim.measured)
        assert "max_num_seqs 64 is above chunk_tokens 32" in claim.note
    assert len(found.claims) == 3 * 8 + 2


def test_requests_that_fit_nowhere_are_not_met(reference_runs: Path) -> None:
    change_entry(reference_runs, "h03-tight", kv_blocks=30)
    missed = section(reference_runs).missed
    assert len(missed) == 8
    assert all(math.isnan(claim.measured) for claim in missed)


def test_without_a_folder_it_is_skipped() -> None:
    found = section(None)
    assert found.claims == ()
    assert found.skipped == "no reference runs here: name their folder with --reference"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_blocks": None}, "h01-one: kv_blocks is missing"),
        ({"kv_blocks": "many"}, "h01-one: kv_blocks is 'many', expected a whole number from 1"),
        ({"replicas": 0}, "h01-one: replicas is 0, expected a whole number from 1"),
        ({"replicas": True}, "h01-one: replicas is True"),
        ({"router": 3}, "h01-one: router is 3, expected a text"),
        ({"step": {"base_ms": 1.0}}, "h01-one: step: per_seq_ms is missing"),
        ({"step": {"base_ms": "1"}}, "h01-one: step: base_ms is '1', expected a number"),
        ({"step": 5}, "h01-one: step: base_ms is missing"),
        ({"step": {"base_ms": math.inf}}, "h01-one: step: base_ms is inf, expected a number"),
        ({"kv_blocks": 10**400}, "expected a whole number from 1 to 2,147,483,647"),
        ({"ttft_s_p50_p90_p95_p99": [1.0]}, "expected 4 numbers"),
        ({"ttft_s_p50_p90_p95_p99": [1, 2, 3, "x"]}, "_p95_p99 is 'x', expected a number"),
        ({"e2e_s_p50_p90_p95_p99": [1.0, 2.0, 3.0, 4.0]}, "h01-one.csv.gz gives"),
    ],
)
def test_a_malformed_entry_is_named(
    reference_runs: Path, changes: dict[str, Any], message: str
) -> None:
    change_entry(reference_runs, "h01-one", **changes)
    with pytest.raises(ReferenceRunError) as refusal:
        load_runs(reference_runs)
    assert message in str(refusal.value)
    assert str(refusal.value).startswith(str(reference_runs / "index.json"))


@pytest.mark.parametrize(
    ("column", "value"), [("restarts", "inf"), ("restarts", "-1"), ("ttft_s", "nan")]
)
def test_a_result_that_cannot_be_is_named(reference_runs: Path, column: str, value: str) -> None:
    path = reference_runs / "h01-one.csv.gz"
    with gzip.open(path, "rt") as file:
        header, first, second, *rows = file.read().splitlines()
    cells = second.split(",")
    cells[header.split(",").index(column)] = value
    with gzip.open(path, "wt") as file:
        file.write("\n".join([header, first, ",".join(cells), *rows]) + "\n")
    with pytest.raises(ReferenceRunError, match=rf"h01-one\.csv\.gz: row 2, {column}: {value} is"):
        load_runs(reference_runs)


def test_a_malformed_folder_is_named(reference_runs: Path) -> None:
    (reference_runs / "h02-three-rr.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"h02-three-rr\.csv\.gz") as refusal:
        load_runs(reference_runs)
    assert type(refusal.value).__module__.startswith("gatepilot.")
    for text in ("no json", "[]", "{}", 100_000 * "["):
        (reference_runs / "index.json").write_text(text)
        with pytest.raises(ReferenceRunError, match=r"index\.json"):
            load_runs(reference_runs)
    (reference_runs / "index.json").write_text(json.dumps({"h01-one": 3}))
    with pytest.raises(ReferenceRunError, match="h01-one: step is missing"):
        load_runs(reference_runs)
