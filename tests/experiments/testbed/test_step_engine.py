"""The emulated replica's step engine against the simulator, request by request."""

import random
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.sim.params import UNLIMITED_BLOCKS, EngineParams
from gatepilot.envs.sim.whole_run import simulate
from gatepilot.envs.workload.request import Requests
from gatepilot.experiments.testbed.replica_metrics import ReplicaMetrics
from gatepilot.experiments.testbed.step_engine import Sequence, StepEngine, StepModel

Row = tuple[float, int, int]


def played(model: StepModel, rows: list[Row]) -> dict[str, list[float]]:
    """Runs the engine on a clock of its own, iteration by iteration."""
    engine = StepEngine(model)
    metrics = ReplicaMetrics(model="m", pod="p", namespace="n")
    sequences = [Sequence(arrival_s, prompt, output) for arrival_s, prompt, output in rows]
    coming = deque(sequences)
    first_s: dict[Sequence, float] = {}
    end_s: dict[Sequence, float] = {}
    at_s = 0.0
    while coming or engine.waiting or engine.running:
        while coming and coming[0].arrival_s <= at_s:
            engine.add(coming.popleft())
        length_s = engine.begin()
        if length_s is None:
            at_s = coming[0].arrival_s
            engine.add(coming.popleft())  # an idle replica begins with the first that it gets
            length_s = engine.begin()
            assert length_s is not None
        at_s += length_s
        for sequence in engine.finish():
            metrics.token(sequence, at_s)
            first_s.setdefault(sequence, at_s - sequence.arrival_s)
            if sequence.is_finished:
                end_s[sequence] = at_s - sequence.arrival_s
        assert engine.free_blocks == model.kv_blocks - sum(q.blocks for q in engine.running)
        assert engine.free_blocks >= 0
    assert engine.evictions == sum(q.evictions for q in sequences)
    # what an eviction computes again is not counted again
    assert metrics.prompt_tokens == sum(prompt for _, prompt, _ in rows)
    assert metrics.generation_tokens == sum(output for *_, output in rows)
    return {
        "ttft_s": [first_s[q] for q in sequences],
        "e2e_s": [end_s[q] for q in sequences],
        "restarts": [q.evictions for q in sequences],
    }


def drawn(rng: random.Random) -> tuple[StepModel, list[Row]]:
    """A small replica and a workload that fits into it."""
    most_tokens = rng.choice([6, 20, 60])
    block_tokens = rng.choice([1, 2, 4, 16])
    max_num_seqs = rng.choice([1, 2, 5, 8])
    least_blocks = max(3, 2 * most_tokens // block_tokens + 3)
    model = StepModel(
        base_s=rng.uniform(1e-3, 0.05),
        per_seq_s=rng.choice([0, rng.uniform(0, 2e-3)]),
        per_ctx_token_s=rng.choice([0, rng.uniform(0, 1e-4)]),
        per_prefill_token_s=rng.choice([0, rng.uniform(0, 1e-3)]),
        max_num_seqs=max_num_seqs,
        chunk_tokens=max_num_seqs + rng.choice([0, 1, 3, 10, 60]),
        kv_blocks=rng.choice([UNLIMITED_BLOCKS, least_blocks, 3 * least_blocks]),
        block_tokens=block_tokens,
        watermark=0.01,
    )
    span_s = rng.choice([0.01, 0.5, 5.0])
    arrivals = sorted(rng.uniform(0, span_s) for _ in range(rng.randint(1, 25)))
    rows = [(at, rng.randint(1, most_tokens), rng.randint(1, most_tokens)) for at in arrivals]
    return model, rows


def simulated(model: StepModel, rows: list[Row]) -> dict[str, list[float]]:
    params = EngineParams(
        base_s=model.base_s,
        per_seq_s=model.per_seq_s,
        per_ctx_token_s=model.per_ctx_token_s,
        per_prefill_token_s=model.per_prefill_token_s,
        max_num_seqs=model.max_num_seqs,
        chunk_tokens=model.chunk_tokens,
        kv_blocks=model.kv_blocks,
        block_tokens=model.block_tokens,
        router="round_robin",
    )
    columns = np.array(rows, np.float64)
    tokens = columns[:, 1:].astype(np.int32)
    requests = Requests(columns[:, 0], tokens[:, 0], tokens[:, 1], 1e6)
    outcomes = simulate(requests, params, replicas=1).outcomes
    assert set(outcomes.status.tolist()) == {1}
    return {name: getattr(outcomes, name).tolist() for name in ("ttft_s", "e2e_s", "restarts")}


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=True))
def test_every_request_as_in_the_simulator(rng: random.Random) -> None:
    model, rows = drawn(rng)
    found, expected = played(model, rows), simulated(model, rows)
    assert found["restarts"] == expected["restarts"]
    np.testing.assert_allclose(found["ttft_s"], expected["ttft_s"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["e2e_s"], expected["e2e_s"], rtol=0, atol=1e-9)


def test_the_random_workloads_evict() -> None:
    cases = (drawn(random.Random(seed)) for seed in range(200))  # noqa: S311
    evictions = sum(sum(played(model, rows)["restarts"]) for model, rows in cases)
    assert evictions > 100


MODEL = StepModel(
    base_s=0.1,
    per_seq_s=0.0,
    per_ctx_token_s=0.0,
    per_prefill_token_s=0.001,
    max_num_seqs=4,
    chunk_tokens=100,
    kv_blocks=100,
    block_tokens=16,
    watermark=0.01,
)


def test_a_prompt_longer_than_the_budget_takes_several_iterations() -> None:
    engine = StepEngine(MODEL)
    engine.add(Sequence(0.0, 250, 2))
    lengths, tokens = [], []
    while (length_s := engine.begin()) is not None:
        lengths.append(length_s)
        tokens.append(len(engine.finish()))
    assert lengths == pytest.approx([0.2, 0.2, 0.15, 0.1])
    assert tokens == [0, 0, 1, 1]
    assert (engine.iterations, engine.tokens) == (4, 251)


def test_who_is_aborted_leaves_at_the_next_boundary() -> None:
    engine = StepEngine(MODEL)
    running, waiting = Sequence(0.0, 10, 50), Sequence(0.0, 1500, 5)
    engine.add(running)
    engine.add(waiting)
    engine.begin()
    engine.finish()
    engine.abort(running)
    engine.abort(waiting)
    assert engine.begin() is not None
    engine.finish()
    assert (engine.running, list(engine.waiting)) == ([], [])
    assert engine.free_blocks == MODEL.kv_blocks
    assert engine.begin() is None


def test_what_can_never_be_held() -> None:
    engine = StepEngine(MODEL)
    assert engine.fits(1000, 584)  # 99 of 100 blocks of 16
    assert not engine.fits(1000, 585)
