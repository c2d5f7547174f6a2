"""The controller beside the policy: made from the configuration, or again from a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..agents.baselines.registry import ControllerError, make_controller, params_type
from ..agents.baselines.site import Site, SiteError
from ..agents.policy import Controller as Incumbent
from .errors import SettingsError
from .parameters import parsed
from .settings import IncumbentSection


def make_incumbent(section: IncumbentSection, site: Site, file: str) -> Incumbent:
    """A fresh controller.

    Args:
        section: Which one, with what parameters.
        site: Where it works.
        file: The file's name, for errors.

    Raises:
        SettingsError: There is none of that name, a parameter is wrong, or it needs to know more of
            the site: one line.
    """
    try:
        kind = params_type(section.controller)
        params = parsed(kind, section.params, file=file, section="incumbent.params")
        return make_controller(
            section.controller,
            site,
            params=params,
            threshold_steps=section.threshold_steps,
            seed=section.seed,
        )
    except ControllerError as error:
        raise SettingsError(f"{file}: incumbent.controller: {error}") from error
    except SiteError as error:
        raise SettingsError(f"{file}: replica: {error}") from error


def recorded_incumbent(identity: Mapping[str, Any], site: Site) -> Incumbent:
    """The controller of a recorded identity.

    Raises:
        SettingsError: It does not exist in this version.
    """
    return make_incumbent(IncumbentSection(**identity["incumbent"]), site, "ledger")
