"""Tuned settings that ship with the project, so that an evaluation need not look for them again.

One YAML file a scenario, in `agents/baselines/tuned`, made by `gatepilot tune`: who made it, for
what, and for each controller its parameters with what they achieve beside the upstream defaults.
They hold for the scenario as it was then: its digest stands in the file, and a scenario that has
changed since makes the file an error, never a silent mismatch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ..agents.baselines import tuned
from ..agents.baselines.registry import THRESHOLD_RULES, UNIT_SUFFIX, ControllerError, params_type
from ..agents.choice import Choice
from ..agents.digests import scenario_digest
from ..agents.tuning import Tuned
from ..deploy_bridge.errors import SettingsError
from ..deploy_bridge.parameters import parsed
from ..envs.scenario import Scenario, is_shipped
from ..envs.scenario_file import ScenarioError, first_problem, read_yaml, to_json
from ..envs.schema.settings import MAX_THRESHOLD_STEPS, MIN_THRESHOLD_STEPS
from .files import replacing

SHIPPED_DIR: Final = Path(str(tuned.__file__)).parent
"""Where the shipped files lie."""
FORMAT: Final = 1
_HEAD: Final = """\
# Settings of the controllers for the scenario {scenario}, chosen on its training range and held
# against the upstream defaults on its validation range. Made by `gatepilot tune` (see `commands`);
# `gatepilot evaluate` and `gatepilot leaderboard` play with them while the scenario is this one.
"""
_CONFIG: Final = ConfigDict(extra="forbid")


class ShippedSettingsError(ValueError):
    """A file of tuned settings that cannot be used: one line with file and key."""


@dataclass(frozen=True)
class TunedController:
    """One controller: its settings, and what they achieve as mean documented returns."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    params: dict[str, Any]
    """Its parameters, all of them, as plain content."""
    threshold_steps: int | None
    """Breaker threshold held beside it, in steps of 0.05; `None`: left alone."""
    trials: int
    """Sets of parameters that were tried."""
    train: float
    train_default: float
    """The upstream defaults on the same windows."""
    validation: float
    """Never below the next one: else the defaults stay."""
    validation_default: float


@dataclass(frozen=True)
class SettingsFile:
    """A file of tuned settings."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    format: int
    scenario: str
    """Name."""
    scenario_digest: str
    """Of the scenario and its profile as they were."""
    traffic: str
    """The trace or the model that the windows came from."""
    traffic_sha256: str
    ticks: int
    """Length of a window."""
    train_windows: int
    validation_windows: int
    commands: tuple[str, ...]
    """What made it; more than one where controllers came later."""
    controllers: dict[str, TunedController]
    """By name, with or without `@unit`."""

    @property
    def choices(self) -> dict[str, Choice]:
        """The settings of each controller, ready to play.

        Raises:
            ValueError: As in `read_settings`.
        """
        return {name: self.choice(name, self.scenario) for name in self.controllers}

    def choice(self, name: str, file: str) -> Choice:
        """The settings of one controller.

        Args:
            name: A key of `controllers`.
            file: What to name in errors.

        Raises:
            ControllerError: There is no such controller.
            SettingsError: Parameters that it does not have.
        """
        one = self.controllers[name]
        where = f"controllers.{name}.params"
        params = parsed(params_type(name), one.params, file=file, section=where)
        return Choice(name, params, one.threshold_steps)


def tuned_controller(found: Tuned) -> TunedController:
    """What a search has found, as it stands in a file."""
    settings = found.choice.settings
    return TunedController(
        params=_listed(settings["params"]),
        threshold_steps=found.choice.threshold_steps,
        trials=found.trials,
        train=found.train,
        train_default=found.train_default,
        validation=found.validation,
        validation_default=found.validation_default,
    )


def shipped_settings(scenario: Scenario) -> SettingsFile | None:
    """The file that ships for a scenario; `None`: there is none, or the scenario is not shipped.

    Raises:
        ShippedSettingsError: It cannot be used.
    """
    path = SHIPPED_DIR / f"{scenario.name}.yaml"
    if not is_shipped(scenario) or not path.is_file():
        return None
    return read_settings(path, scenario)


def read_settings(path: Path, scenario: Scenario) -> SettingsFile:
    """Reads a file of tuned settings, strictly.

    Args:
        path: The file.
        scenario: The scenario it must be about.

    Raises:
        ShippedSettingsError: It cannot be read, has unknown or missing keys, names a controller
            that there is none, has parameters that it does not have or figures that cannot be, or
            the scenario has changed since: one line with file and key.
    """
    file = path.name
    try:
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise ShippedSettingsError(f"{file}: expected keys and values")
        read = _adapter().validate_json(to_json(content), strict=True)
    except ScenarioError as error:
        raise ShippedSettingsError(str(error)) from error
    except ValidationError as error:
        raise ShippedSettingsError(f"{file}: {_problem(error)}") from error
    _check(read, file, scenario)
    for name, one in read.controllers.items():
        try:
            read.choice(name, file)
        except ControllerError as error:
            raise ShippedSettingsError(f"{file}: controllers.{name}: {error}") from error
        except SettingsError as error:
            raise ShippedSettingsError(str(error)) from error
        _check_controller(one, f"{file}: controllers.{name}", name)
    return read


def write_settings(path: Path, content: SettingsFile) -> None:
    """Writes a file of tuned settings, whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    text = yaml.safe_dump(_listed(asdict(content)), sort_keys=False, allow_unicode=True, width=100)
    with replacing(path) as temporary:
        temporary.write_text(_HEAD.format(scenario=content.scenario) + text, encoding="utf-8")


def _check(read: SettingsFile, file: str, scenario: Scenario) -> None:
    if read.format != FORMAT:
        raise ShippedSettingsError(f"{file}: format: {read.format}, expected {FORMAT}")
    if read.scenario != scenario.name:
        raise ShippedSettingsError(f"{file}: scenario: {read.scenario}, expected {scenario.name}")
    if read.scenario_digest != scenario_digest(scenario):
        made = read.commands[-1] if read.commands else "gatepilot tune"
        raise ShippedSettingsError(
            f"{file}: scenario_digest: {scenario.name} or its profile has changed since: tune it "
            f"again ({made})"
        )
    for key in ("ticks", "train_windows", "validation_windows"):
        if getattr(read, key) < 1:
            raise ShippedSettingsError(f"{file}: {key}: {getattr(read, key)}, expected 1 or more")


def _check_controller(one: TunedController, where: str, name: str) -> None:
    steps = one.threshold_steps
    if steps is not None and not MIN_THRESHOLD_STEPS <= steps <= MAX_THRESHOLD_STEPS:
        raise ShippedSettingsError(
            f"{where}.threshold_steps: {steps}, expected {MIN_THRESHOLD_STEPS} to "
            f"{MAX_THRESHOLD_STEPS}"
        )
    if steps is not None and name.removesuffix(UNIT_SUFFIX) in THRESHOLD_RULES:
        raise ShippedSettingsError(f"{where}.threshold_steps: {name} sets the threshold itself")
    if one.trials < 1:
        raise ShippedSettingsError(f"{where}.trials: {one.trials}, expected 1 or more")
    for key in ("train", "validation"):
        achieved, default = getattr(one, key), getattr(one, f"{key}_default")
        if not (math.isfinite(achieved) and math.isfinite(default) and achieved >= default):
            raise ShippedSettingsError(
                f"{where}.{key}: {achieved} is not at least what the defaults achieve ({default})"
            )


def _problem(error: ValidationError) -> str:
    """The first problem; names of controllers are keys of a mapping, which have no type."""
    problem = error.errors()[0]
    if problem["loc"][:1] == ("controllers",) and len(problem["loc"]) > 1:
        key = ".".join(map(str, problem["loc"]))
        unknown = problem["type"] == "unexpected_keyword_argument"
        return f"{key}: {'unknown key' if unknown else problem['msg']}"
    return first_problem(error, SettingsFile)


def _listed(value: Any) -> Any:  # noqa: ANN401
    """Tuples as lists, which is what YAML has."""
    if isinstance(value, dict):
        return {key: _listed(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_listed(entry) for entry in value]
    return value


@cache
def _adapter() -> TypeAdapter[SettingsFile]:
    """The checker of `SettingsFile`."""
    return TypeAdapter(SettingsFile)
