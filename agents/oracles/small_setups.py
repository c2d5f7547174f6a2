"""Set-ups small enough for the exact programme, each with a decision that is not obvious.

A quick replica (8B on one L40S) that is loaded in half a minute, ten ticks at most, three numbers
of replicas. One replica keeps its SLO up to about twelve of these requests a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...envs.scenario import (
    ClusterSpec,
    ControlSpec,
    FaultSpec,
    GatewaySpec,
    Scenario,
    WorkloadSpec,
)
from ...envs.workload.request import Requests
from ..trial import Trial
from ..windows import Window, WindowPlan

_PROFILE: Final = "llama-3.1-8b-bf16-l40s-tp1-vllm-kernel"
_COLD_START_S: Final = 30.0
_WARM_UP_TICKS: Final = 4
_PROMPT_TOKENS: Final = (300, 900)
_OUTPUT_TOKENS: Final = (30, 90)


@dataclass(frozen=True)
class SmallSetup:
    """A course of load, a range of replicas, and what goes wrong."""

    rates_rps: tuple[float, ...]
    """Arrivals a second in each tick."""
    replicas: tuple[int, int, int]
    """Fewest, most, and ready at the start."""
    threshold_steps: tuple[int, ...] = (10,)
    """Thresholds that may be set."""
    faults: tuple[FaultSpec, ...] = ()
    gateway: GatewaySpec = GatewaySpec()  # noqa: RUF009  # frozen

    def trial(self, ticks: int | None = None, seed: int = 1) -> Trial:
        """One window of it.

        Args:
            ticks: Its length; `None`: as many as there are rates.
            seed: Of arrivals, lengths and everything random in the plant.
        """
        ticks = len(self.rates_rps) if ticks is None else ticks
        fewest, most, first = self.replicas
        scenario = Scenario(
            name="small",
            workload=WorkloadSpec(model="azure-conv-2023"),
            profile=_PROFILE,
            cluster=ClusterSpec(fewest, most, first, cold_start_s=_COLD_START_S),
            gateway=self.gateway,
            control=ControlSpec(episode_ticks=len(self.rates_rps)),
            faults=self.faults,
        )
        tick_s = scenario.control.tick_s
        start_s = _WARM_UP_TICKS * tick_s
        window = Window(index=0, round=0, position=0, start_s=start_s, seed=seed)
        rates_rps = self.rates_rps[:1] * _WARM_UP_TICKS + self.rates_rps
        plan = WindowPlan((window,), fitting=1, request_seeds=(seed,), asked=None)
        return Trial(scenario, None, ticks, plan, (_requests(rates_rps, tick_s, seed),))


def _requests(rates_rps: tuple[float, ...], tick_s: float, seed: int) -> Requests:
    """As many arrivals in each tick as its rate says, at random instants."""
    rng = np.random.default_rng(seed)
    arrivals_s = [
        np.sort(rng.uniform(tick * tick_s, (tick + 1) * tick_s, round(rate_rps * tick_s)))
        for tick, rate_rps in enumerate(rates_rps)
    ]
    n = sum(map(len, arrivals_s))
    return Requests(
        np.concatenate(arrivals_s),
        rng.integers(*_PROMPT_TOKENS, n).astype(np.int32),
        rng.integers(*_OUTPUT_TOKENS, n).astype(np.int32),
        len(rates_rps) * tick_s,
    )


SMALL_SETUPS: Final[dict[str, SmallSetup]] = {
    "ramp": SmallSetup((6, 6, 6, 12, 20, 28, 34, 34, 34, 34), (1, 3, 1)),
    "burst": SmallSetup((8, 8, 8, 30, 30, 8, 8, 8, 8, 8), (1, 3, 1)),
    "lull": SmallSetup((30, 30, 8, 8, 8, 8, 8, 30, 30, 30), (1, 3, 3)),
    "six to eight": SmallSetup((60, 60, 60, 75, 75, 75, 90, 90, 90, 90), (6, 8, 6)),
    "a bad replica": SmallSetup(
        (22,) * 8,
        (2, 4, 2),
        (4, 10, 19),
        (FaultSpec("replica_errors", 75.0, start_s=30.0, error_share=(0.5, 0.5)),),
        GatewaySpec(max_retries=0),
    ),
    "opposite cures": SmallSetup(
        (34,) * 8,
        (3, 5, 4),
        (1, 10, 19),
        (
            FaultSpec(
                "sick_replica", 45.0, start_s=15.0, error_share=(0.1, 0.1), factor=(4.0, 4.0)
            ),
            FaultSpec("brown_out", 30.0, start_s=75.0, error_share=(0.1, 0.1)),
        ),
        GatewaySpec(router="round_robin"),
    ),
}
"""By name. To wait with an order costs less until it is too late; a lull is too short to scale in;
a bad replica is to be ejected or to be replaced; ejecting cures one fault and worsens the other."""
