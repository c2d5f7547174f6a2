"""The composite score, printed and mended: golden vectors, a second implementation, its quirk."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.composite_score import (
    CompositeScoreParams,
    ScoreInputs,
    printed_score,
    promise_used,
    stepped,
)
from gatepilot.agents.baselines.composite_score_mended import (
    CompositeScoreMendedParams,
    mended_score,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.agents.policy import Controller
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.reward.slo import Slo

from .looks import each, look, vectors_of

PRINTED, MENDED = vectors_of("composite_score"), vectors_of("composite_score_mended")
SITE = Site(Limits(2, 6))
PARAMS = CompositeScoreParams()


def step(score: float) -> int:
    return 1 if score > 0.7 else -1 if score < 0.4 else 0


def inputs_of(vector: dict[str, Any]) -> ScoreInputs:
    names = ("tokens_per_minute", "vram", "latency_s", "risk")
    return ScoreInputs(*(vector[name] for name in names))


@pytest.mark.parametrize("group", [PRINTED, MENDED])
def test_there_are_enough_vectors(group: dict[str, list[dict[str, Any]]]) -> None:
    assert sum(len(cases) for cases in group.values()) >= 25


@each(PRINTED["scores"])
def test_printed(vector: dict[str, Any]) -> None:
    found = printed_score(PARAMS, inputs_of(vector))
    assert found == pytest.approx(vector["score"]), vector["why"]
    assert step(found) == vector["step"]


@each(MENDED["scores"])
def test_mended(vector: dict[str, Any]) -> None:
    found = mended_score(PARAMS, inputs_of(vector))
    assert found == pytest.approx(vector["score"]), vector["why"]
    assert step(found) == vector["step"]


def decided(controller: Controller, vector: dict[str, Any]) -> None:
    start = GatewaySettings(vector["replicas"], 7, 50)
    found = controller.decide(look(vector["look"]), start)
    assert found == replace(start, replicas=vector["wanted"]), vector["why"]
    assert (found is start) == (vector["wanted"] == vector["replicas"])


@each(PRINTED["looks"])
def test_look_printed(vector: dict[str, Any]) -> None:
    decided(CompositeScoreParams(**vector["params"]).make(SITE, seed=0), vector)


@each(MENDED["looks"])
def test_look_mended(vector: dict[str, Any]) -> None:
    params = CompositeScoreMendedParams(CompositeScoreParams(**vector["params"]))
    decided(params.make(SITE, seed=0), vector)


# --- a second implementation --------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 5000), st.integers(0, 100), st.integers(1, 5000), st.integers(0, 100))
def test_the_scores_agree(tokens: int, vram: int, milliseconds: int, risk: int) -> None:
    """In whole numbers of 1/20: weights 6, 5, 5, 4; the two latency terms add up to 5, or to 5."""
    used = [Fraction(tokens, 2000), Fraction(vram, 95), Fraction(risk, 100)]
    common = sum(w * min(one, Fraction(1)) for w, one in zip((6, 5, 4), used, strict=True))
    late = min(Fraction(milliseconds, 2000), Fraction(1))
    inputs = ScoreInputs(float(tokens), vram / 100, milliseconds / 1000, risk / 100)
    assert 20 * printed_score(PARAMS, inputs) == pytest.approx(float(common + 5 * (1 - late)))
    assert 20 * mended_score(PARAMS, inputs) == pytest.approx(float(common + 5 * late))


@settings(deadline=None, max_examples=100)
@given(
    st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e4)
)
def test_only_the_mended_one_rises_with_latency(
    fast_s: float, slow_s: float, vram: float, risk: float, tokens: float
) -> None:
    fast_s, slow_s = sorted((fast_s, slow_s))
    fast, slow = (ScoreInputs(tokens, vram, one, risk) for one in (fast_s, slow_s))
    assert mended_score(PARAMS, fast) <= mended_score(PARAMS, slow)
    assert printed_score(PARAMS, fast) >= printed_score(PARAMS, slow)


@pytest.mark.parametrize(
    ("score", "size"), [(0.7001, 5), (0.7, 4), (0.5, 4), (0.4, 4), (0.3999, 3)]
)
def test_exactly_at_a_threshold_it_holds(score: float, size: int) -> None:
    assert stepped(PARAMS, score, SITE, GatewaySettings(4)).replicas == size


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_printed_a_gateway_that_slows_down_is_scaled_in() -> None:
    """VRAM at 0.6, little traffic: at 0.1 s it holds, at 2 s it takes a replica away."""
    quiet = {"tokens": 5.0, "vram_utilization": 0.6, "error_rate": 0.0, "replicas_ready": 4.0}
    site = Site(Limits(2, 6), slo=Slo(latency_limit_s=1000.0))
    printed = PARAMS.make(site, seed=0)
    start = GatewaySettings(4)
    assert printed.decide(look(quiet, ttft_p95_s=0.1), start).replicas == 4
    assert printed.decide(look(quiet, ttft_p95_s=2.0), start).replicas == 3
    mended = CompositeScoreMendedParams().make(site, seed=0)
    assert mended.decide(look(quiet, ttft_p95_s=0.1), start).replicas == 3
    assert mended.decide(look(quiet, ttft_p95_s=2.0), start).replicas == 4


@pytest.mark.parametrize(
    ("slo", "ttft_s", "error_rate", "used"),
    [
        (Slo(), 0.4, 0.0, 0.5),
        (Slo(), 0.4, 0.015, 0.75),
        (Slo(), 8.0, 0.0, 1.0),
        (Slo(), 0.1, 0.5, 1.0),
        (Slo(error_rate_limit=0.0), 0.4, 0.0, 0.5),
        (Slo(error_rate_limit=0.0), 0.4, 0.001, 1.0),
        (Slo(latency="e2e_p95_s", latency_limit_s=20.0), 0.4, 0.0, 0.25),
    ],
)
def test_how_much_of_the_promise_is_used(
    slo: Slo, ttft_s: float, error_rate: float, used: float
) -> None:
    shown = look(ttft_p95_s=ttft_s, e2e_p95_s=5.0, error_rate=error_rate)
    assert promise_used(shown, slo) == pytest.approx(used)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"up_above": 0.3}, r"down_below 0\.4 is above up_above 0\.3"),
        ({"full_tokens": 0.0}, r"full_tokens is 0\.0"),
        ({"full_vram": -1.0}, r"full_vram is -1\.0"),
        ({"slow_s": 0.0}, r"slow_s is 0\.0"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CompositeScoreParams(**changes)
