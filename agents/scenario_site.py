"""What a controller may know of a scenario: what its operator would."""

from __future__ import annotations

from ..envs.episodes import engine_params
from ..envs.profiles.profile import load_profile
from ..envs.scenario import Scenario
from ..envs.schema.settings import Limits
from ..reward.slo import Slo
from .baselines.site import ReplicaSpec, Site


def scenario_site(scenario: Scenario) -> Site:
    """Limits, rhythm and replicas of a scenario; nothing of its traffic and its faults."""
    cluster = scenario.cluster
    return Site(
        limits=Limits(cluster.min_replicas, cluster.max_replicas),
        tick_s=scenario.control.tick_s,
        window_s=scenario.telemetry.window_s,
        slo=Slo(),
        replica=ReplicaSpec(
            step=load_profile(scenario.profile).step,
            cold_start_s=engine_params(scenario).cold_start_s,
            max_num_seqs=cluster.max_num_seqs,
            chunk_tokens=cluster.chunk_tokens,
            kv_capacity_tokens=scenario.kv_capacity_tokens,
        ),
    )
