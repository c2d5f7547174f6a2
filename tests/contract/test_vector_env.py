"""The vector env's three ways to go on after an episode, as Gymnasium defines them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from gatepilot.envs.gateway_env import GatewayEnv
from gatepilot.envs.schema.observation import Preset
from gatepilot.envs.vector_env import GatewayVectorEnv

N = 3
TICKS = 4
HOLD = np.ones((N, 2), np.int64)
GROW = np.full((N, 2), 2)


def make(mode: AutoresetMode | str, ticks: int = TICKS) -> GatewayVectorEnv:
    return GatewayVectorEnv(N, episode_ticks=ticks, autoreset_mode=mode)


def first_observations(seed: int, episodes: int) -> list[bytes]:
    """What each episode of an env seeded so begins with."""
    envs = make(AutoresetMode.DISABLED)
    found = [envs.reset(seed=seed)[0].tobytes()]
    found += [envs.reset()[0].tobytes() for _ in range(episodes - 1)]
    return found


def test_the_mode_is_declared() -> None:
    assert make("NextStep").metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert GatewayVectorEnv(1).metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert "autoreset_mode" not in GatewayVectorEnv.metadata


def test_next_step_resets_in_the_following_call_whose_action_is_ignored() -> None:
    starts = first_observations(5, 2)
    for action in (HOLD, GROW):
        envs = make(AutoresetMode.NEXT_STEP)
        assert envs.reset(seed=5)[0].tobytes() == starts[0]
        for tick in range(TICKS):
            observations, _, terminated, truncated, _ = envs.step(HOLD)
            assert not terminated.any()
            assert truncated.tolist() == [tick == TICKS - 1] * N
        assert observations.tobytes() != starts[1]
        observations, rewards, _, truncated, infos = envs.step(action)
        assert observations.tobytes() == starts[1]
        assert rewards.tolist() == [0.0] * N
        assert not truncated.any()
        assert not infos["_arrived"].any()
        assert envs.batch.replicas.tolist() == [envs.batch.scenario.cluster.start_replicas] * N
        lengths = 0
        while not truncated.any():
            *_, truncated, infos = envs.step(HOLD)
            assert infos["_arrived"].all()
            lengths += 1
        assert lengths == TICKS


def test_next_step_with_episodes_of_one_tick() -> None:
    envs = make(AutoresetMode.NEXT_STEP, ticks=1)
    envs.reset(seed=0)
    flags = [bool(envs.step(HOLD)[3].all()) for _ in range(6)]
    assert flags == [True, False, True, False, True, False]


def test_same_step_resets_at_once_and_hands_the_last_observation_over() -> None:
    starts = first_observations(5, 2)
    plain = make(AutoresetMode.DISABLED)
    plain.reset(seed=5)
    envs = make(AutoresetMode.SAME_STEP)
    envs.reset(seed=5)
    for tick in range(TICKS):
        last = plain.step(GROW)
        observations, rewards, _, truncated, infos = envs.step(GROW)
        assert rewards.tolist() == last[1].tolist()
        assert ("final_obs" in infos) == (tick == TICKS - 1)
    assert truncated.all()
    assert observations.tobytes() == starts[1]
    assert infos["_final_obs"].all()
    assert np.stack(infos["final_obs"]).tobytes() == last[0].tobytes()
    assert infos["final_info"]["arrived"].tolist() == last[4]["arrived"].tolist()
    *_, truncated, infos = envs.step(HOLD)
    assert not truncated.any()
    assert "final_obs" not in infos


def test_disabled_waits_for_a_reset_of_those_that_are_over() -> None:
    envs = make(AutoresetMode.DISABLED)
    envs.reset(seed=5)
    envs.step(HOLD)
    mask = np.array([False, True, False])
    kept = envs.batch.seen.copy()
    observations, _ = envs.reset(options={"reset_mask": mask})
    assert (envs.batch.seen[~mask].tobytes()) == kept[~mask].tobytes()
    for _ in range(TICKS - 1):
        observations, _, _, truncated, _ = envs.step(HOLD)
    assert truncated.tolist() == [True, False, True]
    with pytest.raises(ValueError, match="an episode is over"):
        envs.step(HOLD)
    after, _ = envs.reset(options={"reset_mask": truncated})
    assert after[1].tobytes() == observations[1].tobytes()
    assert envs.step(HOLD)[3].tolist() == [False, True, False]


def test_seeds_by_row() -> None:
    envs = make(AutoresetMode.NEXT_STEP)
    by_list = envs.reset(seed=[7, 8, 9])[0]
    assert envs.reset(seed=7)[0].tobytes() == by_list.tobytes()
    mixed = envs.reset(seed=[7, None, 9])[0]
    assert mixed[0].tobytes() == by_list[0].tobytes()
    assert mixed[1].tobytes() != by_list[1].tobytes()
    unseeded = make(AutoresetMode.NEXT_STEP)
    assert unseeded.reset()[0].tobytes() != make(AutoresetMode.NEXT_STEP).reset()[0].tobytes()


def test_gymnasiums_wrappers_understand_it() -> None:
    envs = RecordEpisodeStatistics(make(AutoresetMode.NEXT_STEP))
    envs.reset(seed=0)
    returns = np.zeros(N)
    for _ in range(TICKS):
        _, rewards, _, _, infos = envs.step(HOLD)
        returns += rewards
    np.testing.assert_allclose(infos["episode"]["r"], returns)
    assert infos["episode"]["l"].tolist() == [TICKS] * N


def test_every_observation_lies_in_the_space() -> None:
    envs = make(AutoresetMode.SAME_STEP, ticks=30)
    observations, _ = envs.reset(seed=2)
    envs.action_space.seed(2)
    for _ in range(90):
        assert envs.observation_space.contains(observations)
        observations, rewards, *_ = envs.step(envs.action_space.sample())
        assert rewards.dtype == np.float64


def test_nothing_happens_before_the_first_reset_of_all() -> None:
    envs = make(AutoresetMode.DISABLED)
    with pytest.raises(ResetNeeded, match="gateway 0 was never reset"):
        envs.step(HOLD)
    with pytest.raises(ResetNeeded, match="gateway 1 was never reset"):
        envs.reset(options={"reset_mask": np.array([True, False, True])})


def test_seeds_of_every_form_are_the_same_seeds() -> None:
    envs = make(AutoresetMode.NEXT_STEP)
    first = envs.reset(seed=5)[0].tobytes()
    for seed in (np.int64(5), [5, 6, 7], np.array([5, 6, 7]), (np.int32(5), 6, np.uint8(7))):
        assert envs.reset(seed=seed)[0].tobytes() == first  # type: ignore[arg-type]
    for wrong in ([5, 6], [5, 6, 7, 8]):
        with pytest.raises(ValueError, match="seeds for 3 envs"):
            envs.reset(seed=wrong)


@pytest.mark.parametrize("mask", ["abc", [True, False], [1, 0, 1], np.ones((3, 1), np.bool_)])
def test_a_mask_that_is_none_is_refused(mask: object) -> None:
    envs = make(AutoresetMode.DISABLED)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"(?s)reset_mask is .* expected 3 flags"):
        envs.reset(options={"reset_mask": mask})


def test_episodes_begin_where_they_are_told_to() -> None:
    envs = make(AutoresetMode.NEXT_STEP)
    one = GatewayEnv(episode_ticks=TICKS)
    rows = envs.reset(seed=5, options={"start_s": [0.0, 700.0, 1400.0]})[0]
    for i, start_s in enumerate((0.0, 700.0, 1400.0)):
        alone, _ = one.reset(seed=5 + i, options={"start_s": start_s})
        assert alone.tobytes() == rows[i].tobytes()
    with pytest.raises(ValueError, match="start_s is nan"):
        envs.reset(options={"start_s": np.nan})


def pickled(envs: GatewayVectorEnv) -> object:
    return pickle.loads(pickle.dumps(envs))  # noqa: S301  # our own


@pytest.mark.parametrize("preset", ["extended", "advised"])
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_goes_on_as_the_original(
    copied: Callable[[GatewayVectorEnv], object], preset: Preset
) -> None:
    envs = GatewayVectorEnv(N, observation=preset, episode_ticks=TICKS)
    envs.reset(seed=1)
    envs.step(HOLD)
    other = copied(envs)
    assert isinstance(other, GatewayVectorEnv)
    for _ in range(TICKS + 2):
        for ours, theirs in zip(envs.step(GROW)[:4], other.step(GROW)[:4], strict=True):
            assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
