"""Controllers by name: `hpa`, or `hpa@unit` for the same one at one step a tick."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, Protocol, Self

from ...envs.schema.settings import Limits
from ..policy import Controller
from .always_max import AlwaysMaxParams
from .always_open import AlwaysOpenParams
from .always_shed import AlwaysShedParams
from .do_nothing import DoNothingParams
from .fixed import FixedParams
from .hpa import HpaParams
from .random import RandomParams
from .unit import Unit


class ControllerError(ValueError):
    """An unknown controller, or parameters of another one: one line."""


class ControllerParams(Protocol):
    """A frozen dataclass with a controller's parameters; every default is usable."""

    def make(self, limits: Limits, *, tick_s: float, seed: int) -> Controller:
        """A fresh controller for one episode of one gateway."""
        ...

    @classmethod
    def grid(cls, limits: Limits) -> tuple[Self, ...]:
        """The parameters that a tuning search may try under these limits."""
        ...


BASELINES: Final[dict[str, type[ControllerParams]]] = {
    "always_max": AlwaysMaxParams,
    "always_open": AlwaysOpenParams,
    "always_shed": AlwaysShedParams,
    "do_nothing": DoNothingParams,
    "fixed": FixedParams,
    "hpa": HpaParams,
    "random": RandomParams,
}
"""Name to parameters."""

UNIT_SUFFIX: Final = "@unit"
"""Asks for the controller restricted to steps of one."""


def controller_names() -> tuple[str, ...]:
    """Every known name, sorted, without suffix."""
    return tuple(sorted(BASELINES))


def params_type(name: str) -> type[ControllerParams]:
    """The parameters of a controller; `name` may carry the suffix.

    Raises:
        ControllerError: An unknown name: the message lists near matches, or all names.
    """
    bare = name.removesuffix(UNIT_SUFFIX)
    if bare not in BASELINES:
        near = get_close_matches(bare, BASELINES, n=3, cutoff=0.5) or controller_names()
        hint = ", ".join(near)
        msg = f"unknown controller {name!r}: did you mean {hint}? ({UNIT_SUFFIX} may follow)"
        raise ControllerError(msg)
    return BASELINES[bare]


def make_controller(
    name: str,
    limits: Limits,
    *,
    params: ControllerParams | None = None,
    tick_s: float = 15.0,
    seed: int = 0,
) -> Controller:
    """Makes a controller for one episode of one gateway.

    Args:
        name: A name of `BASELINES`, with `@unit` for steps of one.
        limits: Replica limits of the cluster.
        params: The controller's parameters; `None`: its defaults.
        tick_s: Seconds between two calls of `decide`.
        seed: For the controllers that draw.

    Raises:
        ControllerError: An unknown name, or parameters of another controller.
    """
    expected = params_type(name)
    chosen = expected() if params is None else params
    if not isinstance(chosen, expected):
        msg = f"controller {name!r} takes {expected.__name__}, got {type(chosen).__name__}"
        raise ControllerError(msg)
    controller = chosen.make(limits, tick_s=tick_s, seed=seed)
    return Unit(controller, limits) if name.endswith(UNIT_SUFFIX) else controller
