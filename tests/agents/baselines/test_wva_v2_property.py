"""WVA V2 against a second implementation: exact fractions, all observations kept and scanned."""

import statistics
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.site import ReplicaSpec, Site
from gatepilot.agents.baselines.wva_capacity import CapacityMemory, EngineSpec, Reading
from gatepilot.agents.baselines.wva_pods import Scale
from gatepilot.agents.baselines.wva_v2 import WvaV2Params, v2_target
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

NEAR = Fraction(1, 10**6)
Pod: TypeAlias = tuple[Fraction, Fraction, Fraction, Fraction]
"""Tokens in use, queue, mean prompt, mean answer."""


def near_whole(value: Fraction) -> bool:
    return min(value % 1, -value % 1) < NEAR


@dataclass
class Reference:
    engine: EngineSpec
    params: WvaV2Params
    seen: list[tuple[int, Fraction]] = field(default_factory=list)

    def capacity(self, pod: Pod) -> int:
        used, queue, prompt, answer = pod
        lengths = (answer >= 100) + (answer >= 500)
        bounds = [Fraction(self.engine.kv_capacity_tokens) * Fraction(self.params.kv_threshold)]
        recent = [tokens for key, tokens in self.seen if key == lengths][-10:]
        if used and queue >= self.params.queue_threshold // 1:
            self.seen.append((lengths, used))
            bounds.append(used)
        elif recent:
            bounds.append(Fraction(statistics.mean(recent)))
        elif answer:
            held = prompt + answer / 2
            full = self.engine.max_num_seqs * held
            derived = self.engine.step_tokens * answer * held / (prompt + answer)
            assume(abs(derived - full) > NEAR and (derived > full or not near_whole(derived)))
            derived = min(derived, full)
            if derived >= 1:
                bounds.append(derived)
        return min(bound // 1 for bound in bounds)

    def size(self, pods: list[Pod], scale: Scale) -> int:
        if not pods:
            return scale.current
        each = int(statistics.median([self.capacity(pod) for pod in pods]))
        demand = sum(used + queue * (prompt // 1) for used, queue, prompt, _ in pods)
        up = demand / Fraction(self.params.scale_up_threshold)
        down = demand / Fraction(self.params.scale_down_boundary)
        ready = max(scale.current - scale.pending, 0)
        if each == 0:
            return scale.current
        if demand:  # where rounding decides, hand-made vectors do
            assume(not near_whole((up - (ready + scale.pending) * each) / each))
            assume(not near_whole((ready * each - down) / each))
        added = 0
        while (ready + scale.pending + added) * each < up:
            added += 1
        removed = 0
        while removed < scale.current - 1 and (ready - removed - 1) * each >= down:
            removed += 1
        return scale.current + (added or -removed)


tokens = st.integers(0, 90_000).map(Fraction)
queues = st.sampled_from([0, 0, 1, 3, 4, 5, 6, 40]).map(Fraction)
prompts = st.integers(0, 3000).map(Fraction) | st.integers(0, 9000).map(lambda n: Fraction(n, 4))
answers = st.sampled_from([0, 1, 50, 99, 100, 250, 499, 500, 2000]).map(Fraction)
pods_strategy = st.lists(st.tuples(tokens, queues, prompts, answers), max_size=5)
params_strategy = st.builds(
    WvaV2Params,
    st.sampled_from([0.5, 0.75, 0.875]),
    st.sampled_from([1.0, 4.5, 5.0]),
    st.sampled_from([0.75, 0.875, 1.0]),
    st.sampled_from([0.5, 0.625, 0.6875]),
)
engines = st.builds(
    EngineSpec,
    st.sampled_from([1, 50_000, 100_000]),
    st.sampled_from([512, 8192]),
    st.sampled_from([4, 128]),
)


def reading(pod: Pod) -> Reading:
    used, queue, prompt, answer = pod
    return Reading(int(used), float(queue), float(prompt), float(answer))


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.tuples(pods_strategy, st.sampled_from([0, 0, 0, 1, 3])), min_size=1, max_size=8),
    st.integers(1, 9),
    engines,
    params_strategy,
)
def test_runs_agree(
    runs: list[tuple[list[Pod], int]], start: int, engine: EngineSpec, params: WvaV2Params
) -> None:
    reference, memory, size = Reference(engine, params), CapacityMemory(), start
    for pods, pending in runs:
        scale = Scale(size, pending)
        expected = reference.size(pods, scale)
        assert v2_target([reading(pod) for pod in pods], scale, engine, memory, params) == expected
        size = min(max(expected, 1), 40)
    assert all(len(kept) <= 10 for kept in memory.observed.values())


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(0, 12),
            st.none() | st.integers(0, 64).map(lambda n: n / 64),
            st.none() | st.integers(0, 80),
            st.none() | st.sampled_from([0, 120, 480, 7]),
            st.none() | st.integers(0, 16_000),
            st.none() | st.integers(0, 8_000),
        ),
        max_size=10,
    ),
    st.integers(1, 13),
)
def test_histories_agree(
    ticks: list[tuple[int | None, float | None, int | None, int | None, int | None, int | None]],
    start: int,
) -> None:
    engine = EngineSpec(64_000, 512, 128)
    step = StepModel(0.012, 5e-5, 3e-8, 6e-5)
    replica = ReplicaSpec(step, 110.0, kv_capacity_tokens=64_000)
    params = WvaV2Params(0.75, 5.0, 0.875, 0.625)
    made = params.make(Site(Limits(2, 12), 15.0, replica=replica), seed=0)
    reference, in_force = Reference(engine, params), GatewaySettings(start)
    for ready, kv, waiting, samples, prompt_tps, output_tps in ticks:
        snapshot = MetricsSnapshot(
            replicas_requested=in_force.replicas,
            breaker_threshold=0.5,
            replicas_ready=ready,
            kv_usage=kv,
            waiting=waiting,
            samples=samples,
            prompt_token_rate_tps=prompt_tps,
            output_token_rate_tps=output_tps,
        )
        following = made.decide(snapshot, in_force)
        if not ready or (kv is None and waiting is None):
            assert following is in_force
            continue
        pod = (
            Fraction(kv or 0) * 64_000,
            Fraction(waiting or 0, ready),
            Fraction(60 * (prompt_tps or 0), samples) if samples else Fraction(0),
            Fraction(60 * (output_tps or 0), samples) if samples else Fraction(0),
        )
        scale = Scale(in_force.replicas, max(in_force.replicas - ready, 0))
        expected = reference.size([pod] * ready, scale)
        assert following.replicas == max(2, min(expected, 12))
        in_force = following
