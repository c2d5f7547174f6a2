"""Profiles: the catalogue's facts, users' files, one-line errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.envs.profiles import profile as profile_module
from gatepilot.envs.profiles.profile import load_profile, parse_profile, profile_ids
from gatepilot.envs.profiles.start_times import DEFAULT_COLD_START_S

LLAMA_70B = "llama-3.1-70b-fp8-h100_sxm-tp2-vllm"
STEP = {
    "base_ms": 10.0,
    "per_seq_ms": 0.1,
    "per_1k_ctx_tokens_ms": 0.05,
    "per_prefill_token_ms": 0.02,
}


def test_known_entry_in_seconds() -> None:
    profile = load_profile(LLAMA_70B)
    assert profile.base_s == pytest.approx(0.0166961)
    assert profile.per_seq_s == pytest.approx(3.48347e-5)
    assert profile.per_ctx_token_s == pytest.approx(6.29855e-8)
    assert profile.per_prefill_token_s == pytest.approx(8.2438e-5)
    assert profile.gpus_per_replica == 2
    assert profile.weights_gib == pytest.approx(67.66)
    assert profile.vram_gib == 160
    assert profile.kv_capacity_tokens == 232_456
    assert profile.cold_start_s == 110
    assert profile.fit_mape == pytest.approx(0.0073, abs=1e-5)


@pytest.mark.parametrize("name", profile_ids())
def test_every_entry_is_complete_and_plausible(name: str) -> None:
    profile = load_profile(name)
    assert profile.id == name
    assert profile.kind in ("measured-fit", "kernel-model")
    assert "aiconfigurator" in profile.source
    assert profile.fit_mape is not None
    assert profile.fit_mape < 0.1
    assert 0.001 < profile.base_s < 0.1
    assert 1e-6 < profile.per_prefill_token_s < 1e-3
    assert 10 < profile.cold_start_s < 400
    assert len(profile.cold_start_source) > 20
    assert profile.cold_start_assumed
    assert profile.cpu.assumed
    assert profile.weights_gib is not None
    assert profile.vram_gib is not None
    assert profile.kv_capacity_tokens is not None
    assert profile.kv_bytes_per_token is not None
    kv_gib = profile.kv_capacity_tokens * profile.kv_bytes_per_token / 2**30
    # The capacity was derived from 90 % of the memory less 2.7 GiB a GPU.
    expected = 0.9 * profile.vram_gib - 2.7 * profile.gpus_per_replica
    assert profile.weights_gib + kv_gib == pytest.approx(expected, rel=0.005)


def test_catalogue_keeps_the_published_facts(traces_dir: Path) -> None:
    facts = json.loads((traces_dir / "profiles.json").read_text())
    assert set(facts["recommended_ids"]) <= set(profile_ids())
    path = Path(profile_module.__file__).with_name("catalogue.json")
    catalogue = {entry["id"]: entry for entry in json.loads(path.read_text())["profiles"]}
    for entry in facts["profiles"]:
        ours = catalogue.get(entry["id"])
        if ours is None:
            continue
        assert ours["source"] == entry["source"]
        if "published_step" in ours:  # fitted anew, to the same rows
            assert ours["published_step"] == entry["step"]
            assert ours["published_fit"].items() <= entry["fit"].items()
            assert ours["fit"]["mape"] <= entry["fit"]["mape"] + 0.001
        elif "step" in entry:
            assert ours["step"] == entry["step"]
            assert ours["fit"] == entry["fit"]
        else:
            for key in ("base_ms", "per_seq_ms", "per_1k_ctx_tokens_ms"):
                assert ours["step"][key] == entry["decode"][key]


def test_an_entry_of_the_published_file_reads_as_it_is(traces_dir: Path, tmp_path: Path) -> None:
    facts = json.loads((traces_dir / "profiles.json").read_text())
    entry = next(item for item in facts["profiles"] if item["id"] == LLAMA_70B)
    path = tmp_path / "p.json"
    path.write_text(json.dumps(entry))
    assert load_profile(path).base_s == pytest.approx(entry["step"]["base_ms"] / 1000)


def test_cpu_model_rises_with_load() -> None:
    profile = load_profile(LLAMA_70B)
    cpu = profile.cpu
    one = profile.base_s + profile.per_seq_s
    decoding_one = cpu.idle + cpu.per_iteration_s / one + cpu.per_token_s / one
    full = profile.base_s + 512 * profile.per_prefill_token_s
    flat_out = cpu.idle + cpu.per_iteration_s / full + 512 * cpu.per_token_s / full
    assert cpu.idle < decoding_one < 0.4
    assert 0.7 < flat_out < 0.95
    assert cpu.startup == 0.9


def test_smallest_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"step": STEP}))
    profile = load_profile(path)
    assert profile.id == "mine"
    assert profile.base_s == pytest.approx(0.01)
    assert profile.per_ctx_token_s == pytest.approx(5e-8)
    assert profile.gpus_per_replica == 1
    assert profile.kv_capacity_tokens is profile.weights_gib is profile.vram_gib is None
    assert profile.cold_start_s == DEFAULT_COLD_START_S
    assert profile.cold_start_assumed


def test_full_file() -> None:
    content = {
        "id": "x",
        "step": STEP,
        "gpus_per_replica": 4,
        "memory": {"weights_gib_per_gpu": 10, "vram_gib_per_gpu": 80, "kv_capacity_tokens": 9000},
        "cold_start": {"s": 33, "source": "our logs"},
        "cpu": {"idle": 0.1, "per_iteration_s": 0.001, "per_token_s": 0.0001, "startup": 0.5},
        "source": "our bench",
    }
    profile = parse_profile(content, where="f", name="n")
    assert profile.id == "x"
    assert profile.weights_gib == 40
    assert profile.vram_gib == 320
    assert profile.cold_start_s == 33
    assert not profile.cold_start_assumed
    assert profile.cold_start_source == "our logs"
    assert profile.cpu.startup == 0.5
    assert not profile.cpu.assumed
    assert profile.source == "our bench"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": None}, "f.json: step: missing key"),
        ({"step": 3}, "f.json: step: expected an object with keys base_ms, "),
        (
            {"step": {**STEP, "base_s": 1}},
            "f.json: step.base_s: unknown key; did you mean base_ms?",
        ),
        (
            {"step": {k: v for k, v in STEP.items() if k != "per_seq_ms"}},
            "f.json: step.per_seq_ms: missing key",
        ),
        (
            {"step": {**STEP, "per_seq_ms": -1}},
            "f.json: step.per_seq_ms: -1 is not a number of at least 0",
        ),
        ({"step": {**STEP, "base_ms": "1"}}, "f.json: step.base_ms: '1' is not a number"),
        ({"step": {**STEP, "base_ms": True}}, "f.json: step.base_ms: True is not a number"),
        ({"step": {**STEP, "base_ms": float("nan")}}, "f.json: step.base_ms: nan is not"),
        ({"step": {**STEP, "base_ms": 0, "per_seq_ms": 0}}, "f.json: step.base_ms: 0 leaves"),
        ({"stepp": {}}, "f.json: stepp: unknown key; did you mean step?"),
        ({"gpus_per_replica": 0}, "f.json: gpus_per_replica: 0 is not a number above 0"),
        ({"gpus_per_replica": 1.5}, "f.json: gpus_per_replica: 1.5 is not a whole number"),
        ({"memory": {"vram": 80}}, "f.json: memory.vram: unknown key"),
        ({"cold_start": {"s": -3}}, "f.json: cold_start.s: -3 is not"),
        ({"cpu": {"idle": 0.1}}, "f.json: cpu.per_iteration_s: missing key"),
    ],
)
def test_bad_files(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    content = {k: v for k, v in {"step": STEP, **change}.items() if v is not None}
    path = tmp_path / "f.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        load_profile(path)
    assert message in str(caught.value)


def test_no_such_profile(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"llama-3\.1-70b: unknown profile; did you mean llama"):
        load_profile("llama-3.1-70b")
    with pytest.raises(ValueError, match="zzz: unknown profile; known: "):
        load_profile("zzz")
    with pytest.raises(ValueError, match=r"none\.json: cannot be read"):
        load_profile(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    for content in (b"{", 100_000 * b"[", b"\xff\xfe\x00"):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=r"broken\.json: not a JSON file \([^\n]+\)$"):
            load_profile(broken)
