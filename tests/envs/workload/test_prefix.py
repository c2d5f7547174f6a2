"""Prefix reuse: hits against a search over all pairs; what cuts and copies leave of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.workload.prefix import hits_of_blocks
from gatepilot.envs.workload.request import Requests, superpose

BLOCK = 4
"""Tokens a block."""


def made_up(seed: int) -> tuple[Requests, list[list[int]]]:
    """Requests with prefix columns, and the blocks behind them.

    Each prompt continues an earlier one's beginning or starts anew; its last block may be short.
    """
    rng = np.random.default_rng(seed)
    blocks: list[list[int]] = []
    fresh = 0
    for _ in range(rng.integers(0, 15)):
        start: list[int] = []
        if blocks and rng.random() < 0.6:
            base = blocks[rng.integers(len(blocks))]
            start = base[: rng.integers(0, len(base) + 1)]
        new = int(rng.integers(0 if start else 1, 4))
        blocks.append(start + list(range(fresh, fresh + new)))
        fresh += new
    n = len(blocks)
    lengths = [BLOCK * len(ids) - int(rng.integers(BLOCK)) for ids in blocks]
    tokens = np.array(lengths, np.int32)
    hit, parent = hits_of_blocks(blocks, tokens, BLOCK)
    arrival_s = np.sort(rng.choice([rng.random(), 0.5, 0.0, 1.0], n) * 100.0 * rng.random(n))
    numbers = np.arange(1, n + 1, dtype=np.int32)
    return Requests(arrival_s, tokens, numbers, 100.0, hit, parent), blocks


loads = st.integers(0, 2**32 - 1).map(made_up)


def shared_blocks(one: list[int], two: list[int]) -> int:
    """Equal blocks from the front."""
    shared = 0
    while shared < min(len(one), len(two)) and one[shared] == two[shared]:
        shared += 1
    return shared


@given(loads)
def test_hits_are_the_most_that_any_earlier_prompt_shares(
    load: tuple[Requests, list[list[int]]],
) -> None:
    requests, blocks = load
    assert requests.prefix_hit_tokens is not None
    assert requests.prefix_parent is not None
    for row, ids in enumerate(blocks):
        shared = [shared_blocks(ids, earlier) for earlier in blocks[:row]]
        deepest = max(shared, default=0)
        hit = min(deepest * BLOCK, int(requests.prompt_tokens[row]) - 1)
        assert requests.prefix_hit_tokens[row] == hit
        latest = max((i for i in range(row) if shared[i] == deepest), default=-1)
        assert requests.prefix_parent[row] == (latest if hit else -1)


def check_still_true(kept: Requests, blocks: list[list[int]]) -> None:
    """Every hit points to an earlier request that holds at least so much of the prompt.

    `output_tokens` number the requests from 1, so they say which blocks belong to a row.
    """
    hit, parent = kept.prefix_hit_tokens, kept.prefix_parent
    assert hit is not None
    assert parent is not None
    assert ((hit > 0) == (parent >= 0)).all()
    for row in np.flatnonzero(hit):
        assert parent[row] < row
        assert kept.arrival_s[parent[row]] <= kept.arrival_s[row]
        ours, theirs = (blocks[kept.output_tokens[i] - 1] for i in (row, parent[row]))
        assert hit[row] <= shared_blocks(ours, theirs) * BLOCK


@given(loads, st.floats(0, 1), st.floats(0, 1))
def test_a_cut_forgets_what_came_before(
    load: tuple[Requests, list[list[int]]], one: float, other: float
) -> None:
    requests, blocks = load
    from_s, to_s = sorted((one * 100.0, other * 100.0))
    if from_s == to_s:
        return
    cut = requests.within(from_s, to_s)
    check_still_true(cut, blocks)
    first = int(np.searchsorted(requests.arrival_s, from_s))
    assert requests.prefix_parent is not None
    assert cut.prefix_parent is not None
    before = requests.prefix_parent[first : first + len(cut)]
    assert ((before < first) == (cut.prefix_parent == -1)).all()


@given(loads, st.integers(1, 40))
def test_leaving_prompts_out_keeps_what_ancestors_vouch_for(
    load: tuple[Requests, list[list[int]]], longest: int
) -> None:
    requests, blocks = load
    kept = requests.without_long_prompts(longest)
    check_still_true(kept, blocks)
    # A second implementation walks up, one parent at a time.
    hit, parent = requests.prefix_hit_tokens, requests.prefix_parent
    assert hit is not None
    assert parent is not None
    stays = requests.prompt_tokens <= longest
    for new, old in enumerate(np.flatnonzero(stays)):
        above, least = int(parent[old]), int(hit[old])
        while above >= 0 and not stays[above]:
            above, least = int(parent[above]), min(least, int(hit[above]))
        assert kept.prefix_hit_tokens is not None
        assert kept.prefix_hit_tokens[new] == (least if above >= 0 else 0)


@given(loads, st.floats(0.05, 3.5), st.integers(0, 2**32), st.floats(0, 300))
@settings(max_examples=200)
def test_copies_reuse_only_their_own_earlier_prompts(
    load: tuple[Requests, list[list[int]]], scale: float, seed: int, max_shift_s: float
) -> None:
    requests, blocks = load
    scaled = superpose(requests, scale, seed=seed, max_shift_s=max_shift_s)
    check_still_true(scaled, blocks)


def test_two_copies_do_not_share() -> None:
    """Both prompts are equal, so across copies there would be much to reuse."""
    hit, parent = np.array([0, 8]), np.array([-1, 0])
    requests = Requests(np.array([10.0, 20.0]), np.full(2, 9), np.array([1, 2]), 100.0, hit, parent)
    scaled = superpose(requests, 2, seed=0, max_shift_s=5.0)
    assert scaled.prefix_hit_tokens is not None
    assert scaled.prefix_parent is not None
    assert sorted(scaled.prefix_hit_tokens.tolist()) == [0, 0, 8, 8]
    for row in np.flatnonzero(scaled.prefix_hit_tokens):
        gap_s = scaled.arrival_s[row] - scaled.arrival_s[scaled.prefix_parent[row]]
        assert gap_s == pytest.approx(10.0)


def test_a_shift_around_the_end_parts_child_and_parent() -> None:
    hit, parent = np.array([0, 8]), np.array([-1, 0])
    requests = Requests(np.array([1.0, 99.0]), np.full(2, 9), np.array([1, 2]), 100.0, hit, parent)
    for seed in range(20):
        scaled = superpose(requests, 2, seed=seed, max_shift_s=20.0)
        assert scaled.prefix_hit_tokens is not None
        hits = scaled.prefix_hit_tokens.sum()
        moved = set(scaled.arrival_s.tolist()) - {1.0, 99.0}
        wrapped = max(moved) - min(moved) < 90.0  # the shifted pair has met its end
        assert hits == (8 if wrapped else 16)


@pytest.mark.parametrize(
    ("hit", "parent", "parts"),
    [
        ([0, 5, 0], [-1, 0, -1], ["prefix_hit_tokens[1]", "5", "prompt"]),
        ([0, -1, 0], [-1, 0, -1], ["prefix_hit_tokens[1]", "-1"]),
        ([0, 1, 1], [-1, 0, 2], ["prefix_parent[2]", "2", "earlier"]),
        ([0, 1, 1], [-1, 0, -2], ["prefix_parent[2]", "-2"]),
        ([0, 1, 0], [-1, 0, 0], ["prefix_parent[2]", "where the hit is 0"]),
        ([0, 1, 1], [-1, 0, -1], ["prefix_parent[2]", "where the hit is 0"]),
        ([0, 1], [-1, 0], ["prefix_hit_tokens", "2 values for 3"]),
        ([0.0, 1.5, 0.0], [-1, 0, -1], ["prefix_hit_tokens", "whole numbers"]),
        ([0, 1, 0], None, ["both are needed"]),
    ],
)
def test_impossible_columns_are_named(
    hit: list[int], parent: list[int] | None, parts: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        Requests(
            np.array([0.0, 1.0, 2.0]),
            np.full(3, 5),
            np.full(3, 5),
            10.0,
            np.array(hit),
            None if parent is None else np.array(parent),
        )
    for part in parts:
        assert part in str(caught.value)


def test_types() -> None:
    requests = Requests(
        np.array([0.0, 1.0]),
        np.full(2, 5),
        np.full(2, 5),
        10.0,
        np.array([0, 4]),
        np.array([-1, 0]),
    )
    assert requests.prefix_hit_tokens is not None
    assert requests.prefix_parent is not None
    assert requests.prefix_hit_tokens.dtype == np.int32
    assert requests.prefix_parent.dtype == np.int64


def test_long_chains_do_not_take_long() -> None:
    """A system prompt that all share makes one chain of all requests."""
    n = 200_000
    hit = np.full(n, 3)
    hit[0] = 0
    requests = Requests(
        np.arange(n, dtype=np.float64), np.full(n, 9), np.full(n, 5), 1.0 * n, hit, np.arange(n) - 1
    )
    late = requests.within(n - 10.0, 1.0 * n)
    assert late.prefix_parent is not None
    assert late.prefix_parent.tolist() == [-1, *range(9)]
    third = requests.take(np.arange(0, n, 3))
    assert third.prefix_parent is not None
    assert third.prefix_parent.tolist() == list(range(-1, len(third) - 1))
