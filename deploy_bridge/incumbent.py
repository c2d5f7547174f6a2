"""The controller beside the policy: made from the configuration, or again from a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..agents.baselines.registry import ControllerError, make_controller, params_type
from ..agents.baselines.site import ReplicaSpec, Site, SiteError
from ..agents.policy import Controller as Incumbent
from ..envs.profiles.keys import ProfileError
from ..envs.profiles.profile import load_profile
from ..envs.profiles.step import StepModel
from .errors import SettingsError
from .parameters import parsed
from .settings import IncumbentSection, ReplicaSection


def known_replica(section: ReplicaSection | None, file: str) -> ReplicaSpec | None:
    """What one replica can do, with the profile's figures filled in.

    Args:
        section: As configured; `None`: not known.
        file: The file's name, for errors.

    Raises:
        SettingsError: There is no such profile.
    """
    if section is None:
        return None
    try:
        profile = load_profile(section.profile)
    except ProfileError as error:
        raise SettingsError(f"{file}: incumbent.replica.profile: {error}") from error
    cold_start_s, kv_tokens = section.cold_start_s, section.kv_capacity_tokens
    return ReplicaSpec(
        step=profile.step,
        cold_start_s=profile.cold_start_s if cold_start_s is None else cold_start_s,
        max_num_seqs=section.max_num_seqs,
        chunk_tokens=section.chunk_tokens,
        kv_capacity_tokens=profile.kv_capacity_tokens if kv_tokens is None else kv_tokens,
    )


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
        raise SettingsError(f"{file}: incumbent.replica: {error}") from error


def recorded_incumbent(identity: Mapping[str, Any], site: Site) -> Incumbent:
    """The controller of a recorded identity.

    Raises:
        SettingsError: It does not exist in this version.
    """
    return make_incumbent(IncumbentSection(**identity["incumbent"]), site, "ledger")


def replica_content(replica: ReplicaSpec | None) -> dict[str, Any] | None:
    """A replica as plain content: figures, so that a replay needs no catalogue."""
    return None if replica is None else asdict(replica)


def recorded_replica(content: Mapping[str, Any] | None) -> ReplicaSpec | None:
    """The inverse of `replica_content`."""
    if content is None:
        return None
    return ReplicaSpec(**{**content, "step": StepModel(**content["step"])})
