"""Scenarios: workload, profile, cluster limits, gateway, telemetry, control, splits and faults.

A scenario is one YAML file that maps 1:1 onto the dataclasses of `scenario_spec`; an unknown key
is an error. The shipped ones are in `scenarios/`.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from .fault_spec import FaultSpec, check_onsets
from .profiles.profile import load_profile
from .scenario_checks import (
    check_kv_cache,
    check_prompt,
    check_rhythm,
    kv_blocks,
    kv_capacity_tokens,
)
from .scenario_file import ScenarioError, first_problem, read_yaml, to_json
from .scenario_numbers import MOST_REQUESTS, SPEC_CONFIG
from .scenario_spec import (
    ClusterSpec,
    ControlSpec,
    GatewaySpec,
    Splits,
    TelemetrySpec,
    WorkloadSpec,
)
from .workload.model import load_model
from .workload.request import Requests, superpose
from .workload.trace import TraceError, load_trace

__all__ = [
    "SPLITS",
    "ClusterSpec",
    "ControlSpec",
    "FaultSpec",
    "GatewaySpec",
    "Scenario",
    "ScenarioError",
    "Splits",
    "TelemetrySpec",
    "WorkloadSpec",
    "is_shipped",
    "load_scenario",
    "parse_scenario",
    "scenario_names",
]

QUIET_END_S = 60.0
"""How far `workload.to_s` may lie after a trace's last arrival: no file shows its quiet end."""

_DEFAULT_SPLITS = {
    "train": (0.0, 14 / 24),
    "validation": (14 / 24, 16 / 24),
    "test": (16 / 24, 1.0),
}
SPLITS = tuple(_DEFAULT_SPLITS)
"""Names of the splits."""

_FOLDER = Path(__file__).with_name("scenarios")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scenario:
    """One complete setting of the environment.

    Raises:
        ValueError: Keys that contradict each other; the message starts with the key.
    """

    __pydantic_config__ = SPEC_CONFIG

    name: Annotated[str, Field(min_length=1)]
    """Short name, the file's stem for shipped ones."""
    workload: WorkloadSpec
    """Offered load."""
    profile: str
    """Serving profile: an id of the catalogue or a JSON file."""
    description: str = ""
    """What it is for, in a sentence."""
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    """Replicas."""
    gateway: GatewaySpec = field(default_factory=GatewaySpec)
    """Routing, breaker, retries."""
    telemetry: TelemetrySpec = field(default_factory=TelemetrySpec)
    """Scrapes and windows."""
    control: ControlSpec = field(default_factory=ControlSpec)
    """Rhythm of decisions."""
    splits: Splits = field(default_factory=Splits)
    """Training, validation and test ranges."""
    faults: tuple[FaultSpec, ...] = ()
    """What goes wrong."""

    def __post_init__(self) -> None:
        """Checks that profile and model exist and that the splits lie inside the workload."""
        try:
            load_profile(self.profile)
        except ValueError as error:
            raise ValueError(f"profile: {error}") from error
        if self.workload.model is not None:
            try:
                load_model(self.workload.model)
            except ValueError as error:
                raise ValueError(f"workload.model: {error}") from error
        self._check_memory()
        self._check_faults()
        from_s, to_s = self.range_s
        if from_s >= to_s:
            raise ValueError(
                f"workload.from_s: {from_s} must lie before the workload's end ({to_s})"
            )
        check_rhythm(self.telemetry, self.control)
        ranges = sorted((self.split_range(split), split) for split in SPLITS)
        for (start_s, end_s), split in ranges:
            if not from_s <= start_s < end_s <= to_s:
                raise ValueError(
                    f"splits.{split}: [{start_s}, {end_s}] lies outside the workload's "
                    f"[{from_s}, {to_s}] seconds"
                )
        for (before, earlier), (after, later) in itertools.pairwise(ranges):
            if after[0] < before[1]:
                raise ValueError(
                    f"splits.{later}: [{after[0]}, {after[1]}] overlaps {earlier} "
                    f"[{before[0]}, {before[1]}]; splits must be disjoint"
                )

    def _check_memory(self) -> None:
        """Raises ValueError where the profile or the model's prompts find no room."""
        check_kv_cache(self.cluster, load_profile(self.profile), self.profile)
        longest = self.workload.max_prompt_tokens
        if self.workload.model is not None:
            offered = load_model(self.workload.model).longest_prompt_tokens
            longest = offered if longest is None else min(offered, longest)
        if longest is not None:
            check_prompt(longest, self.cluster, load_profile(self.profile))

    @property
    def kv_capacity_tokens(self) -> int | None:
        """Tokens that a replica's KV cache holds; None: not known, and not modelled."""
        return kv_capacity_tokens(self.cluster, load_profile(self.profile))

    @property
    def kv_blocks(self) -> int | None:
        """Blocks that a replica's KV cache has; None: not known, and not modelled."""
        return kv_blocks(self.cluster, load_profile(self.profile))

    def _check_faults(self) -> None:
        """Raises ValueError where a fault begins after the episode's end, or too many do before."""
        episode_s = self.control.episode_ticks * self.control.tick_s
        for i, fault in enumerate(self.faults):
            if fault.start_s is not None and fault.start_s >= episode_s:
                raise ValueError(
                    f"faults.{i}.start_s: {fault.start_s} lies after the episode's end "
                    f"({episode_s} s)"
                )
        check_onsets(self.faults, episode_s)
        if self.gateway.router == "dynamic_weight" and self.kv_capacity_tokens is None:
            raise ValueError(
                "gateway.router: dynamic_weight weighs the KV cache, whose size neither "
                "cluster.kv_blocks nor the profile tells"
            )

    @property
    def range_s(self) -> tuple[float, float]:
        """The part of the workload's own time that is used, in seconds."""
        spec = self.workload
        if spec.to_s is not None:
            return spec.from_s, spec.to_s
        return spec.from_s, load_model(str(spec.model)).span_s

    def split_range(self, split: str | None) -> tuple[float, float]:
        """The seconds [from, to) of the workload's own time that belong to a split.

        Args:
            split: "train", "validation" or "test"; None: the whole range.
        """
        from_s, to_s = self.range_s
        if split is None:
            return from_s, to_s
        if split not in _DEFAULT_SPLITS:
            raise ValueError(f"split: {split!r} is none of {', '.join(_DEFAULT_SPLITS)}")
        given: tuple[float, float] | None = getattr(self.splits, split)
        if given is not None:
            return given
        low, high = _DEFAULT_SPLITS[split]
        return from_s + low * (to_s - from_s), from_s + high * (to_s - from_s)

    def requests(self, split: str | None, *, seed: int, traces_dir: Path | None = None) -> Requests:
        """The offered load of a split: cut first, then filtered, then superposed.

        Where the trace is absent the model is sampled for the same range instead, and a log
        message says so once.

        Args:
            split: "train", "validation" or "test"; None: the whole range.
            seed: Of the superposition and of the model's sample; equal seeds give equal bytes.
            traces_dir: Folder that holds trace files; None: only paths are looked up.

        Raises:
            ScenarioError: Neither trace nor model is there, the trace is malformed or too short.
        """
        spec = self.workload
        from_s, to_s = self.split_range(split)
        superpose_seed, sample_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        path = self.trace_path(traces_dir)
        if path is not None:
            requests = self._from_trace(path).within(from_s, to_s)
            self._check_size(len(requests) * spec.rate_scale)
        elif spec.model is not None:
            if spec.trace is not None:
                _say_once(f"{spec.trace} not found: sampling the model {spec.model} instead")
            model = load_model(spec.model)
            self._check_size(model.mean_rate_rps * (to_s - from_s) * max(spec.rate_scale, 1.0))
            requests = model.sample(from_s, to_s, sample_seed)
        else:
            raise ScenarioError(
                f"{self.name}: workload.trace: {spec.trace} found neither as a path nor in the "
                f"traces folder ({traces_dir or 'none given'}), and no model is named"
            )
        if spec.max_prompt_tokens is not None:
            requests = requests.without_long_prompts(spec.max_prompt_tokens)
        if len(requests) > 0:
            try:
                longest = int(requests.prompt_tokens.max())
                check_prompt(longest, self.cluster, load_profile(self.profile))
            except ValueError as error:
                raise ScenarioError(f"{self.name}: {error}") from error
        return superpose(
            requests, spec.rate_scale, seed=superpose_seed, max_shift_s=spec.max_shift_s
        )

    def _check_size(self, requests: float) -> None:
        """Raises ScenarioError where the load would not fit into the memory of a machine."""
        if requests > MOST_REQUESTS:
            raise ScenarioError(
                f"{self.name}: workload.rate_scale: {self.workload.rate_scale:g} makes some "
                f"{requests:.3g} requests, expected at most {MOST_REQUESTS:,}: take a smaller "
                "factor or a shorter range"
            )

    def trace_path(self, traces_dir: Path | None) -> Path | None:
        """Where the trace lies; None: nowhere, or none is named."""
        if self.workload.trace is None:
            return None
        folders = [Path()] if traces_dir is None else [Path(traces_dir), Path()]
        paths = (folder / self.workload.trace for folder in folders)
        return next((path for path in paths if path.is_file()), None)

    def _from_trace(self, path: Path) -> Requests:
        """The whole trace, its span brought to the end of the workload's range."""
        try:
            requests = load_trace(path)
        except TraceError as error:
            raise ScenarioError(f"{self.name}: workload.trace: {error}") from error
        to_s = self.range_s[1]
        if to_s > requests.span_s + QUIET_END_S:
            raise ScenarioError(
                f"{self.name}: workload.to_s: {to_s} lies after the trace's end "
                f"({requests.span_s} s in {path})"
            )
        return replace(requests, span_s=max(to_s, requests.span_s))


def scenario_names() -> tuple[str, ...]:
    """Names of the shipped scenarios, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def is_shipped(scenario: Scenario) -> bool:
    """Whether a scenario is one of the shipped ones, unchanged."""
    return scenario.name in scenario_names() and scenario == load_scenario(scenario.name)


def load_scenario(name_or_path: str | Path) -> Scenario:
    """Reads a shipped scenario by name, or any by path.

    Args:
        name_or_path: A name out of `scenario_names`, or a path ending in `.yaml` or `.yml`.

    Raises:
        ScenarioError: No such scenario, or a malformed one: one line with file, key and what
            would be right.
    """
    name = str(name_or_path)
    path = _FOLDER / f"{name}.yaml" if name in scenario_names() else Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        near = difflib.get_close_matches(name, scenario_names(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(scenario_names())}"
        raise ScenarioError(f"{name}: unknown scenario; {hint}")
    return parse_scenario(read_yaml(path), where=path.name)


def parse_scenario(content: Any, *, where: str) -> Scenario:  # noqa: ANN401
    """Builds a scenario from plain content (of a YAML file, or `dataclasses.asdict`).

    Args:
        content: A mapping with the keys of `Scenario`.
        where: File to name in errors.

    Raises:
        ScenarioError: One line with file, key and what would be right.
    """
    if not isinstance(content, Mapping):
        raise ScenarioError(f"{where}: expected keys and values such as `profile: ...`")
    try:
        return _adapter().validate_json(to_json(content))
    except ValidationError as error:
        raise ScenarioError(f"{where}: {first_problem(error, Scenario)}") from error


def parse_scenarios(content: Any, *, where: str) -> tuple[Scenario, ...]:  # noqa: ANN401
    """Builds scenarios from a list of plain contents.

    Args:
        content: A list of what `parse_scenario` takes, at least one.
        where: File to name in errors.

    Raises:
        ScenarioError: One line with file, key and what would be right.
    """
    if not isinstance(content, list) or not content:
        raise ScenarioError(f"{where}: expected a list of scenarios")
    return tuple(parse_scenario(one, where=where) for one in content)


@functools.cache
def _adapter() -> TypeAdapter[Scenario]:
    """The checker of `Scenario`."""
    return TypeAdapter(Scenario)


@functools.cache
def _say_once(message: str) -> None:
    """Logs a message the first time it comes up in a process."""
    _log.warning(message)
