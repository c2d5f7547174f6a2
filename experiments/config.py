"""Finds training configurations: shipped ones by name, others by path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import yaml

from ..agents.baselines.planner.controller import PlannerControllerParams
from ..agents.baselines.planner.params import PlannerParams
from ..agents.baselines.registry import UNIT_SUFFIX
from ..agents.config import ConfigError, TrainingConfig, parse_config
from ..agents.digests import json_digest
from ..envs.scenario import Scenario, load_scenario
from ..envs.scenario_file import ScenarioError, read_yaml
from .shipped_settings import shipped_settings

_FOLDER: Final = Path(__file__).with_name("configs")
_SUFFIXES: Final = (".yaml", ".yml")
_TUNED: Final = "tuned"
"""In place of `advisors`: those that ship."""
_ADVISOR: Final = f"planner{UNIT_SUFFIX}"
_EXPONENT_FORM: Final = re.compile(r"[+-]?\d+[eE][+-]?\d+")


def config_names() -> tuple[str, ...]:
    """Names of the shipped configurations, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_config(name_or_path: str | Path) -> TrainingConfig:
    """Reads a shipped configuration by name, or any by path.

    A scenario file is looked for beside the configuration first.

    Args:
        name_or_path: A name out of `config_names`, or a path ending in `.yaml` or `.yml`.

    Raises:
        ConfigError: No such configuration, or a malformed one: one line with file, key and what
            would be right.
    """
    name = str(name_or_path)
    path = _FOLDER / f"{name}.yaml" if name in config_names() else Path(name_or_path)
    if path.suffix not in _SUFFIXES:
        near = difflib.get_close_matches(name, config_names(), n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"{name}: unknown configuration; {hint}shipped: {', '.join(config_names())};"
            f" or give a file ending in .yaml"
        )
    try:
        content = read_yaml(path)
    except ScenarioError as error:
        raise ConfigError(str(error)) from error
    is_tuned = isinstance(content, dict) and content.get("advisors") == _TUNED
    if is_tuned:
        del content["advisors"]
    config = parse_config(_with_floats(content), where=path.name)
    names = tuple(_beside(path, name) for name in config.scenarios)
    return replace(config, scenarios=names, advisors=_tuned(names) if is_tuned else config.advisors)


def to_yaml(content: TrainingConfig | Scenario | Sequence[Scenario]) -> str:
    """A configuration, a scenario or a list of them as a YAML file, defaults written out."""
    plain = [asdict(one) for one in content] if isinstance(content, Sequence) else asdict(content)
    text: str = yaml.safe_dump(_plain(plain), sort_keys=False, allow_unicode=True)
    return text


def flat(config: TrainingConfig) -> dict[str, str]:
    """Every key with its value as text, nested ones joined by a dot, without unused parts."""
    content = asdict(config)
    del content["dqn" if config.algo == "ppo" else "ppo"]
    if config.general_advisor is None:
        del content["advisor"]
    own = content.pop("advisors")
    if own and config.general_advisor is not None:  # hundreds of numbers, which no table is to show
        content["advisors"] = f"{len(own)} scenarios: {json_digest(own)[:12]}"
    return {name: str(value) for name, value in _leaves(content)}


def _leaves(content: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no mapping, with its path."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _with_floats(value: object) -> object:
    """Reads `5e-4` as the number that is meant; YAML 1.1 takes it for text and wants `5.0e-4`."""
    if isinstance(value, dict):
        return {key: _with_floats(entry) for key, entry in value.items()}
    if isinstance(value, str) and _EXPONENT_FORM.fullmatch(value):
        return float(value)
    return value


def _tuned(scenarios: Sequence[str]) -> dict[str, PlannerParams]:
    """The planner that ships for each scenario, tuned for steps of one, as a policy makes them.

    Raises:
        ScenarioError: No such scenario.
        ShippedSettingsError: Its settings cannot be used.
    """
    found: dict[str, PlannerParams] = {}
    for scenario in map(load_scenario, scenarios):
        settings = shipped_settings(scenario)
        if settings is None or _ADVISOR not in settings.controllers:
            continue
        params = settings.choice(_ADVISOR, scenario.name).params
        if isinstance(params, PlannerControllerParams):
            found[scenario.name] = params.planner
    return found


def _beside(path: Path, scenario: str) -> str:
    """A scenario file that lies beside the configuration, or else the name as it is."""
    beside = path.parent / scenario
    is_file = beside.suffix in _SUFFIXES and beside.is_file()
    return str(beside.resolve()) if is_file else scenario


def _plain(value: object) -> object:
    """Tuples as lists, which is what YAML has."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value
