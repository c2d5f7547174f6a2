"""Finds training configurations: shipped ones by name, others by path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import yaml

from ..agents.config import ConfigError, TrainingConfig, parse_config
from ..envs.scenario import Scenario
from ..envs.scenario_file import ScenarioError, read_yaml

_FOLDER: Final = Path(__file__).with_name("configs")
_SUFFIXES: Final = (".yaml", ".yml")
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
    config = parse_config(_with_floats(content), where=path.name)
    return replace(config, scenarios=tuple(_beside(path, name) for name in config.scenarios))


def to_yaml(content: TrainingConfig | Scenario | Sequence[Scenario]) -> str:
    """A configuration, a scenario or a list of them as a YAML file, defaults written out."""
    plain = [asdict(one) for one in content] if isinstance(content, Sequence) else asdict(content)
    text: str = yaml.safe_dump(_plain(plain), sort_keys=False, allow_unicode=True)
    return text


def flat(config: TrainingConfig) -> dict[str, str]:
    """Every key with its value as text, nested ones joined by a dot, without unused parts."""
    content = asdict(config)
    del content["dqn" if config.algo == "ppo" else "ppo"]
    if config.advisor_params is None:
        del content["advisor"]
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
