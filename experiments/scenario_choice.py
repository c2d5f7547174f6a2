"""The scenarios that a command line asks for: shipped, from files, or around a bare trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ..envs.scenario import Scenario, ScenarioError, load_scenario, parse_scenario
from ..envs.workload.trace import load_trace
from .suites import suite

COMMAND_LINE: Final = "command line"
"""Where errors say an overridden key stands."""


@dataclass(frozen=True)
class Overrides:
    """Keys of a scenario that the command line can set; `None` leaves one as it is."""

    rate_scale: float | None = None
    max_prompt_tokens: int | None = None
    from_s: float | None = None
    to_s: float | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    cold_start_s: float | None = None

    def applied(self, content: dict[str, Any]) -> dict[str, Any]:
        """A scenario's content with the keys that are set; the start follows the replica limits."""
        workload = {name: getattr(self, name) for name in _WORKLOAD_KEYS}
        cluster = {name: getattr(self, name) for name in _CLUSTER_KEYS}
        merged = dict(content)
        merged["workload"] = content["workload"] | _given(workload)
        merged["cluster"] = content["cluster"] | _given(cluster)
        low, high = merged["cluster"]["min_replicas"], merged["cluster"]["max_replicas"]
        initial = merged["cluster"]["initial_replicas"]
        if initial is not None:
            merged["cluster"]["initial_replicas"] = min(max(initial, low), high)
        return merged


_WORKLOAD_KEYS: Final = ("rate_scale", "max_prompt_tokens", "from_s", "to_s")
_CLUSTER_KEYS: Final = ("min_replicas", "max_replicas", "cold_start_s")


def named_scenarios(
    suite_name: str | None, names: Sequence[str], overrides: Overrides
) -> tuple[Scenario, ...]:
    """The scenarios of a suite and those that are named, in this order.

    Raises:
        ValueError: One is unknown or malformed, or two have the same name: one line.
    """
    wanted = [*(suite(suite_name) if suite_name is not None else ()), *names]
    scenarios = tuple(_overridden(load_scenario(name), overrides) for name in wanted)
    seen: set[str] = set()
    for scenario in scenarios:
        if scenario.name in seen:
            msg = f"scenario {scenario.name} is named twice"
            raise ScenarioError(msg)
        seen.add(scenario.name)
    return scenarios


def trace_scenario(
    trace: Path, profile: str, overrides: Overrides, traces_dir: Path | None
) -> Scenario:
    """A scenario around a trace: defaults for everything that is not said.

    Args:
        trace: The file; looked for in the traces folder too.
        profile: An id of the catalogue, or a JSON file.
        overrides: What is said.
        traces_dir: The traces folder.

    Raises:
        ValueError: The trace or the profile cannot be used: one line.
    """
    path = located_trace(trace, traces_dir)
    return _overridden(around_trace(path, load_trace(path).span_s, profile), overrides)


def located_trace(trace: Path, traces_dir: Path | None) -> Path:
    """Where a trace that the command line names lies: as it is said, or in the traces folder."""
    if not trace.is_file() and traces_dir is not None and (traces_dir / trace).is_file():
        return traces_dir / trace
    return trace


def around_trace(path: Path, span_s: float, profile: str) -> Scenario:
    """A scenario of defaults around a trace.

    Args:
        path: The trace.
        span_s: Its span.
        profile: An id of the catalogue, or a JSON file.

    Raises:
        ScenarioError: The profile cannot be used: one line.
    """
    content = {
        "name": path.name.split(".")[0] or path.name,
        "workload": {"trace": str(path.resolve()), "to_s": span_s},
        "profile": profile,
        "description": f"Trace {path.name} on {Path(profile).name}.",
    }
    return parse_scenario(content, where=COMMAND_LINE)


def changed(scenario: Scenario, content: dict[str, Any]) -> Scenario:
    """A scenario as the command line changes it, checked like a file.

    Args:
        scenario: What is changed, for its name in errors.
        content: All keys, changed ones included.

    Raises:
        ScenarioError: A value that no file may hold, or that contradicts another: one line.
    """
    return parse_scenario(content, where=f"{COMMAND_LINE} ({scenario.name})")


def _overridden(scenario: Scenario, overrides: Overrides) -> Scenario:
    if overrides == Overrides():
        return scenario
    return changed(scenario, overrides.applied(asdict(scenario)))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
