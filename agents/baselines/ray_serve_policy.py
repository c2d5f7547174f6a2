"""What Ray Serve's default policy makes of the number of ongoing requests.

Rule of Ray up to 2.54 and of the tree of early 2026. Sources, in ray-project/ray:
`python/ray/serve/autoscaling_policy.py` (00590c4), `python/ray/serve/_private/autoscaling_state.py`
(0021519), `python/ray/serve/config.py`. Since ray#62004 the delays are measured by the clock
instead of in loops; that is another rule and not this one.

Regimes of a loop, with N running replicas, T the target number of replicas and D = N x (total /
(target x N)):

1. N = 0: `max(ceil(upscaling_factor), T)` if anything is ongoing, else T: at once, the counter
   stays as it is;
2. else the wish is `ceil(N + f (D - N))`, with the factor of its direction, one less if that does
   not move although `ceil(D) < N`; then the bounds;
3. a wish above T counts up, one below counts down, one at T resets; a change of direction starts
   anew. The wish of the loop that makes the count exceed `int(delay / loop)` is taken, whatever
   those before it wished;
4. to zero only from T = 1; from above the wish is at least 1 there.

Quirks kept: the wish is measured from the running replicas and compared with the target number;
growth of a fraction rounds up, so does shrinking, which the "one less" mends; `int` of a binary
quotient may lose a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Aggregation = Literal["mean", "max", "min"]
"""`aggregation_function`: how samples of the look-back become one number."""


@dataclass(frozen=True, slots=True)
class Gains:
    """How much of a difference one decision makes good."""

    up: float = 1.0
    """`upscaling_factor`."""
    down: float = 1.0
    """`downscaling_factor`."""


@dataclass(frozen=True, slots=True)
class Delays:
    """How long a wish must last."""

    up_s: float = 30.0
    """`upscale_delay_s`."""
    down_s: float = 600.0
    """`downscale_delay_s`."""
    to_zero_s: float | None = None
    """`downscale_to_zero_delay_s`; `None`: the delay of any other shrink."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment at one loop."""

    running: int
    """Replicas that run."""
    target: int
    """Replicas asked for."""
    minimum: int
    """Fewest replicas; 0 is allowed."""
    maximum: int
    """Most replicas."""

    def bounded(self, replicas: int) -> int:
        """The allowed number nearest to `replicas`."""
        return max(self.minimum, min(self.maximum, replicas))


def aggregated(samples: Sequence[float], aggregation: Aggregation) -> float:
    """One number for the samples of a look-back, at least one."""
    if aggregation == "max":
        return max(samples)
    if aggregation == "min":
        return min(samples)
    return sum(samples) / len(samples)


def scaled_replicas(desired: float, running: int, gains: Gains) -> int:
    """The wish after the gain of its direction."""
    difference = desired - running
    gain = gains.up if difference > 0 else gains.down
    scaled = math.ceil(running + gain * difference)
    is_stuck = math.ceil(desired) < running and scaled == running
    return scaled - 1 if is_stuck else scaled


@dataclass(slots=True)
class DelayCounter:
    """How many loops in a row wished for more (positive) or for fewer (negative)."""

    count: int = 0

    def delayed(self, wish: int, target: int, delays: Delays, loop_s: float) -> int:
        """The wish once it has lasted, until then the target number; counts the loop."""
        if wish > target:
            self.count = max(self.count, 0) + 1
            if self.count > int(delays.up_s / loop_s):
                self.count = 0
                return wish
        elif wish < target:
            self.count = min(self.count, 0) - 1
            delay_s = delays.down_s
            if target == 1:
                delay_s = delays.down_s if delays.to_zero_s is None else delays.to_zero_s
            else:
                wish = max(1, wish)
            if self.count < -int(delay_s / loop_s):
                self.count = 0
                return wish
        else:
            self.count = 0
        return target


@dataclass(frozen=True, slots=True)
class Policy:
    """The default policy with its configuration."""

    target_ongoing: float = 2.0
    """`target_ongoing_requests`: ongoing requests per replica."""
    gains: Gains = Gains()
    """Factors of either direction."""
    delays: Delays = Delays()
    """Delays of either direction."""

    def decided(
        self, total: float, deployment: Deployment, counter: DelayCounter, loop_s: float
    ) -> int:
        """The number of replicas to ask for.

        Args:
            total: Ongoing requests over all replicas, queued ones included, over the look-back.
            deployment: Replicas and their bounds.
            counter: What the loops before counted.
            loop_s: Seconds from one loop to the next (0.1 upstream).
        """
        running = deployment.running
        if running == 0:
            replicas = deployment.target
            if total > 0:
                replicas = max(math.ceil(self.gains.up), replicas)
            return deployment.bounded(replicas)
        desired = running * (total / (self.target_ongoing * running))
        wish = deployment.bounded(scaled_replicas(desired, running, self.gains))
        return deployment.bounded(counter.delayed(wish, deployment.target, self.delays, loop_s))
