"""Gateways of several sites, advised together and each by an advisor of its own site alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gatepilot.agents.baselines.planner.advisor import PlannerAdvisor
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.advice import Advice
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS, Rows

MIXES = np.array([[900, 2600, 1100, 150], [300, 5000, 800, 400], [4000, 9000, 4300, 40]], float)
"""Median and P95 of prompts, mean prompt and output: few, since each is solved anew by kind."""

_STRETCH = 45
"""Ticks: two cold starts of 300 s are 41."""


def random_rows(rng: np.random.Generator, n: int, absent: int = 0) -> Rows:
    """What n gateways may show in turmoil, with gaps; mostly with so many replicas absent."""
    rate = rng.uniform(0, 30, n) * rng.choice([0.0, 1.0, 1.0, 1.0], n)
    mix, requested = MIXES[rng.integers(0, len(MIXES), n)], rng.integers(1, 15, n)
    shown = {
        "replicas_requested": requested,
        "replicas_ready": requested - absent - (rng.random(n) < 0.02),
        "replicas_ejected": rng.choice([0, 0, 0, 1], n),
        "request_rate_rps": rate,
        "running": 3 * rate,
        "samples": 60 * rate,
        "prompt_tokens_p50": mix[:, 0],
        "prompt_tokens_p95": mix[:, 1],
        "prompt_token_rate_tps": rate * mix[:, 2],
        "output_token_rate_tps": rate * mix[:, 3],
        "waiting": rng.choice([0.0, 0.0, 0.0, 5.0, 200.0], n),
        "ttft_p95_s": rng.uniform(0.05, 3, n),
        "breaker_threshold": rng.uniform(0.05, 0.95, n),
        "replica_error_spread": rng.uniform(0, 0.2, n),
    }
    rows = np.full((n, len(FIELDS)), np.nan)
    for name, values in shown.items():
        rows[:, FIELD_INDEX[name]] = values
    rows[rng.random(rows.shape) < 0.02] = np.nan
    return rows


@dataclass
class Neighbours:
    """One advisor of n gateways at several sites, as careful at each as that site's parameters say,
    and beside it one for each of them alone."""

    sites: Sequence[Site]
    params: Sequence[PlannerParams]
    n: int
    together: PlannerAdvisor = field(init=False)
    alone: list[PlannerAdvisor] = field(init=False)

    def __post_init__(self) -> None:
        self.together = PlannerAdvisor(self.sites, self.params, self.n)
        self.alone = [self._alone(0) for _ in range(self.n)]

    def begin(self, rng: np.random.Generator, k: int) -> None:
        """k gateways begin anew, each at another place than before or at the same one."""
        which, places = rng.permutation(self.n)[:k], rng.integers(0, len(self.sites), k)
        rows = random_rows(rng, k)
        begun = self.together.begin(which, rows, places)
        for j, i in enumerate(which.tolist()):
            self.alone[i] = self._alone(int(places[j]))
            own = self.alone[i].begin(np.array([0]), rows[j : j + 1])
            np.testing.assert_array_equal(begun[j], own[0])

    def _alone(self, place: int) -> PlannerAdvisor:
        return PlannerAdvisor([self.sites[place]], self.params[place])

    def copy_one(self, rng: np.random.Generator) -> None:
        """A gateway becomes what another is, wherever the two stand."""
        source, target = rng.permutation(self.n)[:2]
        self.together.copy_rows(np.array([source]), np.array([target]))
        self.alone[target] = copy.deepcopy(self.alone[source])

    def move_over(self) -> None:
        """Another advisor takes over: one half is copied, one half read from what is written."""
        half = np.arange(self.n // 2)
        restored, copied = (PlannerAdvisor(self.sites, self.params, self.n) for _ in range(2))
        restored.restore(json.loads(json.dumps(self.together.saved(), allow_nan=False)))
        copied.copy_rows(half, half, self.together)
        copied.copy_rows(np.arange(len(half), self.n), np.arange(len(half), self.n), restored)
        self.together = copied

    def advise(self, rng: np.random.Generator, absent: int) -> Advice:
        """One tick: the same advice to the bit, together and alone."""
        rows = random_rows(rng, self.n, absent)
        advice = self.together.advise(rows)
        own = [one.advise(rows[i : i + 1]) for i, one in enumerate(self.alone)]
        np.testing.assert_array_equal(advice, np.concatenate(own))
        return advice


def live(neighbours: Neighbours, ticks: int, seed: int) -> Advice:
    """So many ticks, in which gateways move, begin anew, are copied and taken over.

    Every other stretch a replica is absent, for longer than one is waited for anywhere.

    Returns:
        All advice, `(ticks, n, A)`.
    """
    rng, found = np.random.default_rng(seed), []
    neighbours.begin(rng, neighbours.n)
    for tick in range(ticks):
        found.append(neighbours.advise(rng, tick // _STRETCH % 2))
        if rng.random() < 0.04:
            neighbours.begin(rng, int(rng.integers(1, 3)))
        if rng.random() < 0.1:
            neighbours.copy_one(rng)
        if tick == ticks // 2:
            neighbours.move_over()
    return np.stack(found)
