"""Autoreset, seeds, staggering, and restoring at any tick."""

from typing import Any, cast

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from gatepilot.agents.sb3_vec_env import GatewayVecEnv
from gatepilot.envs.batch import GatewayBatch

from .fake_batch import AWAY_STEPS, FakeBatch

N, TICKS = 4, 8
HOLD = np.ones((N, 2), np.int64)


def make(
    seed: int = 3,
    n_workloads: int = 1,
    **options: Any,  # noqa: ANN401
) -> tuple[GatewayVecEnv, FakeBatch]:
    batch = FakeBatch(N, TICKS, n_workloads=n_workloads)
    return GatewayVecEnv(cast(GatewayBatch, batch), seed=seed, **options), batch


def run(env: GatewayVecEnv, ticks: int) -> list[NDArray[np.float32]]:
    return [np.asarray(env.step(HOLD)[0]) for _ in range(ticks)]


def test_spaces() -> None:
    env, _ = make()
    assert env.num_envs == N
    assert env.action_space == spaces.MultiDiscrete([3, 3])
    assert make(flat_actions=True)[0].action_space == spaces.Discrete(9)
    assert isinstance(env.observation_space, spaces.Box)
    assert env.observation_space.dtype == np.float32


def test_first_episodes_are_staggered_and_later_ones_have_full_length() -> None:
    env, batch = make()
    env.reset()
    run(env, 3 * TICKS)
    rows_by_reset = [rows for rows, _ in batch.resets]
    assert rows_by_reset[0] == [0, 1, 2, 3]
    assert rows_by_reset[1:5] == [[0], [1], [2], [3]]  # after 2, 4, 6 and 8 ticks
    ends: dict[int, list[int]] = {row: [] for row in range(N)}
    env, batch = make()
    env.reset()
    for tick in range(1, 25):
        done = env.step(HOLD)[2]
        for row in np.flatnonzero(done):
            ends[int(row)].append(tick)
    assert ends == {0: [2, 10, 18], 1: [4, 12, 20], 2: [6, 14, 22], 3: [8, 16, 24]}


def test_truncation_is_not_an_end_and_the_next_episode_has_begun() -> None:
    env, batch = make()
    env.reset()
    env.step(HOLD)
    returned, _, done, infos = env.step(HOLD)
    observation = np.asarray(returned)
    assert done.tolist() == [True, False, False, False]
    assert infos[0]["TimeLimit.truncated"] is True
    old_seed, new_seed = batch.resets[0][1][0], batch.resets[1][1][0]
    assert infos[0]["terminal_observation"].tolist() == [old_seed % 997, 2]
    assert observation[0].tolist() == [new_seed % 997, 0]
    assert observation[1].tolist() == [batch.resets[0][1][1] % 997, 2]
    assert infos[1] == {}


def test_twins_live_through_the_same_episodes() -> None:
    env, batch = make(twins=2, n_workloads=5)
    env.begin_only_at([np.array([[w, 30.0 * w]]) for w in range(5)])
    env.reset()
    run(env, 3 * TICKS)
    assert batch.resets[0][0] == [0, 1, 2, 3]
    assert [rows for rows, _ in batch.resets[1:3]] == [[0, 1], [2, 3]]  # after 4 and 8 ticks
    drawn = list(zip(batch.resets, batch.workloads, batch.starts_s, strict=True))
    for (_, seeds), workloads, starts_s in drawn:
        for one in (seeds, workloads, starts_s):
            assert one[0::2] == one[1::2]
    assert len({seed for _, seeds in batch.resets for seed in seeds}) == 2 * 4
    assert batch.workloads[0] == [0, 0, 1, 1]


def test_episode_seeds_depend_on_seed_environment_and_episode_alone() -> None:
    (env, batch), (again, batch_again), (other, batch_other) = make(), make(), make(seed=4)
    for one in (env, again, other):
        one.reset()
        run(one, 20)
    assert batch.resets == batch_again.resets
    drawn = [seed for _, seeds in batch.resets for seed in seeds]
    assert len(set(drawn)) == len(drawn)
    assert not set(drawn) & {seed for _, seeds in batch_other.resets for seed in seeds}


def test_episodes_draw_among_the_workloads() -> None:
    env, batch = make(n_workloads=3)
    env.reset()
    run(env, 5 * TICKS)
    assert {w for drawn in batch.workloads for w in drawn} == {0, 1, 2}
    env, batch = make()
    env.reset()
    run(env, 5 * TICKS)
    assert {w for drawn in batch.workloads for w in drawn} == {0}


def test_episodes_go_through_the_scenarios_and_draw_among_their_places() -> None:
    env, batch = make(n_workloads=3)
    places = [np.array([[0, 10.0], [1, 20.0]]), np.array([[2, 30.0]])]
    env.begin_only_at(places)
    env.reset()
    run(env, 12 * TICKS)
    by_row: dict[int, list[tuple[int, float]]] = {row: [] for row in range(N)}
    for (rows, _), workloads, starts_s in zip(
        batch.resets, batch.workloads, batch.starts_s, strict=True
    ):
        for row, workload, start_s in zip(rows, workloads, starts_s, strict=True):
            by_row[row].append((workload, start_s))
    for row, drawn in by_row.items():
        scenarios = [0 if workload < 2 else 1 for workload, _ in drawn]
        assert scenarios == [(row + k) % 2 for k in range(len(drawn))]
    assert {place for drawn in by_row.values() for place in drawn} == {(0, 10), (1, 20), (2, 30)}


@pytest.mark.parametrize("ticks", [0, 1, 2, 5, 8, 9, 17])
def test_restored_environment_goes_on_as_the_saved_one(ticks: int) -> None:
    env, batch = make()
    expected = env.reset()
    rng = np.random.default_rng(0)
    for _ in range(ticks):
        expected = np.asarray(env.step(rng.integers(3, size=(N, 2)))[0])
    copy, copied_batch = make()
    assert copy.restore(env.state()).tolist() == expected.tolist()
    for name in ("ticks", "seeds"):
        assert getattr(copied_batch, name).tolist() == getattr(batch, name).tolist()
    for mine, theirs in zip(run(copy, 20), run(env, 20), strict=True):
        assert mine.tolist() == theirs.tolist()
    for key, value in env.state().items():
        assert copy.state()[key].tolist() == value.tolist()


def test_replay_repeats_the_actions_of_the_running_episodes() -> None:
    env, batch = make()
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(11):
        env.step(rng.integers(3, size=(N, 2)))
    ages = env.state()["ages"]
    assert ages.tolist() == [1, 7, 5, 3]
    copy, copied = make()
    copy.restore(env.state())
    for row, age in enumerate(ages):
        played = [tick[row].tolist() for tick in copied.actions[len(copied.actions) - age :]]
        assert played == [tick[row].tolist() for tick in batch.actions[11 - age :]]


def test_flat_actions_are_the_schema_s_table() -> None:
    env, batch = make(flat_actions=True)
    env.reset()
    env.step(np.array([0, 4, 5, 8]))
    assert batch.actions[0].tolist() == [[0, 0], [1, 1], [1, 2], [2, 2]]


def test_scale_changes_what_the_learner_gets_and_not_what_is_reported() -> None:
    env, _ = make(reward_scale=0.1, rest_weight=0.05)
    env.reset()
    reward = env.step(HOLD)[1]
    assert reward.dtype == np.float32
    assert reward == pytest.approx(0.1 * (1.0 - 0.05 * AWAY_STEPS))
    run(env, 2 * TICKS)
    figures = env.statistics.take()
    assert figures["return"] == pytest.approx(TICKS)  # without the pull on the threshold
    assert figures["violation_rate"] == pytest.approx(0.5, abs=0.1)
    assert figures["replicas"] == 4
    assert figures["threshold_distance"] == pytest.approx(0.05 * AWAY_STEPS)
    assert figures["scale_change_rate"] == 0


def test_shortened_first_episodes_are_no_returns() -> None:
    env, _ = make()
    env.reset()
    run(env, TICKS - 1)
    assert "return" not in env.statistics.take()
    run(env, 1)  # the last environment's first episode has full length
    assert env.statistics.take()["return"] == pytest.approx(TICKS)


def test_environments_have_nothing_of_their_own() -> None:
    env, _ = make()
    assert env.get_attr("episode_ticks") == [TICKS] * N
    assert env.get_attr("render_mode", indices=[0, 2]) == [None, None]
    assert env.env_is_wrapped(object) == [False] * N  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="speed"):
        env.set_attr("speed", 2)
    with pytest.raises(AttributeError, match="restart"):
        env.env_method("restart")
