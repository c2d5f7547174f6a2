"""A small scenario to play on, and the compiled engine."""

import pytest

from gatepilot.envs.scenario import ClusterSpec, Scenario, Splits, WorkloadSpec
from gatepilot.envs.sim.engine import compile_engine


@pytest.fixture(scope="session")
def engine() -> None:
    """The engine, compiled: that takes a minute once, and is no test's time."""
    compile_engine()


@pytest.fixture(scope="session")
def small() -> Scenario:
    """A few hours of a shipped model on one to six small replicas."""
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
