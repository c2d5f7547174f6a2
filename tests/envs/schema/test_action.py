import numpy as np
import pytest

from gatepilot.envs.schema.action import (
    ACTION_DIMS,
    DISCRETE_ACTIONS,
    NO_CHANGE,
    decode,
    from_discrete,
    to_discrete,
)


def test_the_flat_table_is_a_bijection() -> None:
    indices = np.arange(DISCRETE_ACTIONS)
    actions = from_discrete(indices)
    np.testing.assert_array_equal(to_discrete(actions), indices)
    assert len({tuple(action) for action in actions}) == DISCRETE_ACTIONS == np.prod(ACTION_DIMS)


def test_the_flat_index_is_three_times_scaling_plus_threshold() -> None:
    np.testing.assert_array_equal(to_discrete(np.array([[2, 0], [0, 2], [1, 1]])), [6, 2, 4])


def test_index_1_is_no_change_on_both_heads() -> None:
    scale, threshold = decode(np.array([NO_CHANGE, (0, 2)]))
    np.testing.assert_array_equal(scale, [0, -1])
    np.testing.assert_array_equal(threshold, [0, 1])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_every_integer_type_decodes_alike(dtype: type) -> None:
    scale, threshold = decode(np.array([[0, 1], [2, 0]], dtype))
    np.testing.assert_array_equal(scale, [-1, 1])
    np.testing.assert_array_equal(threshold, [0, -1])
    assert scale.dtype == np.int64


def test_a_batch_of_none_decodes_to_none() -> None:
    scale, threshold = decode(np.zeros((0, 2), np.int64))
    assert scale.shape == threshold.shape == (0,)


@pytest.mark.parametrize(
    "actions",
    [
        np.array([[0, 3]]),
        np.array([[-1, 0]]),
        np.array([1, 1]),
        np.array([[1, 1, 1]]),
        np.array([[1.0, 1.0]]),
        np.array([[np.nan, 1.0]]),
        np.array([[True, False]]),
    ],
)
def test_what_is_not_in_the_table_is_refused(actions: np.ndarray) -> None:
    with pytest.raises(ValueError, match="action"):
        decode(actions)


@pytest.mark.parametrize(
    "indices", [np.array([9]), np.array([-1]), np.array([np.nan]), np.array([1.0]), np.array(4)]
)
def test_flat_indices_that_are_not_in_the_table_are_refused(indices: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"expected integers|not in the table"):
        from_discrete(indices)
