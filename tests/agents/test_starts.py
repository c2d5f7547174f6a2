"""Training episodes begin only where some number of replicas would do."""

from dataclasses import replace

import numpy as np

from gatepilot.agents.layouts import Layouts
from gatepilot.agents.starts import keepable_starts
from gatepilot.envs.scenario import FaultSpec, Scenario
from gatepilot.envs.workload.request import Requests

EPISODE_TICKS = 20
EPISODE_S = EPISODE_TICKS * 15.0


def steady(rate_rps: float, span_s: float, prompt_tokens: int = 200) -> Requests:
    n = int(rate_rps * span_s)
    arrival_s = (np.arange(n, dtype=np.float64) + 0.5) / rate_rps
    return Requests(arrival_s, np.full(n, prompt_tokens), np.full(n, 20), span_s)


def layouts(scenario: Scenario, *loads: Requests) -> Layouts:
    return Layouts((scenario,) * len(loads), loads, (0,) * len(loads))


def test_windows_that_no_replicas_keep_are_left_out(small: Scenario) -> None:
    calm, flood = steady(1.0, 2 * EPISODE_S), steady(400.0, 2 * EPISODE_S)
    both = Requests(
        np.concatenate([calm.arrival_s, flood.arrival_s + calm.span_s]),
        np.concatenate([calm.prompt_tokens, flood.prompt_tokens]),
        np.concatenate([calm.output_tokens, flood.output_tokens]),
        4 * EPISODE_S,
    )
    starts = keepable_starts(layouts(small, calm, both), EPISODE_TICKS)[0]
    of_calm = starts[starts[:, 0] == 0, 1]
    of_both = starts[starts[:, 0] == 1, 1]
    assert of_calm.tolist() == [0.0, EPISODE_S / 2, EPISODE_S]
    # the warm-up before second 0 is the end of the flood, so the first window is not kept either
    assert of_both.tolist() == [EPISODE_S / 2, EPISODE_S]


def test_faults_do_not_count_against_a_window(small: Scenario) -> None:
    outage = FaultSpec(kind="brown_out", error_share=(1.0, 1.0), duration_s=EPISODE_S, start_s=0.0)
    broken = replace(small, faults=(outage,))
    starts = keepable_starts(layouts(broken, steady(1.0, EPISODE_S)), EPISODE_TICKS)[0]
    assert starts.tolist() == [[0.0, 0.0]]


def test_where_nothing_can_be_kept_everything_stays(small: Scenario) -> None:
    starts = keepable_starts(layouts(small, steady(400.0, 2 * EPISODE_S)), EPISODE_TICKS)[0]
    assert starts[:, 1].tolist() == [0.0, EPISODE_S / 2, EPISODE_S]


def test_each_scenario_has_places_of_its_own(small: Scenario) -> None:
    larger = replace(small, name="larger")
    calm, flood = steady(1.0, 2 * EPISODE_S), steady(400.0, 2 * EPISODE_S)
    both = Layouts((small, larger, small, larger), (calm, flood, flood, calm), (0, 1, 0, 1))
    of_small, of_larger = keepable_starts(both, EPISODE_TICKS)
    assert of_small.tolist() == [[0.0, 0.0], [0.0, EPISODE_S / 2], [0.0, EPISODE_S]]
    assert of_larger.tolist() == [[3.0, 0.0], [3.0, EPISODE_S / 2], [3.0, EPISODE_S]]
    few = keepable_starts(both, EPISODE_TICKS, at_most=2)
    assert [len(starts) for starts in few] == [1, 1]  # of two looked at, the flood's is not kept
