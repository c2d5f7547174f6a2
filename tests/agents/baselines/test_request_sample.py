"""What a snapshot says in place of a request, and the limit that a rule has in hand."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest

from gatepilot.agents.baselines.request_sample import (
    DropWatch,
    Latency,
    RequestSample,
    request_sample,
)
from gatepilot.agents.baselines.taken_limit import TakenLimit
from gatepilot.agents.baselines.token_rate import token_rate_tps
from gatepilot.envs.schema.settings import GatewaySettings

from .looks import look

WHOLE = {"e2e_p95_s": 9.0, "ttft_p95_s": 0.4, "running": 30.0, "waiting": 5.0, "error_rate": 0.1}


@pytest.mark.parametrize(("latency", "rtt_s"), [("e2e", 9.0), ("ttft", 0.4)])
def test_the_latency_is_the_one_that_is_asked_for(latency: Latency, rtt_s: float) -> None:
    found = request_sample(look(WHOLE), latency, None)
    assert found == RequestSample(rtt_s, 35)


@pytest.mark.parametrize("gap", [{"e2e_p95_s": None}, {"running": None}, {"waiting": None}])
def test_a_sample_that_is_not_whole_is_none(gap: dict[str, Any]) -> None:
    assert request_sample(look(WHOLE, **gap), "e2e", None) is None
    assert request_sample(look(WHOLE, **gap), "e2e", drops := DropWatch()) is None
    assert drops.error_rate == 0.0


def test_a_missing_failed_share_makes_a_gap_only_where_it_counts() -> None:
    gappy = look(WHOLE, error_rate=None)
    assert request_sample(gappy, "e2e", None) is not None
    assert request_sample(gappy, "e2e", DropWatch()) is None


def test_a_latency_of_zero_is_no_answer() -> None:
    assert request_sample(look(WHOLE, e2e_p95_s=0.0), "e2e", None) is None


def test_a_drop_is_a_rise_since_the_last_known_look() -> None:
    drops = DropWatch()
    shares = [0.0, 0.1, 0.1, None, 0.1, 0.2, 0.1, 0.15]
    found = [request_sample(look(WHOLE, error_rate=share), "e2e", drops) for share in shares]
    assert [one and one.is_drop for one in found] == [
        *(False, True, False, None),
        *(False, True, False, True),
    ]


def test_a_limit_is_given_back_as_it_was() -> None:
    for before in (None, 0, 50):
        limit, start = TakenLimit(), GatewaySettings(4, 7, before)
        assert limit.give_back(start) is start
        taken = limit.take(start, 3)
        assert taken == GatewaySettings(4, 7, 3)
        assert limit.take(taken, 9).max_outstanding == 9
        again = TakenLimit(**limit.saved())
        assert again.give_back(taken) == start
        assert not again.is_taken
        assert astuple(limit) == (True, before)


def test_tokens_are_prompt_and_output_together() -> None:
    assert token_rate_tps(look(tokens=1234.0)) == 1234.0
    prompts, answers = {"prompt_token_rate_tps": 1000.0}, {"output_token_rate_tps": 234.0}
    assert token_rate_tps(look(prompts | answers)) == 1234.0
    assert [token_rate_tps(look(one)) for one in ({}, prompts, answers)] == [None] * 3
