"""Load-based planning of Dynamo: one replica up or down by what its engines report now.

Formula: easy mode compares the KV tokens in use and waited for with two thresholds, full mode
(`sla`) what a new request would meet with the targets: see `dynamo_load_rules`. Iteration times of
full mode are a regression over observed iterations, `dynamo_regression`, which needs no profile, or
a profile's, `dynamo_profile`: upstream takes the latter if it is told what is deployed.

Regimes of a look, every 5 s or every tick, whichever is longer:

- a report is missing, or easy mode does not know the KV capacity: hold;
- not all requested replicas ready: learn, and hold, however long that lasts;
- easy mode: set what it decides; without a decision hold, even below the minimum;
- full mode without a usable fit: hold;
- full mode else: at least what `floor`, a throughput-based planner that looks every time and plans
  every 180 s, last wanted (1 before its first plan), within the site's limits, which stand for
  `min_endpoint` and `max_gpu_budget`.

Version: ai-dynamo/dynamo, mid 2026 (1.3, 1.4), `components/src/dynamo/planner/`:
`core/{load_scaling,state_machine}.py`, `config/{defaults,planner_config}.py` (1ca60155, 1366ebb2);
what was read when stands in the modules named here. Constants: interval 5 s, target `throughput`,
TTFT 500 ms, ITL 50 ms, f 0.8, 64 samples, 5 to begin with, 16 cells. Easy mode has no floor:
upstream switches throughput-based scaling off there.

How a snapshot stands for reports: `dynamo_snapshot`; all ready replicas report the mean, so "any"
and "all" come to the same. Iterations upstream differ from each other; means over a window of like
requests lie nearly on one line, so the regression seldom has a usable plane and full mode then
holds. The model `profile` needs none.

Quirks kept: reports of idle replicas and of those that start count like any other; the floor can
lift a size only while full mode has an estimate; while a replica never becomes ready nothing moves,
not even when traffic stops (ai-dynamo/dynamo#14251; mended after this version).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .dynamo_capacity import Targets
from .dynamo_engine import EngineModel
from .dynamo_forward import EngineLimits, ForwardModel
from .dynamo_load_rules import EASY_THRESHOLDS, FullRule, KvThresholds, easy_size, full_size
from .dynamo_profile import ProfileModel
from .dynamo_regression import RegressionModel
from .dynamo_samples import SampleParams
from .dynamo_snapshot import forward_pass, is_settled, kv_use
from .dynamo_throughput import DynamoThroughput, DynamoThroughputParams, suggested_targets
from .look_back import whole_ticks
from .site import ReplicaSpec, Site, Suggest

Model = Literal["regression", "profile"]
"""Where full mode has iteration times from."""
Target = Literal["throughput", "latency", "load", "sla"]
"""`optimization_target`: easy mode with one of three pairs of thresholds, or full mode."""


@dataclass(frozen=True, slots=True)
class DynamoLoadParams:
    """What an operator sets."""

    target: Target = "throughput"
    """Easy mode (`throughput`, `latency`, `load`) or full mode (`sla`)."""
    interval_s: float = 5.0
    """Seconds between two looks (`load_adjustment_interval`)."""
    load: KvThresholds | None = None
    """`load` alone: when to act (`decode_scale_{up,down}_kv_rate` / 100); both count themselves."""
    targets: Targets = Targets()  # noqa: RUF009  # frozen
    """`sla` alone: what engines must keep."""
    down_sensitivity: float = 0.8
    """`sla` alone: share of a target that may be used up after a removal, 0-1
    (`load_scaling_down_sensitivity` / 100)."""
    model: Model = "regression"
    """`sla` alone: iteration times are learned, or the profile's, corrected (`aic_perf_model`)."""
    samples: SampleParams = SampleParams()  # noqa: RUF009  # frozen
    """`sla` alone: which observed iterations are kept."""
    floor: DynamoThroughputParams | None = None
    """`sla` alone: the throughput-based planner whose size is the least; `None`: off."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses.

        Raises:
            ValueError: An unknown target or model, an interval or a sensitivity out of range,
                thresholds without the target `load` or that without them, a floor in easy mode, or
                one that plans no less often than this looks.
        """
        if self.target not in get_args(Target):
            msg = f"target is {self.target!r}, expected one of {', '.join(get_args(Target))}"
            raise ValueError(msg)
        if self.model not in get_args(Model):
            raise ValueError(f"model is {self.model!r}, expected 'regression' or 'profile'")
        if not (math.isfinite(self.interval_s) and self.interval_s > 0):
            raise ValueError(f"interval_s is {self.interval_s}, expected a number above 0")
        if not 0 <= self.down_sensitivity <= 1:
            raise ValueError(f"down_sensitivity is {self.down_sensitivity}, expected 0-1")
        if (self.load is not None) != (self.target == "load"):
            msg = f"load is {self.load} for the target {self.target!r}: only 'load' takes it"
            raise ValueError(f"{msg}, and needs it")
        if self.floor is not None and self.target != "sla":
            raise ValueError(f"floor is for the target 'sla', got {self.target!r}")
        if self.floor is not None and self.interval_s >= self.floor.interval_s:
            msg = (
                f"interval_s is {self.interval_s}, expected less than the floor's "
                f"{self.floor.interval_s}"
            )
            raise ValueError(msg)

    def make(self, site: Site, *, seed: int) -> DynamoLoad:
        """A controller for one episode; the seed plays no part.

        Raises:
            SiteError: It is not known what a replica can do.
        """
        del seed
        return DynamoLoad(self, site, site.known_replica("dynamo_load"))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> DynamoLoadParams:
        """The target and what it needs."""
        del site
        target: Target = suggest.suggest_categorical("target", list(get_args(Target)))
        if target == "load":
            up = suggest.suggest_float("up", 0.05, 2.0, log=True)
            down_share = suggest.suggest_float("down_share", 0.05, 0.9)
            return cls(target, load=KvThresholds(up, up * down_share, is_inclusive=True))
        if target != "sla":
            return cls(target)
        targets = suggested_targets(suggest)
        has_floor = suggest.suggest_categorical("has_floor", [False, True])
        return cls(
            target,
            targets=targets,
            down_sensitivity=suggest.suggest_float("down_sensitivity", 0.3, 1.0),
            model=suggest.suggest_categorical("model", list(get_args(Model))),
            floor=DynamoThroughputParams(targets=targets) if has_floor else None,
        )


@dataclass(slots=True)
class DynamoLoad:
    """The controller; one instance an episode. Moves replicas only."""

    params: DynamoLoadParams
    site: Site
    spec: ReplicaSpec
    """What a replica can do."""
    engine: EngineModel = field(init=False)
    """Full mode: what is learned of replicas."""
    floor: DynamoThroughput | None = field(init=False)
    least: int = 1
    """What the floor last wanted."""
    ticks: int = 0
    """Ticks so far."""

    def __post_init__(self) -> None:
        """Starts without a history."""
        samples, floor = self.params.samples, self.params.floor
        forward: ForwardModel = RegressionModel(samples)
        if self.params.model == "profile":
            forward = ProfileModel(samples, self.spec.step, EngineLimits.of(self.spec))
        self.engine = EngineModel(forward, self.spec.chunk_tokens, samples.max_samples)
        self.floor = None if floor is None else DynamoThroughput(floor, self.site, self.spec)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Decides when a look is due, else holds."""
        if self.floor is not None:
            planned = self.floor.planned(snapshot)
            self.least = self.least if planned is None else planned
        tick = self.ticks
        self.ticks += 1
        if tick % whole_ticks(self.params.interval_s, self.site.tick_s):
            return settings
        full = self.params.target == "sla"
        wanted = self._full(snapshot, settings) if full else self._easy(snapshot, settings)
        if wanted is None:
            return settings
        size = self.site.limits.clip(wanted)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return {
            "ticks": self.ticks,
            "least": self.least,
            "engine": self.engine.saved(),
            "floor": None if self.floor is None else self.floor.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.ticks, self.least = saved["ticks"], saved["least"]
        self.engine.restore(saved["engine"])
        if self.floor is not None:
            self.floor.restore(saved["floor"])

    def _easy(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> int | None:
        use = kv_use(snapshot, self.site.window_s, self.spec.kv_capacity_tokens)
        if use is None or not is_settled(snapshot, settings):
            return None
        thresholds = self.params.load or EASY_THRESHOLDS[self.params.target]
        return easy_size([use], settings.replicas, thresholds)

    def _full(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> int | None:
        report = forward_pass(snapshot, self.site.window_s, self.spec.kv_capacity_tokens)
        if report is None or snapshot.replicas_ready is None:
            return None
        self.engine.observe(report, round(snapshot.replicas_ready))
        if not is_settled(snapshot, settings):
            return None
        rule = FullRule(
            self.params.targets, self.params.down_sensitivity, self.spec.kv_capacity_tokens
        )
        wanted = full_size(self.engine, [report], settings.replicas, rule)
        return None if wanted is None else max(wanted, self.least)
