"""What the bridge says of itself."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from gatepilot.deploy_bridge.metrics.exporter import BridgeMetrics


def samples(metrics: BridgeMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = metrics.render().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_set_is_shown() -> None:
    metrics = BridgeMetrics()
    metrics.observe_decision(0.0004)
    metrics.observe_read(0.03)
    metrics.set_mode("NORMAL")
    metrics.count_tick("good", 1_700_000_000.0)
    metrics.count_tick("good", 1_700_000_005.0)
    metrics.count_problem("stale")
    metrics.set_proposal(5, 0.35)
    metrics.set_incumbent(4, 0.5)
    metrics.set_ledger(17)
    metrics.set_artifact("abc", "SHADOW")
    shown = samples(metrics)

    def value(name: str, **labels: str) -> float:
        return shown[(f"gatepilot_bridge_{name}", tuple(sorted(labels.items())))]

    assert value("decision_seconds_bucket", le="0.0005") == 1
    assert value("read_seconds_count") == 1
    assert value("mode", gatepilot_bridge_mode="NORMAL") == 1
    assert value("mode", gatepilot_bridge_mode="FROZEN") == 0
    assert value("ticks_total", result="good") == 2
    assert value("last_tick_timestamp_seconds") == 1_700_000_005.0
    assert value("problems_total", kind="stale") == 1
    assert value("settings", by="policy", setting="replicas") == 5
    assert value("settings", by="incumbent", setting="breaker_threshold") == 0.5
    assert value("ledger_entries") == 17
    assert value("artifact", digest="abc", state="SHADOW") == 1


def test_a_held_tick_shows_no_settings() -> None:
    metrics = BridgeMetrics()
    metrics.set_proposal(5, 0.35)
    metrics.clear_settings()
    assert not [name for name, _ in samples(metrics) if name == "gatepilot_bridge_settings"]


def test_only_the_latest_artifact_is_shown() -> None:
    metrics = BridgeMetrics()
    metrics.set_artifact("old", "SHADOW")
    metrics.set_artifact("new", "SHADOW")
    digests = [dict(labels)["digest"] for name, labels in samples(metrics) if "artifact" in name]
    assert digests == ["new"]


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'ASLEEP': expected one of BOOT, FROZEN, NORMAL"):
        BridgeMetrics().set_mode("ASLEEP")


def test_two_bridges_in_a_process_do_not_meet() -> None:
    BridgeMetrics().count_tick("good", 0.0)
    assert ("gatepilot_bridge_ticks_total", (("result", "good"),)) not in samples(BridgeMetrics())
    assert not [family.name for family in REGISTRY.collect() if "gatepilot" in family.name]
