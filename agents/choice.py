"""A controller with the settings it plays with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .baselines.registry import ControllerParams, make_controller, params_type
from .baselines.site import Site
from .policy import Controller


@dataclass(frozen=True)
class Choice:
    """A controller and its settings."""

    name: str
    """A name of the registry, with or without `@unit`."""
    params: ControllerParams
    """Its parameters."""
    threshold_steps: int | None = None
    """Breaker threshold held beside it, in steps of 0.05; `None`: left alone."""

    def make(self, site: Site, seed: int) -> Controller:
        """A fresh controller for one episode."""
        return make_controller(
            self.name,
            site,
            params=self.params,
            threshold_steps=self.threshold_steps,
            seed=seed,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as plain data."""
        content: dict[str, Any] = {"params": asdict(self.params)}  # type: ignore[call-overload]
        if self.threshold_steps is not None:
            content["threshold_steps"] = self.threshold_steps
        return content


def default_choice(name: str) -> Choice:
    """A controller with its upstream defaults.

    Raises:
        ControllerError: An unknown name.
    """
    return Choice(name, params_type(name)())
