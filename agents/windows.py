"""Which stretches of a range become episodes: disjoint windows, the same for every policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

MAX_DEFAULT_WINDOWS: Final = 64
"""Windows taken where none are asked for: about 0.2 s of simulation each on two cores, and enough
for an interval of a fifth of the spread."""


class WindowError(ValueError):
    """A range that cannot hold what is asked of it: one line that says what would be right."""


@dataclass(frozen=True, slots=True)
class Window:
    """One episode's place in a range of traffic; policies are paired by it."""

    index: int
    """Number within the plan, from 0."""
    round: int
    """0: the range's own superposition; later ones lay the shifted copies anew."""
    position: int
    """Number of the stretch; the same stretch in two rounds shares the unshifted traffic."""
    start_s: float
    """Start of the episode, seconds from the range's start."""
    seed: int
    """Of everything random in the episode: router, cold starts, faults."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The windows of one range."""

    windows: tuple[Window, ...]
    """In the order of rounds, then of time."""
    fitting: int
    """Disjoint windows that the range holds."""
    request_seeds: tuple[int, ...]
    """Seed of the offered load of each round."""
    asked: int | None
    """Windows asked for; `None`: no wish."""

    @property
    def rounds(self) -> int:
        """How many superpositions are used."""
        return len(self.request_seeds)

    def in_round(self, number: int) -> tuple[Window, ...]:
        """The windows of one round."""
        return tuple(window for window in self.windows if window.round == number)


def plan_windows(
    range_s: float,
    episode_s: float,
    *,
    seed: int,
    asked: int | None = None,
    can_redraw: bool = False,
    where: str = "the range",
) -> WindowPlan:
    """Spreads disjoint windows evenly over a range.

    Without a wish all that fit are taken, at most `MAX_DEFAULT_WINDOWS`. More than fit are made by
    further rounds where the load can be drawn anew; where it cannot, those that fit must do.

    Args:
        range_s: Length of the range in seconds.
        episode_s: Length of an episode in seconds.
        seed: Base of all seeds.
        asked: Number of windows wished.
        can_redraw: Whether another seed gives another load (shifted copies, or a sampled model).
        where: Names the range in errors.

    Raises:
        WindowError: Not one episode fits.
    """
    fitting = math.floor(range_s / episode_s * (1 + 1e-12))
    if fitting < 1:
        msg = f"{where} holds {range_s:g} s, an episode takes {episode_s:g} s"
        raise WindowError(msg)
    if asked is None:
        sizes = [min(fitting, MAX_DEFAULT_WINDOWS)]
    elif can_redraw:
        full, rest = divmod(asked, fitting)
        sizes = [fitting] * full + [rest] * (rest > 0)
    else:
        sizes = [min(asked, fitting)]
    windows: list[Window] = []
    for number, size in enumerate(sizes):
        stride_s = range_s / (fitting if len(sizes) > 1 else size)
        for place in range(size):
            position = place * fitting // size if len(sizes) > 1 else place
            start_s = min(position * stride_s, range_s - episode_s)
            windows.append(
                Window(len(windows), number, position, start_s, _seed(seed, number, position))
            )
    request_seeds = tuple(_seed(seed, number) for number in range(len(sizes)))
    return WindowPlan(tuple(windows), fitting, request_seeds, asked)


def _seed(*words: int) -> int:
    """A seed that depends on every word."""
    return int(np.random.SeedSequence(words).generate_state(1)[0])
