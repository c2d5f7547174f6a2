"""The simple controllers, the restriction to steps of one, and finding them by name."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError, asdict, is_dataclass, replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.hpa import Hpa, HpaParams
from gatepilot.agents.baselines.registry import (
    BASELINES,
    REPLICA_KEEPERS,
    THRESHOLD_RULES,
    controller_names,
    make_controller,
    params_type,
)
from gatepilot.agents.baselines.unit import Unit
from gatepilot.envs.schema.fields import FIELDS
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .looks import random_snapshot
from .suggesting import RandomSuggest, site

LIMITS = Limits(2, 12)
SITE = site(LIMITS)
START = GatewaySettings(4, 10)
NOTHING = MetricsSnapshot(replicas_requested=4, breaker_threshold=0.5)
READS_NOTHING = frozenset(
    {"always_max", "always_open", "always_shed", "do_nothing", "fixed", "random"}
)
BUSY = replace(
    NOTHING,
    replicas_ready=4,
    replicas_starting=0,
    cpu_utilization=1.0,
    error_rate=0.5,
    ttft_p95_s=30.0,
)


def after(name: str, settings: GatewaySettings = START) -> GatewaySettings:
    return make_controller(name, SITE).decide(BUSY, settings)


def test_the_names_are_the_agreed_ones() -> None:
    assert controller_names() == (
        "adaptive_limiter",
        "aibrix_apa",
        "aibrix_kpa",
        "always_max",
        "always_open",
        "always_shed",
        "composite_score",
        "composite_score_mended",
        "do_nothing",
        "dynamic_batch",
        "dynamo_load",
        "dynamo_throughput",
        "envoy_gradient",
        "failure_breaker",
        "fixed",
        "hpa",
        "keda",
        "knative_kpa",
        "litellm",
        "netflix_aimd",
        "netflix_gradient2",
        "netflix_vegas",
        "planner",
        "random",
        "ray_serve",
        "resilience4j",
        "self_healing",
        "sentinel_bbr",
        "token_breaker",
        "wva_queue",
        "wva_v1",
        "wva_v2",
    )


def test_what_the_constant_ones_set() -> None:
    assert after("do_nothing") is START
    assert after("always_max") == GatewaySettings(12, 10)
    assert after("always_open") == GatewaySettings(4, 1)
    assert after("always_shed") == GatewaySettings(2, 10, 0)


@pytest.mark.parametrize(
    ("params", "settings", "expected"),
    [
        (FixedParams(), GatewaySettings(5, 3), GatewaySettings(5, 10)),
        (FixedParams(7), START, GatewaySettings(7, 10)),
        (FixedParams(7, 19), GatewaySettings(4, 10, 50), GatewaySettings(7, 19, 50)),
        (FixedParams(40), START, GatewaySettings(12, 10)),
        (FixedParams(1), START, GatewaySettings(2, 10)),
    ],
)
def test_fixed(params: FixedParams, settings: GatewaySettings, expected: GatewaySettings) -> None:
    assert make_controller("fixed", SITE, params=params).decide(BUSY, settings) == expected


@pytest.mark.parametrize("name", controller_names())
def test_who_leaves_the_replicas_alone(name: str) -> None:
    generator = np.random.default_rng(0)
    looks = [random_snapshot(generator) for _ in range(100)]
    has_moved = False
    for seed in range(20):
        drawn = params_type(name).suggested(RandomSuggest(np.random.default_rng(seed)), SITE)
        controller = make_controller(name, SITE, params=drawn)
        sizes = {controller.decide(look, START).replicas for look in looks}
        has_moved |= sizes != {START.replicas}
    assert has_moved == (name not in REPLICA_KEEPERS)


def test_fixed_refuses_what_no_gateway_should_get() -> None:
    with pytest.raises(ValueError, match="replicas is -1"):
        FixedParams(-1)
    with pytest.raises(ValueError, match="threshold_steps is 0"):
        FixedParams(4, 0)


def test_fixed_may_be_tuned_to_every_allowed_size_and_threshold() -> None:
    suggest = RandomSuggest(np.random.default_rng(0))
    seen = set()
    for _ in range(1500):
        suggest.asked.clear()
        seen.add(FixedParams.suggested(suggest, SITE))
    assert {params.replicas for params in seen} == set(range(2, 13))
    assert {params.threshold_steps for params in seen} == set(range(1, 20))


def test_random_is_uniform_over_the_nine_actions_and_deterministic_in_its_seed() -> None:
    middle = GatewaySettings(6, 10)
    controller = make_controller("random", SITE, seed=3)
    seen = Counter(controller.decide(BUSY, middle) for _ in range(9000))
    assert len(seen) == 9
    assert all(abs(s.replicas - 6) <= 1 and abs(s.threshold_steps - 10) <= 1 for s in seen)
    assert min(seen.values()) > 850  # 1000 expected, standard deviation 30
    again = make_controller("random", SITE, seed=3)
    assert Counter(again.decide(BUSY, middle) for _ in range(9000)) == seen


def test_random_stays_within_the_bounds() -> None:
    controller, settings = make_controller("random", SITE, seed=0), START
    for _ in range(500):
        settings = controller.decide(BUSY, settings)
        assert LIMITS.clip(settings.replicas) == settings.replicas


# --- steps of one -------------------------------------------------------------------------------


def test_unit_moves_one_step_towards_what_the_inner_one_wants() -> None:
    assert after("always_max@unit") == GatewaySettings(5, 10)
    assert after("always_open@unit") == GatewaySettings(4, 9)
    assert after("always_shed@unit") == GatewaySettings(3, 10, 0)
    assert after("do_nothing@unit") == START
    assert after("hpa@unit") == GatewaySettings(5, 10)
    assert after("hpa") == GatewaySettings(5, 10)  # 100 % of 80 %: 1.25 x 4


def test_unit_keeps_the_bounds() -> None:
    assert after("always_max@unit", GatewaySettings(12, 10)) == GatewaySettings(12, 10)
    assert after("always_open@unit", GatewaySettings(4, 1)) == GatewaySettings(4, 1)


@pytest.mark.parametrize("name", controller_names())
def test_unit_never_moves_more_than_one_step(name: str) -> None:
    controller, settings = make_controller(f"{name}@unit", SITE, seed=1), GatewaySettings(7, 10)
    for tick in range(60):
        busy = replace(BUSY, cpu_utilization=0.1 * (tick % 15), replicas_ready=settings.replicas)
        following = controller.decide(busy, settings)
        assert abs(following.replicas - settings.replicas) <= 1
        assert abs(following.threshold_steps - settings.threshold_steps) <= 1
        settings = following


# --- by name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", controller_names())
def test_every_controller_holds_where_nothing_is_known(name: str) -> None:
    """What a rule reads is missing, so it does what it does without reading."""
    blind = make_controller(name, SITE, seed=5).decide(NOTHING, START)
    full = make_controller(name, SITE, seed=5).decide(BUSY, START)
    assert blind == (full if name in READS_NOTHING else START)


@pytest.mark.parametrize("name", controller_names())
def test_every_controller_makes_valid_settings_from_every_single_gap(name: str) -> None:
    everything = replace(BUSY, **{f.name: 1.0 for f in FIELDS if getattr(BUSY, f.name) is None})
    for field in FIELDS:
        if not field.nullable:
            continue
        controller = make_controller(name, SITE)
        gappy = replace(everything, **{field.name: None})  # type: ignore[arg-type]
        settings = controller.decide(gappy, START)
        assert LIMITS.clip(settings.replicas) == settings.replicas


@pytest.mark.parametrize("name", controller_names())
def test_parameters_are_frozen_and_hashable(name: str) -> None:
    kind = params_type(name)
    params = kind()
    assert is_dataclass(params)
    assert hash(params) == hash(kind())
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        setattr(params, "anything", 1)  # noqa: B010  # frozen means: not even so


@pytest.mark.parametrize("name", controller_names())
def test_whatever_is_suggested_decides_and_comes_back_from_plain_content(name: str) -> None:
    kind = params_type(name)
    adapter = TypeAdapter(kind)
    for seed in range(40):
        params = kind.suggested(RandomSuggest(np.random.default_rng(seed)), SITE)
        assert isinstance(params, kind)
        settings = make_controller(name, SITE, params=params).decide(BUSY, START)
        assert LIMITS.clip(settings.replicas) == settings.replicas
        content = json.dumps(asdict(params))  # type: ignore[call-overload]  # all dataclasses
        assert adapter.validate_json(content, strict=True) == params


@pytest.mark.parametrize("name", sorted(set(controller_names()) - THRESHOLD_RULES))
def test_a_threshold_is_held_beside_whoever_leaves_it_alone(name: str) -> None:
    alone = make_controller(name, SITE).decide(BUSY, START)
    assert alone.threshold_steps == START.threshold_steps
    held = make_controller(name, SITE, threshold_steps=4).decide(BUSY, START)
    assert held == replace(alone, threshold_steps=4)
    unit = make_controller(f"{name}@unit", SITE, threshold_steps=4).decide(BUSY, START)
    assert unit.threshold_steps == START.threshold_steps - 1


@pytest.mark.parametrize("name", sorted(THRESHOLD_RULES))
def test_no_threshold_is_held_beside_whoever_sets_it(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' sets the threshold itself"):
        make_controller(name, SITE, threshold_steps=4)


def test_every_call_makes_a_controller_with_a_state_of_its_own() -> None:
    first, second = make_controller("hpa", SITE), make_controller("hpa", SITE)
    assert isinstance(first, Hpa)
    assert isinstance(second, Hpa)
    first.decide(BUSY, START)
    assert second.state.ticks == 0
    assert not second.state.memory.recommendations


def test_parameters_and_tick_reach_the_controller() -> None:
    controller = make_controller("hpa@unit", site(LIMITS, 5.0), params=HpaParams(sync_s=30.0))
    assert isinstance(controller, Unit)
    assert isinstance(controller.inner, Hpa)
    assert (controller.inner.params.sync_s, controller.inner.tick_s) == (30.0, 5.0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("hpaa", "unknown controller 'hpaa': did you mean hpa"),
        ("alwaysmax@unit", "did you mean always_max"),
        (
            "zzz",
            "did you mean " + ", ".join(controller_names()),
        ),
        ("hpa@unitt", "unknown controller 'hpa@unitt'"),
        ("", "unknown controller ''"),
        ("@unit", "unknown controller '@unit'"),
        ("hpa@unit@unit", "unknown controller 'hpa@unit@unit'"),
    ],
)
def test_an_unknown_name_is_refused_with_near_matches(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        make_controller(name, SITE)


def test_parameters_of_another_controller_are_refused() -> None:
    with pytest.raises(ValueError, match="'fixed' takes FixedParams, got HpaParams"):
        make_controller("fixed", SITE, params=HpaParams())


def test_every_docstring_gives_formula_regimes_and_source() -> None:
    for kind in BASELINES.values():
        text = sys.modules[kind.__module__].__doc__ or ""
        assert "Formula:" in text
        assert "egime" in text
        assert "upstream" in text.lower() or "Version:" in text


def test_rules_need_neither_torch_nor_gymnasium_nor_numba() -> None:
    code = (
        "import sys, gatepilot.agents.baselines.registry, gatepilot.agents.policy,"
        " gatepilot.reward.documented, gatepilot.envs.schema.tables;"
        "heavy = {'torch', 'gymnasium', 'numba', 'stable_baselines3', 'mlflow', 'pandas'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    done = subprocess.run(  # noqa: S603  # the code above
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
