"""YAML maps onto the configuration one to one; what is wrong is said in one line."""

from dataclasses import asdict
from typing import Any

import pytest

from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.config import ConfigError, TrainingConfig, parse_config, replaced
from gatepilot.envs.schema.observation import ObservationSpec

MINIMAL: dict[str, Any] = {"name": "x", "scenarios": ["demo"]}


def test_defaults_are_the_recipe() -> None:
    config = parse_config(MINIMAL, where="x.yaml")
    assert config == TrainingConfig("x", ("demo",))
    assert config.n_envs * config.ppo.n_steps == 8192
    assert config.observation_spec == ObservationSpec("advised", 1)
    assert config.general_advisor == PlannerParams()
    assert parse_config(asdict(config), where="x.yaml") == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algo": "sac"}, r"x.yaml: algo: 'sac'.*'ppo' or 'dqn'"),
        ({"ppo": {"gama": 0.9}}, "x.yaml: ppo.gama: unknown key; did you mean gamma?"),
        ({"colour": "red"}, "x.yaml: colour: unknown key; known: name, scenario"),
        ({"steps": -5}, "x.yaml: steps: -5"),
        ({"steps": "8"}, "x.yaml: steps: '8'"),
        ({"n_envs": True}, "x.yaml: n_envs: True"),
        ({"seed": -1}, "x.yaml: seed: -1"),
        ({"observation": "full"}, "x.yaml: observation: 'full'"),
        ({"frame_stack": 0}, "x.yaml: frame_stack: 0"),
        ({"reward_scale": 0}, "x.yaml: reward_scale: 0"),
        ({"ppo": {"gamma": 1.5}}, "x.yaml: ppo.gamma: 1.5"),
        ({"ppo": {"hidden": [64, 0]}}, "x.yaml: ppo.hidden.1: 0"),
        ({"ppo": {"batch_size": 500}}, r"x.yaml: ppo.batch_size: 500 must divide.*\(8192\)"),
        ({"ppo": {"batch_size": 1}}, "x.yaml: ppo.batch_size: 1"),
        ({"ppo": {"twins": 5}}, r"x.yaml: ppo.twins: 5 must divide n_envs \(64\)"),
        (
            {"ppo": {"twins": 2, "twin_leans": [1.0, 0.0]}},
            "x.yaml: ppo.twins: 2 must be a multiple of 4 where ppo.twin_leans is not 0",
        ),
        ({"ppo": {"twin_leans": [-1.0, 0.0]}}, "x.yaml: ppo.twin_leans.0: -1"),
        ({"advisors": {"demo": {"reserve": -1}}}, "reserve is -1, expected 0 or more"),
        ({"ppo": {"gae_lambda": 0.9}}, "x.yaml: ppo.gae_lambda: 0.9"),
        ({"ppo": {"gae_lambda": [0.9, 1.1]}}, "x.yaml: ppo.gae_lambda.1: 1.1"),
        ({"ppo": {"entropy_coef_end": "low"}}, "x.yaml: ppo.entropy_coef_end: 'low'"),
        ({"ppo": {"advice_logits": [2.5]}}, "x.yaml: ppo.advice_logits.1"),
        ({"stretch_ticks": 0}, "x.yaml: stretch_ticks: 0"),
        ({"dqn": {"n_steps": 0}}, "x.yaml: dqn.n_steps: 0"),
        ({"dqn": {"exploration_fraction": 0}}, "x.yaml: dqn.exploration_fraction: 0"),
        ({"validation": {"windows": 0}}, "x.yaml: validation.windows: 0"),
        ({"ppo": 3}, "x.yaml: ppo: 3"),
        (
            {"advisor": {"headrooms": 1.0}},
            "x.yaml: advisor.headrooms: unknown key; did you mean head",
        ),
        ({"advisor": {"forecast": {"dampings": 1.0}}}, "advisor.forecast.dampings: unknown key"),
        (
            {"advisor": {"headroom": 0}},
            "x.yaml: advisor.headroom is 0.0, expected a number above 0",
        ),
        ({"advisor": {"hold_ticks": 1.5}}, "x.yaml: advisor.hold_ticks: 1.5"),
        ({"learning_rate": float("nan")}, "x.yaml: learning_rate: unknown key"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_config(MINIMAL | changes, where="x.yaml")
    assert len(str(caught.value).splitlines()) == 1


def test_missing_keys_and_no_keys_at_all() -> None:
    with pytest.raises(ConfigError, match=r"x\.yaml: scenarios: missing"):
        parse_config({"name": "x"}, where="x.yaml")
    with pytest.raises(ConfigError, match=r"x\.yaml: expected keys and values"):
        parse_config(["name"], where="x.yaml")


def test_the_entropy_bonus_becomes_a_price() -> None:
    plain = parse_config(MINIMAL | {"ppo": {"entropy_coef": 0.004}}, where="x.yaml").ppo
    assert [plain.entropy_coef_at(share) for share in (0.0, 0.5, 1.0)] == [0.004] * 3
    falling = parse_config(
        MINIMAL | {"ppo": {"entropy_coef": 0.004, "entropy_coef_end": -0.004}}, where="x.yaml"
    ).ppo
    found = [falling.entropy_coef_at(share) for share in (0.0, 0.25, 0.5, 1.0)]
    assert found == pytest.approx([0.004, 0.002, 0.0, -0.004])


def test_batch_size_matters_to_ppo_alone() -> None:
    config = parse_config(MINIMAL | {"algo": "dqn", "ppo": {"batch_size": 500}}, where="x.yaml")
    assert config.algo == "dqn"


def test_who_is_not_advised_is_bound_to_no_advisor() -> None:
    changes = {"observation": "extended", "advisor": {"reserve": 2}}
    config = parse_config(MINIMAL | changes, where="x.yaml")
    assert config.general_advisor is None
    advised = parse_config(MINIMAL | {"advisor": {"reserve": 2}}, where="x.yaml")
    assert advised.general_advisor == PlannerParams(reserve=2)


def test_scenarios_may_have_advisors_of_their_own() -> None:
    careful, own = PlannerParams(reserve=2), PlannerParams(reserve=3)
    changes: dict[str, Any] = {"advisor": {"reserve": 2}, "advisors": {"busy": {"reserve": 3}}}
    config = parse_config(MINIMAL | changes, where="x.yaml")
    assert config.advisors_of(["calm", "busy"]) == [careful, own]
    blind = parse_config(MINIMAL | changes | {"observation": "extended"}, where="x.yaml")
    assert blind.advisors_of(["calm", "busy"]) is None


def test_replaced_checks_and_leaves_none_alone() -> None:
    config = parse_config(MINIMAL, where="x.yaml")
    assert replaced(config, where="command line", seed=0, steps=None).steps == config.steps
    assert replaced(config, where="command line", seed=7).seed == 7
    with pytest.raises(ConfigError, match="command line: steps: 0"):
        replaced(config, where="command line", steps=0)
