"""What is known of the place, from the configuration or out of a ledger, and who advises there.

Control interval and window are the artifact's, and so is the advisor: only what a replica can do,
and how many there may be, is told to it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..agents.artifact.manifest import Manifest
from ..agents.baselines.planner.advisor import PlannerAdvisor, site_advisor
from ..agents.baselines.site import ReplicaSpec, Site, SiteError
from ..envs.profiles.keys import ProfileError
from ..envs.profiles.profile import load_profile
from ..envs.profiles.step import StepModel
from ..envs.schema.settings import Limits
from .errors import SettingsError
from .settings import ReplicaSection


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
        raise SettingsError(f"{file}: replica.profile: {error}") from error
    cold_start_s, kv_tokens = section.cold_start_s, section.kv_capacity_tokens
    return ReplicaSpec(
        step=profile.step,
        cold_start_s=profile.cold_start_s if cold_start_s is None else cold_start_s,
        max_num_seqs=section.max_num_seqs,
        chunk_tokens=section.chunk_tokens,
        kv_capacity_tokens=profile.kv_capacity_tokens if kv_tokens is None else kv_tokens,
    )


def replica_content(replica: ReplicaSpec | None) -> dict[str, Any] | None:
    """A replica as plain content: figures, so that a replay needs no catalogue."""
    return None if replica is None else asdict(replica)


def recorded_replica(content: Mapping[str, Any] | None) -> ReplicaSpec | None:
    """The inverse of `replica_content`."""
    if content is None:
        return None
    return ReplicaSpec(**{**content, "step": StepModel(**content["step"])})


def policy_site(limits: Limits, manifest: Manifest, replica: ReplicaSpec | None) -> Site:
    """What incumbent and advisor may know beside a policy."""
    contract = manifest.contract
    return Site(limits, contract["control_interval_s"], contract["window_s"], replica=replica)


def policy_advisor(site: Site, manifest: Manifest, file: str) -> PlannerAdvisor | None:
    """The advisor that a policy was trained with, at this place; `None`: it sees no advice.

    Args:
        site: What is known of the place.
        manifest: Of the policy.
        file: The configuration's name, for errors.

    Raises:
        SettingsError: What a replica can do is not known: it names the key.
    """
    try:
        return site_advisor([site], 1, manifest.advisor)
    except SiteError as error:
        msg = (
            f"{file}: replica: missing key: the artifact's policy is advised by a planner that "
            "needs to know what a replica can do; name its serving profile"
        )
        raise SettingsError(msg) from error


def other_facts(trained: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys, nested ones joined by a dot, whose values differ between two places."""
    differing: list[str] = []
    for key, value in here.items():
        before = trained.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            differing += [f"{key}.{inner}" for inner in other_facts(before, value)]
        elif value != before:
            differing.append(key)
    return tuple(differing)
