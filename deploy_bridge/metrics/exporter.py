"""The bridge's own metrics, in a registry of their own."""

from __future__ import annotations

from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Enum,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
"""Of what `render` gives."""
_DECISION_BOUNDS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
_READ_BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
_MODES: Final = ("BOOT", "FROZEN", "NORMAL")


class BridgeMetrics:
    """What the bridge says of itself. Setters are cheap and never fail for what is measured."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._decision = self._histogram("decision_seconds", "One decision", _DECISION_BOUNDS_S)
        self._read = self._histogram("read_seconds", "Reading all sources once", _READ_BOUNDS_S)
        self._mode = Enum(
            "gatepilot_bridge_mode",
            "How far the bridge trusts what it sees",
            states=_MODES,
            registry=self.registry,
        )
        self._ticks = Counter(
            "gatepilot_bridge_ticks", "Ticks by result", ["result"], registry=self.registry
        )
        self._problems = Counter(
            "gatepilot_bridge_problems",
            "Reasons not to trust a reading",
            ["kind"],
            registry=self.registry,
        )
        self._settings = Gauge(
            "gatepilot_bridge_settings",
            "What each would set: replicas, breaker threshold (0-1)",
            ["by", "setting"],
            registry=self.registry,
        )
        self._ledger = Gauge(
            "gatepilot_bridge_ledger_entries", "Entries in the ledger", registry=self.registry
        )
        self._artifact = Gauge(
            "gatepilot_bridge_artifact",
            "The artifact that decides: 1",
            ["digest", "state"],
            registry=self.registry,
        )
        self._last_tick = Gauge(
            "gatepilot_bridge_last_tick_timestamp_seconds",
            "Wall time of the last tick that ended",
            registry=self.registry,
        )

    def _histogram(self, name: str, meaning: str, bounds: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"gatepilot_bridge_{name}", meaning, buckets=bounds, registry=self.registry
        )

    def observe_decision(self, seconds: float) -> None:
        """Notes how long one decision took, reading excluded."""
        self._decision.observe(seconds)

    def observe_read(self, seconds: float) -> None:
        """Notes how long reading all sources took."""
        self._read.observe(seconds)

    def set_mode(self, mode: str) -> None:
        """Notes the mode.

        Raises:
            ValueError: A mode that does not exist.
        """
        if mode not in _MODES:
            msg = f"mode {mode!r}: expected one of {', '.join(_MODES)}"
            raise ValueError(msg)
        self._mode.state(mode)

    def count_tick(self, result: str, at_s: float) -> None:
        """Counts a tick that ended at `at_s` (seconds since the epoch) with that result."""
        self._ticks.labels(result).inc()
        self._last_tick.set(at_s)

    def count_problem(self, kind: str) -> None:
        """Counts one reason not to trust a reading."""
        self._problems.labels(kind).inc()

    def set_proposal(self, replicas: float, threshold: float) -> None:
        """Notes what the policy would set, after the guardrails."""
        self._set("policy", replicas, threshold)

    def set_incumbent(self, replicas: float, threshold: float) -> None:
        """Notes what the incumbent would set."""
        self._set("incumbent", replicas, threshold)

    def clear_settings(self) -> None:
        """Forgets both: a held tick proposes nothing, and the last proposal must not live on."""
        self._settings.clear()

    def _set(self, by: str, replicas: float, threshold: float) -> None:
        self._settings.labels(by, "replicas").set(replicas)
        self._settings.labels(by, "breaker_threshold").set(threshold)

    def set_ledger(self, entries: int) -> None:
        """Notes the number of entries the ledger holds."""
        self._ledger.set(entries)

    def set_artifact(self, digest: str, state: str) -> None:
        """Notes which artifact decides, and its lifecycle state, e.g. `SHADOW`."""
        self._artifact.clear()
        self._artifact.labels(digest, state).set(1)

    def render(self) -> bytes:
        """The text of `/metrics`."""
        return generate_latest(self.registry)
