"""Controllers by name: `hpa`, or `hpa@unit` for the same one at one step a tick."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, Protocol, Self

from ..policy import Controller
from .adaptive_limiter import AdaptiveLimiterParams
from .aibrix_apa import AibrixApaParams
from .aibrix_kpa import AibrixKpaParams
from .always_max import AlwaysMaxParams
from .always_open import AlwaysOpenParams
from .always_shed import AlwaysShedParams
from .composite_score import CompositeScoreParams
from .composite_score_mended import CompositeScoreMendedParams
from .do_nothing import DoNothingParams
from .dynamic_batch import DynamicBatchParams
from .dynamo_load import DynamoLoadParams
from .dynamo_throughput import DynamoThroughputParams
from .envoy_gradient import EnvoyGradientParams
from .failure_breaker import FailureBreakerParams
from .fixed import FixedParams
from .held_threshold import HeldThreshold
from .hpa import HpaParams
from .keda import KedaParams
from .knative_kpa import KnativeKpaParams
from .litellm import LitellmParams
from .netflix_aimd import NetflixAimdParams
from .netflix_gradient2 import NetflixGradient2Params
from .netflix_vegas import NetflixVegasParams
from .planner.controller import PlannerControllerParams
from .random import RandomParams
from .ray_serve import RayServeParams
from .resilience4j import Resilience4jParams
from .self_healing import SelfHealingParams
from .sentinel_bbr import SentinelBbrParams
from .site import Site, Suggest
from .token_breaker import TokenBreakerParams
from .unit import Unit
from .wva_queue import WvaQueueParams
from .wva_v1 import WvaV1Params
from .wva_v2 import WvaV2Params


class ControllerError(ValueError):
    """An unknown controller, or parameters of another one: one line."""


class ControllerParams(Protocol):
    """A frozen dataclass with a controller's parameters; every default is usable."""

    def make(self, site: Site, *, seed: int) -> Controller:
        """A fresh controller for one episode of one gateway.

        Raises:
            SiteError: It needs more than is known of the site.
        """
        ...

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> Self:
        """Parameters that a tuning search may try next; what asks for nothing has none to tune."""
        ...


BASELINES: Final[dict[str, type[ControllerParams]]] = {
    "adaptive_limiter": AdaptiveLimiterParams,
    "aibrix_apa": AibrixApaParams,
    "aibrix_kpa": AibrixKpaParams,
    "always_max": AlwaysMaxParams,
    "always_open": AlwaysOpenParams,
    "always_shed": AlwaysShedParams,
    "composite_score": CompositeScoreParams,
    "composite_score_mended": CompositeScoreMendedParams,
    "do_nothing": DoNothingParams,
    "dynamic_batch": DynamicBatchParams,
    "dynamo_load": DynamoLoadParams,
    "dynamo_throughput": DynamoThroughputParams,
    "envoy_gradient": EnvoyGradientParams,
    "failure_breaker": FailureBreakerParams,
    "fixed": FixedParams,
    "hpa": HpaParams,
    "keda": KedaParams,
    "knative_kpa": KnativeKpaParams,
    "litellm": LitellmParams,
    "netflix_aimd": NetflixAimdParams,
    "netflix_gradient2": NetflixGradient2Params,
    "netflix_vegas": NetflixVegasParams,
    "planner": PlannerControllerParams,
    "random": RandomParams,
    "ray_serve": RayServeParams,
    "resilience4j": Resilience4jParams,
    "self_healing": SelfHealingParams,
    "sentinel_bbr": SentinelBbrParams,
    "token_breaker": TokenBreakerParams,
    "wva_queue": WvaQueueParams,
    "wva_v1": WvaV1Params,
    "wva_v2": WvaV2Params,
}
"""Name to parameters."""

THRESHOLD_RULES: Final = frozenset({"always_open", "fixed", "litellm", "planner", "random"})
"""Those that set the breaker's threshold themselves; the others leave it alone."""

REPLICA_KEEPERS: Final = frozenset(
    {
        *("adaptive_limiter", "dynamic_batch", "envoy_gradient", "failure_breaker", "litellm"),
        *("netflix_aimd", "netflix_gradient2", "netflix_vegas", "resilience4j", "sentinel_bbr"),
        *("always_open", "do_nothing", "token_breaker"),
    }
)
"""Those that leave the replicas alone: restricting their steps changes next to nothing."""

UNIT_SUFFIX: Final = "@unit"
"""Asks for the controller restricted to steps of one."""


def controller_names() -> tuple[str, ...]:
    """Every known name, sorted, without suffix."""
    return tuple(sorted(BASELINES))


def params_type(name: str) -> type[ControllerParams]:
    """The parameters of a controller; `name` may carry the suffix.

    Raises:
        ControllerError: An unknown name: the message lists near matches, or all names.
    """
    bare = name.removesuffix(UNIT_SUFFIX)
    if bare not in BASELINES:
        near = get_close_matches(bare, BASELINES, n=3, cutoff=0.5) or controller_names()
        hint = ", ".join(near)
        msg = f"unknown controller {name!r}: did you mean {hint}? ({UNIT_SUFFIX} may follow)"
        raise ControllerError(msg)
    return BASELINES[bare]


def make_controller(
    name: str,
    site: Site,
    *,
    params: ControllerParams | None = None,
    threshold_steps: int | None = None,
    seed: int = 0,
) -> Controller:
    """Makes a controller for one episode of one gateway.

    Args:
        name: A name of `BASELINES`, with `@unit` for steps of one.
        site: What is known of the cluster.
        params: The controller's parameters; `None`: its defaults.
        threshold_steps: Breaker threshold held beside a controller that leaves it alone; `None`:
            left alone.
        seed: For the controllers that draw.

    Raises:
        ControllerError: An unknown name, parameters of another controller, or a threshold for one
            that sets it itself.
        SiteError: It needs more than is known of the site.
    """
    expected = params_type(name)
    chosen = expected() if params is None else params
    if not isinstance(chosen, expected):
        msg = f"controller {name!r} takes {expected.__name__}, got {type(chosen).__name__}"
        raise ControllerError(msg)
    controller = chosen.make(site, seed=seed)
    if threshold_steps is not None:
        if name.removesuffix(UNIT_SUFFIX) in THRESHOLD_RULES:
            raise ControllerError(f"controller {name!r} sets the threshold itself")
        controller = HeldThreshold(controller, threshold_steps)
    return Unit(controller, site.limits) if name.endswith(UNIT_SUFFIX) else controller
