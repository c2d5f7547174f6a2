"""Start-up times by strategy: recomputed from the measured breakdowns, and what files may say."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.envs.profiles.profile import load_profile, parse_profile, profile_ids
from gatepilot.envs.profiles.start_times import DEFAULT_COLD_START_S, WARM_S, StartTimes

STEP = {
    "base_ms": 10.0,
    "per_seq_ms": 0.1,
    "per_1k_ctx_tokens_ms": 0.05,
    "per_prefill_token_ms": 0.02,
}


def start_of(cold_start: dict[str, Any] | None) -> StartTimes:
    content = {"step": STEP} | ({} if cold_start is None else {"cold_start": cold_start})
    return parse_profile(content, where="f", name="n").start_times


@pytest.mark.parametrize("name", profile_ids())
def test_the_catalogue_follows_from_the_measurements(name: str, traces_dir: Path) -> None:
    facts = json.loads((traces_dir / "profiles.json").read_text())
    fits = {fit["id"]: fit for fit in facts["cold_start"]["fits"]}
    profile = load_profile(name)
    on = {"a100_sxm": "a100", "l40s": "second_gpu_of_fig10"}.get(profile.gpu, "h100nvl_ram")
    fit, disk, memory = fits[on], fits["h100nvl_ssd"], fits["h100nvl_ram"]
    layers = facts["models"][profile.model]["layers"]
    gib = profile.weights_gib
    assert gib is not None
    load_s = fit["load_fixed_s"] + fit["load_s_per_gib"] * gib
    lazy_s = load_s + fit["engine_init_fixed_s"] + fit["engine_init_s_per_layer"] * layers
    cached_s = lazy_s + fit["bootstrap_s"] + fit["other_s"]
    breakdowns = {item["id"]: item for item in facts["cold_start"]["measured_breakdowns"]}
    cold, warm = (
        breakdowns[f"llama-3-70b-h100-tp4-{which}"]["components_s"]["torch_compile_total"]
        for which in ("baseline", "optimised")
    )
    from_disk_s = (disk["load_s_per_gib"] - memory["load_s_per_gib"]) * gib
    from_disk_s += disk["load_fixed_s"] - memory["load_fixed_s"]
    cold_s = cached_s + from_disk_s + (cold - warm) / 80 * layers
    start = profile.start_times
    assert start.lazy_ready_s == pytest.approx(lazy_s, abs=0.06)
    assert start.cached_s == pytest.approx(cached_s, abs=0.06)
    assert start.cold_s == pytest.approx(cold_s, abs=0.06)
    assert start.warm_s == WARM_S
    assert start.warm_s < start.lazy_ready_s < start.cached_s < start.cold_s
    assert start.assumed == {"cold_s", "cached_s", "warm_s", "lazy_ready_s"}
    assert on in start.source


def test_the_formula_gives_the_one_start_that_was_measured_in_full(traces_dir: Path) -> None:
    """Llama 3 70B in bf16 on four H100s, all cold: 347 s by the log; nothing was fitted to it."""
    facts = json.loads((traces_dir / "profiles.json").read_text())
    fit = next(fit for fit in facts["cold_start"]["fits"] if fit["id"] == "h100nvl_ssd")
    model = facts["models"]["llama-3.1-70b"]
    cold_s = (
        fit["bootstrap_s"]
        + fit["load_fixed_s"]
        + fit["load_s_per_gib"] * model["weights_gib_bf16"]
        + fit["engine_init_fixed_s"]
        + fit["engine_init_s_per_layer"] * model["layers"]
        + fit["other_s"]
        + (60.79 - 15.65)
    )
    assert cold_s == pytest.approx(347, rel=0.02)


def test_what_a_file_does_not_say_is_assumed() -> None:
    nothing = start_of(None)
    assert nothing.cold_s == nothing.cached_s == nothing.lazy_ready_s == DEFAULT_COLD_START_S
    assert nothing.warm_s == WARM_S
    assert len(nothing.assumed) == 4
    only_s = start_of({"s": 33})
    assert (only_s.cold_s, only_s.cached_s, only_s.lazy_ready_s) == (33, 33, 33)
    assert "cold_s" in only_s.assumed


def test_what_a_file_says_is_not() -> None:
    start = start_of({"s": 33, "cold_s": 200, "cached_s": 40, "strategies_source": "our logs"})
    assert (start.cold_s, start.cached_s, start.lazy_ready_s) == (200, 40, 40)
    assert start.assumed == {"warm_s", "lazy_ready_s"}
    assert start.source == "our logs"
    marked = start_of({"cold_s": 200, "strategies_assumed": ["cold_s"]})
    assert "cold_s" in marked.assumed


def test_a_time_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^f: cold_start\.warm_s: -1 is not a number"):
        start_of({"warm_s": -1})
    with pytest.raises(ValueError, match=r"^f: cold_start\.warm: unknown key; did you mean warm_s"):
        start_of({"warm": 1})
