"""A small scenario to play on. The base install, which tests the baselines, imports this too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gatepilot.envs.scenario import Scenario


@pytest.fixture(scope="session")
def small() -> Scenario:
    """A few hours of a shipped model on one to six small replicas."""
    from gatepilot.envs.scenario import (  # noqa: PLC0415  # reads traces, which needs pyarrow
        ClusterSpec,
        Scenario,
        Splits,
        WorkloadSpec,
    )

    return Scenario(
        name="small",
        workload=WorkloadSpec(
            model="servegen-tenants", max_prompt_tokens=5000, from_s=30_000.0, to_s=60_000.0
        ),
        profile="llama-3.1-8b-bf16-l40s-tp1-vllm-kernel",
        cluster=ClusterSpec(max_replicas=6),
        splits=Splits(
            train=(30_000.0, 36_000.0), validation=(36_000.0, 38_400.0), test=(40_000.0, 55_000.0)
        ),
    )
