"""LiteLLM's cool-down of a deployment, on LiteLLM's own inputs.

Formula: at each failed request of a deployment, over its requests of the current clock minute,

1. the status counts at all: 401, 404, 408, 429, and whatever is no 4xx;
2. 429, and the model group has more than one deployment: cool down;
3. all of at least 1,000 requests failed: cool down;
4. more than 50 % of at least 5 failed, and the group has more than one: cool down;
5. the status is not retried (retried: 408, 409, 429, and 500 or above): cool down;
6. else not. These are the regimes.

A deployment that cools down gets no requests for 5 s.

Version: BerriAI/litellm, `litellm/router_utils/cooldown_handlers.py` (`_is_cooldown_required`,
`_should_cooldown_deployment`, of mid 2026), `litellm/constants.py`, `_should_retry` in
`litellm/utils.py` (commit 001501fb), `litellm/router_utils/cooldown_cache.py`, and
`litellm/caching/in_memory_cache.py` (f5c6c4a9). The variants with `allowed_fails` and
`allowed_fails_policy`, which an operator has to set, are not here.

Quirks kept: the counts are those of the clock minute, so they start anew at second 0 whatever
happened a second before. Failures that come in while it cools down do not extend the time. Nothing
keeps a last deployment: where all cool down, the group has none. A 401 or 404 takes out a single
deployment too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

_RATE_LIMITED: Final = 429
_COOLED_4XX: Final = frozenset({401, 404, 408, 429})
_RETRIED_4XX: Final = frozenset({408, 409, 429})
_FIRST_4XX: Final = 400
_FIRST_5XX: Final = 500
_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class CooldownParams:
    """LiteLLM's constants; each can be set by an environment variable of its name."""

    failure_fraction: float = 0.5
    """Failed share above which a deployment cools down (`DEFAULT_FAILURE_THRESHOLD_PERCENT`)."""
    minimum_requests: int = 5
    """Requests before a share is taken (`DEFAULT_FAILURE_THRESHOLD_MINIMUM_REQUESTS`)."""
    all_failed_requests: int = 1000
    """Requests of which all must have failed to cool down the only one of a group
    (`SINGLE_DEPLOYMENT_TRAFFIC_FAILURE_THRESHOLD`)."""
    cooldown_s: float = 5.0
    """How long (`DEFAULT_COOLDOWN_TIME_SECONDS`)."""


def counts_for_cooldown(status: int) -> bool:
    """Whether an error of this HTTP status is looked at."""
    return status in _COOLED_4XX or not _FIRST_4XX <= status < _FIRST_5XX


def is_retried(status: int) -> bool:
    """Whether LiteLLM would try again after it."""
    return status in _RETRIED_4XX or status >= _FIRST_5XX


def cools_down(
    params: CooldownParams, status: int, successes: int, failures: int, group_size: int
) -> bool:
    """Whether a failed request cools its deployment down.

    Args:
        params: LiteLLM's constants.
        status: The failure's HTTP status.
        successes: Of the deployment in the current minute.
        failures: The same, this one included.
        group_size: Deployments of the model group.
    """
    if not counts_for_cooldown(status):
        return False
    is_single, requests = group_size == 1, successes + failures
    share = failures / requests if requests else 0.0
    if status == _RATE_LIMITED and not is_single:
        return True
    if share == 1.0 and requests >= params.all_failed_requests:
        return True
    if share > params.failure_fraction and requests >= params.minimum_requests and not is_single:
        return True
    return not is_retried(status)


@dataclass(slots=True)
class _Deployment:
    minute: int = -1
    successes: int = 0
    failures: int = 0
    cool_until_s: float = -math.inf


@dataclass(slots=True)
class ModelGroup:
    """The deployments of one model; times are seconds since a full minute."""

    size: int
    params: CooldownParams = CooldownParams()
    deployments: list[_Deployment] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fresh deployments."""
        self.deployments = [_Deployment() for _ in range(self.size)]

    def available(self, now_s: float) -> list[int]:
        """The deployments that get requests."""
        return [i for i, one in enumerate(self.deployments) if now_s >= one.cool_until_s]

    def succeeded(self, number: int, now_s: float) -> None:
        """Counts a success."""
        self._current(number, now_s).successes += 1

    def failed(self, number: int, now_s: float, status: int) -> None:
        """Counts a failure, and cools the deployment down if the rule says so."""
        one = self._current(number, now_s)
        one.failures += 1
        is_bad = cools_down(self.params, status, one.successes, one.failures, self.size)
        if is_bad and now_s > one.cool_until_s:
            one.cool_until_s = now_s + self.params.cooldown_s

    def _current(self, number: int, now_s: float) -> _Deployment:
        one, minute = self.deployments[number], int(now_s // _MINUTE_S)
        if one.minute != minute:
            one.minute, one.successes, one.failures = minute, 0, 0
        return one
