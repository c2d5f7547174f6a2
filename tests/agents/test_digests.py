"""Digests tell apart what can change a result, and nothing else; every process finds the same."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gatepilot.agents import digests
from gatepilot.agents.digests import (
    Traffic,
    file_digest,
    json_digest,
    scenario_digest,
    sources_digest,
    traffic_of,
)
from gatepilot.envs.fault_spec import FaultSpec
from gatepilot.envs.scenario import Scenario, load_scenario

PRINTED = """
from gatepilot.agents.digests import scenario_digest
from gatepilot.envs.scenario import load_scenario
print(scenario_digest(load_scenario("bad_replica")))
"""


def test_the_digest_of_content_is_that_of_its_sorted_text() -> None:
    expected = hashlib.sha256(b'{"a":[1,2.5,null],"b":["x","y"]}').hexdigest()
    assert json_digest({"b": frozenset("yx"), "a": (1, 2.5, None)}) == expected
    for plain in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises((TypeError, ValueError)):
            json_digest(plain)


def test_all_that_can_change_a_result_changes_the_digest(small: Scenario) -> None:
    fault = FaultSpec("brown_out", start_s=10.0, duration_s=60.0, error_share=(0.1, 0.2))
    others = [
        replace(small, name="other"),
        replace(small, workload=replace(small.workload, rate_scale=2.0)),
        replace(small, profile="llama-3.1-70b-fp8-h100_sxm-tp2-vllm"),
        replace(small, cluster=replace(small.cluster, cold_start_s=1.0)),
        replace(small, control=replace(small.control, tick_s=30.0)),
        replace(small, faults=(fault,)),
    ]
    found = [scenario_digest(scenario) for scenario in (small, *others)]
    assert len(set(found)) == len(found)
    assert scenario_digest(replace(small, description="told otherwise")) == found[0]


def test_every_process_finds_the_same() -> None:
    """Sets of texts are in another order in every process: a digest must not show it."""
    for hash_seed in ("1", "2"):
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", PRINTED],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == scenario_digest(load_scenario("bad_replica"))


def test_traffic_is_the_trace_where_it_is_there(small: Scenario, tmp_path: Path) -> None:
    trace = tmp_path / "day.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n9,1,1\n")
    both = replace(small, workload=replace(small.workload, trace="day.csv"))
    alone = replace(small, workload=replace(small.workload, trace="no.csv", model=None))
    found = traffic_of(both, tmp_path)
    assert found == Traffic("trace", "day.csv", hashlib.sha256(trace.read_bytes()).hexdigest())
    assert str(found) == "trace day.csv"
    model = traffic_of(both, None)
    assert model is not None
    assert str(model) == "model servegen-tenants"
    assert traffic_of(alone, None) is None


def test_a_changed_file_is_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    first = file_digest(path)
    path.write_bytes(b"afterwards")
    assert first == hashlib.sha256(b"before").hexdigest()
    assert file_digest(path) == hashlib.sha256(b"afterwards").hexdigest()


def test_sources_are_hashed_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_PACKAGE", tmp_path)
    found = []
    for name, text in (("a.py", "1"), ("b.py", "1"), ("b.py", "2"), ("c.txt", "3")):
        (tmp_path / name).write_text(text)
        sources_digest.cache_clear()
        found.append(sources_digest(("*.py",)))
    sources_digest.cache_clear()
    assert len({*found[:3]}) == 3
    assert found[3] == found[2]
    assert found[0] == hashlib.sha256(b"a.py\x001\x00").hexdigest()
