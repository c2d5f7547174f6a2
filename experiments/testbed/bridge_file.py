"""A configuration with which `gatepilot-bridge` can watch this testbed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import yaml

from ...agents.artifact.signing import PUBLIC_KEY_FILE, key_folder
from ...envs.profiles.profile import profile_ids
from .cluster_metrics import DEPLOYMENT, NAMESPACE
from .envoy_config import CLUSTER, CONN_MANAGER
from .layout import Layout
from .plan import Plan

_HEAD = """\
# Written by `gatepilot testbed up`, anew at each start: its ports change. Copy it before editing.
# The artifact is looked for beside this file: gatepilot export RUN -o THIS_FOLDER/artifact
# public_key is that of the key which export makes and signs with. For an artifact signed with
# --key FILE name that key's public half here; for an unsigned one say allow_unsigned: true.
"""
_NO_KEY = """\
# That key is not there yet: gatepilot export makes it.
"""


def bridge_yaml(plan: Plan, layout: Layout) -> str:
    """The bridge's configuration as YAML text.

    Args:
        plan: What runs.
        layout: Where it listens.
    """
    public_key = key_folder() / PUBLIC_KEY_FILE
    params, limits = plan.params, plan.scenario.cluster
    catalogue: dict[str, Any] = {
        "gateway_instance": layout.urls["envoy_admin"].removeprefix("http://"),
        "cluster": CLUSTER,
        "conn_manager": CONN_MANAGER,
        "model": plan.model,
        "namespace": NAMESPACE,
        "deployment": DEPLOYMENT,
    }
    for name in ("weights_gib", "kv_gib", "vram_gib"):
        value = getattr(params, name)
        if not math.isnan(value):
            catalogue[name] = round(value, 4)
    content = {
        "name": "testbed",
        "artifact": "artifact",
        "public_key": str(public_key),
        "state_dir": "state",
        "limits": {"min_replicas": limits.min_replicas, "max_replicas": limits.max_replicas},
        "prometheus": {"url": layout.urls["prometheus"]},
        "envoy_admin": {"url": layout.urls["envoy_admin"]},
        "catalogue": catalogue,
        "nvml": False,
        "replica": _replica(plan),
        "incumbent": {"controller": "hpa"},
        "serve": {"port": 0},
    }
    head = _HEAD if public_key.is_file() else _HEAD + _NO_KEY
    return head + yaml.safe_dump(content, sort_keys=False)


def _replica(plan: Plan) -> dict[str, Any]:
    """What one emulated replica can do."""
    profile, params = plan.scenario.profile, plan.params
    content = {
        "profile": profile if profile in profile_ids() else str(Path(profile).resolve()),
        "cold_start_s": params.cold_start_s,
        "max_num_seqs": params.max_num_seqs,
        "chunk_tokens": params.chunk_tokens,
        "kv_capacity_tokens": plan.scenario.kv_capacity_tokens,
    }
    return {key: value for key, value in content.items() if value is not None}
