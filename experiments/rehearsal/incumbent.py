"""Who drives the gateway while the policy watches: a controller, as the bridge's file names it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...agents.baselines.registry import ControllerParams, make_controller, params_type
from ...agents.policy import Controller
from ...agents.trial import Trial
from ...deploy_bridge.parameters import parsed
from ...deploy_bridge.settings import IncumbentSection
from ...envs.scenario_file import read_yaml

_SECTION: Final = "incumbent"
_COMMAND_LINE: Final = "command line"


@dataclass(frozen=True)
class IncumbentChoice:
    """A controller with its parameters."""

    section: IncumbentSection
    """As it stands in a bridge's configuration, and in its ledger."""
    params: ControllerParams

    @property
    def name(self) -> str:
        """The controller's name."""
        return self.section.controller

    def made(self, trial: Trial) -> Controller:
        """A fresh one for a trial's gateway."""
        return make_controller(
            self.name,
            trial.site,
            params=self.params,
            threshold_steps=self.section.threshold_steps,
            seed=self.section.seed,
        )


def named_incumbent(
    name: str, params: dict[str, Any] | None = None, threshold_steps: int | None = None
) -> IncumbentChoice:
    """A controller by its name.

    Args:
        name: A name of `agents/baselines`, with `@unit` for steps of one.
        params: Its parameters as plain content; absent ones keep their defaults.
        threshold_steps: Breaker threshold held beside it; `None`: left alone.

    Raises:
        ControllerError: An unknown name.
        SettingsError: A parameter that it does not have, or a wrong value.
    """
    section = IncumbentSection(
        controller=name, params=params or {}, threshold_steps=threshold_steps
    )
    return _chosen(section, _COMMAND_LINE)


def parse_incumbent(text: str) -> IncumbentChoice:
    """Finds out who is meant on a command line.

    Args:
        text: A controller's name; or a YAML file with `controller`, `params`, `seed`, or with these
            under `incumbent`, as a bridge's configuration has them.

    Raises:
        ControllerError: An unknown name.
        ScenarioError: The file cannot be read.
        SettingsError: A wrong key or value: one line with file and key.
    """
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        return named_incumbent(text)
    content = read_yaml(path)
    if isinstance(content, dict):
        content = content.get(_SECTION, content)
    section = parsed(IncumbentSection, content, file=path.name, section=_SECTION)
    return _chosen(section, path.name)


def _chosen(section: IncumbentSection, file: str) -> IncumbentChoice:
    kind = params_type(section.controller)
    params = parsed(kind, section.params, file=file, section=f"{_SECTION}.params")
    return IncumbentChoice(section, params)
