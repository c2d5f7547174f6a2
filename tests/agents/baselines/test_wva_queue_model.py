"""WVA's queueing model: golden vectors, and a second implementation in fifty digits."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.wva_queue import step_times
from gatepilot.agents.baselines.wva_queue_model import (
    LatencyTargets,
    ReplicaQueue,
    RequestSize,
    StepTimes,
    inferred_targets,
)

from .queue_reference import QueueReference
from .suggesting import REPLICA

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("wva_queue_vectors.json").read_text(encoding="utf-8")
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def queue_of(vector: dict[str, Any]) -> ReplicaQueue:
    times, size = StepTimes(*vector["times"]), RequestSize(*vector["size"])
    return ReplicaQueue(times, size, vector["batch"], vector["queue"])


def second_of(queue: ReplicaQueue) -> QueueReference:
    times, size = queue.times, queue.size
    return QueueReference(
        times.alpha_s,
        times.beta_s,
        times.gamma_s,
        size.prompt_tokens,
        size.output_tokens,
        queue.max_batch,
        queue.max_queue,
    )


@vectors("steps")
def test_step(vector: dict[str, Any]) -> None:
    times, size = StepTimes(*vector["times"]), RequestSize(*vector["size"])
    for name in ("step", "prefill", "decode"):
        found = getattr(times, f"{name}_s")(size, vector["batch"])
        assert found == pytest.approx(vector[name], rel=1e-14), vector["why"]


@vectors("chains")
def test_chain(vector: dict[str, Any]) -> None:
    queue = queue_of(vector)
    steady = queue.steady(vector["rate"])
    found = {
        "throughput": steady.throughput_rps,
        "in_service": steady.in_service,
        "wait": steady.wait_s,
        "service": steady.service_s,
        "ttft": queue.ttft_s(steady),
        "itl": queue.itl_s(steady),
    }
    for name, value in found.items():
        assert value == pytest.approx(vector[name], rel=1e-9, abs=1e-15), (name, vector["why"])


@vectors("searches")
def test_search(vector: dict[str, Any]) -> None:
    found = queue_of(vector).largest_rate_rps(LatencyTargets(*vector["targets"]))
    if vector["rate"] is None:
        assert found is None, vector["why"]
    else:
        assert found == pytest.approx(vector["rate"], rel=1e-4), vector["why"]


@vectors("inferred")
def test_inferred(vector: dict[str, Any]) -> None:
    times, size = StepTimes(*vector["times"]), RequestSize(*vector["size"])
    found = inferred_targets(times, size, vector["multiplier"])
    assert found.ttft_s == pytest.approx(vector["ttft"], rel=1e-14), vector["why"]
    assert found.itl_s == pytest.approx(vector["itl"], rel=1e-14), vector["why"]


# --- a second implementation --------------------------------------------------------------------

times_strategy = st.builds(
    StepTimes,
    st.floats(0.001, 2.0),
    st.floats(0.0, 0.1),
    st.floats(0.0, 0.01),
)
sizes_strategy = st.builds(RequestSize, st.integers(0, 3000), st.integers(1, 800))


queues = st.builds(
    ReplicaQueue, times_strategy, sizes_strategy, st.integers(1, 40), st.integers(0, 90)
)


@settings(deadline=None, max_examples=120)
@given(queues, st.floats(0, 1))
def test_chains_agree(queue: ReplicaQueue, share: float) -> None:
    rate = queue.lowest_rps + share * (queue.highest_rps - queue.lowest_rps)
    steady, second = queue.steady(rate), second_of(queue)
    found = (steady.throughput_rps, steady.in_service, steady.wait_s, steady.service_s)
    assert found == pytest.approx(second.means(rate), rel=1e-8, abs=1e-12)
    latencies = (queue.ttft_s(steady), queue.itl_s(steady))
    assert latencies == pytest.approx(second.latencies(rate), rel=1e-8)


@settings(deadline=None, max_examples=100)
@given(queues, st.floats(0.5, 4.0), st.floats(0.5, 4.0))
def test_the_largest_rate_meets_one_target_and_breaks_none(
    queue: ReplicaQueue, slack: float, other: float
) -> None:
    second = second_of(queue)
    idle, full = second.latencies(queue.lowest_rps), second.latencies(queue.highest_rps)
    assume(all(high > low * (1 + 1e-9) for low, high in zip(idle, full, strict=True)))
    wanted = (slack * idle[0], other * idle[1])
    found = queue.largest_rate_rps(LatencyTargets(*wanted))
    if min(slack, other) < 1 - 1e-6:
        assert found is None
        return
    assert found is not None
    at = second.latencies(found)
    assert all(value <= target * (1 + 3e-6) for value, target in zip(at, wanted, strict=True))
    meets = [value >= target * (1 - 3e-6) for value, target in zip(at, wanted, strict=True)]
    assert any(meets) or found == queue.highest_rps


@given(
    st.floats(1e-4, 1e4),
    st.integers(1, 5000),
    st.integers(1, 2000),
    st.integers(2, 300),
)
@settings(deadline=None, max_examples=60)
def test_llm_d_autoscaling_1302_units_of_time_cancel_out(
    unit: float, prompt: int, output: int, batch: int
) -> None:
    """In milliseconds instead of seconds everything is a thousand times as long, and as rare."""
    size = RequestSize(prompt, output)
    times, targets = StepTimes(0.012, 5.8e-5, 3e-8), LatencyTargets(0.7, 0.05)
    scaled = StepTimes(0.012 * unit, 5.8e-5 * unit, 3e-8 * unit)
    rate = ReplicaQueue(times, size, batch, 10 * batch).largest_rate_rps(targets)
    same = ReplicaQueue(scaled, size, batch, 10 * batch).largest_rate_rps(
        LatencyTargets(0.7 * unit, 0.05 * unit)
    )
    assert (rate is None) == (same is None)
    if rate is not None and same is not None:
        assert same * unit == pytest.approx(rate, rel=1e-3)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_the_mean_is_kept_not_the_promised_p95() -> None:
    """At a TTFT target of 0.8 s the mean is 0.8 s: no margin of -ln(0.05) = 3.0 is taken off."""
    times = step_times(REPLICA.step, RequestSize(1000, 250), 128)
    queue = ReplicaQueue(times, RequestSize(1000, 250), 128, 1280)
    rate = queue.largest_rate_rps(LatencyTargets(0.8))
    assert rate is not None
    assert queue.ttft_s(queue.steady(rate)) == pytest.approx(0.8, rel=2e-6)


def test_quirk_prefill_at_the_mean_batch_makes_the_itl_of_a_single_server_fall() -> None:
    queue = ReplicaQueue(StepTimes(1, 1, 0), RequestSize(1, 2), 1, 0)
    falling = [queue.itl_s(queue.steady(rate)) for rate in (0.01, 0.05, 0.1)]
    assert falling == sorted(falling, reverse=True)


# --- what means nothing -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LatencyTargets(ttft_s=-0.1), "ttft_s is -0.1"),
        (lambda: LatencyTargets(itl_s=math.nan), "itl_s is nan"),
        (lambda: RequestSize(-1, 1), "prompt_tokens is -1"),
        (lambda: RequestSize(1, 0.5), "output_tokens is 0.5"),
        (lambda: ReplicaQueue(StepTimes(1, 0, 0), RequestSize(1, 1), 0, 0), "batch 0, queue 0"),
        (lambda: ReplicaQueue(StepTimes(1, 0, 0), RequestSize(1, 1), 1, -1), "batch 1, queue -1"),
        (lambda: ReplicaQueue(StepTimes(0, 0, 0), RequestSize(1, 1), 1, 0), "expected steps that"),
    ],
)
def test_what_means_nothing_is_refused(make: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=message):
        make()
