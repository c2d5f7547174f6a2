"""Gymnasium ids: importing this module registers them.

Gymnasium 1.x loads no plug-ins, so name the module: either import it first, or
`gymnasium.make("gatepilot.envs.registration:gatepilot/Gateway-v0")`. A version bump means that
the same seed and actions no longer give the same bytes.
"""

from __future__ import annotations

import gymnasium

gymnasium.register(
    "gatepilot/Gateway-v0",
    entry_point="gatepilot.envs.gateway_env:GatewayEnv",
    vector_entry_point="gatepilot.envs.vector_env:GatewayVectorEnv",
)
