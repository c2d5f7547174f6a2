"""What the bridge remembers of the gateway, and what the policy is shown of it.

The history is the simulator's (`envs/batch.py`): one row a tick, NaN where nothing is known, and
the age of the last change of replicas, 0 on the tick that shows it. A blind tick is a row of NaN:
time passes, and nothing is made up for it. After a jump of the clock the history starts anew,
because nobody knows how old its rows are.

The advisor, where the policy has one, is the simulator's too, and goes the same way: a row a tick,
a row of NaN for a blind one, and anew after a jump of the clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ..agents.policy import Remembering
from ..envs.advisor import Advisor
from ..envs.schema.advice import Advice
from ..envs.schema.fields import FIELDS
from ..envs.schema.observation import ObservationSpec, encode
from ..envs.schema.settings import (
    MAX_THRESHOLD_STEPS,
    MIN_THRESHOLD_STEPS,
    THRESHOLD_STEP,
    GatewaySettings,
)
from ..envs.schema.snapshot import MetricsSnapshot
from .decision import Doubt

_EXACT: Final = 1e-6
"""Difference below which a value counts as a whole step."""
_LONGEST_GAP_TICKS: Final = 240
"""Ticks left out beyond which more change nothing but the age of the last change: after an hour of
15 s a history holds nothing, and an advisor next to nothing."""


class RememberingAdvisor(Advisor, Remembering, Protocol):
    """An advisor whose memory can be written down."""


@dataclass(slots=True)
class Sight:
    """The memory between ticks."""

    spec: ObservationSpec
    tick_s: float
    """Control interval."""
    advisor: RememberingAdvisor | None = None
    """Advises one gateway; there is one exactly where the observation shows advice."""
    is_advisor_new: bool = field(init=False)
    """Whether the advisor has seen nothing yet of what counts."""
    history: NDArray[np.float64] = field(init=False)
    """Shape `(T, F)`, oldest first."""
    since_change: int = 0
    """Ticks since the number of replicas was seen to change."""
    replicas: int | None = None
    """Replicas asked for, when last seen."""
    clocks_s: tuple[float, float] | None = None
    """Wall and monotonic clock of the last tick."""

    def __post_init__(self) -> None:
        """Starts with an empty history."""
        self._forget()

    def pass_time(self, now_s: float, monotonic_s: float) -> tuple[Doubt, ...]:
        """Notes that a tick has come; ticks that were skipped before it become rows of NaN.

        Args:
            now_s: Wall clock.
            monotonic_s: Monotonic clock of the same moment.

        Returns:
            What is doubtful about the time that passed.
        """
        before, self.clocks_s = self.clocks_s, (now_s, monotonic_s)
        if before is None:
            return ()
        wall_s, elapsed_s = now_s - before[0], monotonic_s - before[1]
        jump_s = wall_s - elapsed_s
        if abs(jump_s) > self.tick_s or elapsed_s <= 0:
            self._forget()
            return (
                Doubt(
                    "clock",
                    "wall clock",
                    f"went {wall_s:+.1f} s while the monotonic clock went {elapsed_s:+.1f} s",
                ),
            )
        skipped = round(elapsed_s / self.tick_s) - 1
        if skipped <= 0:
            return ()
        self._miss(skipped)
        return (
            Doubt("overrun", "tick", f"{skipped} left out before it, {elapsed_s:.1f} s passed"),
        )

    def blind(self) -> None:
        """A tick that shows nothing."""
        self._miss(1)

    def see(self, snapshot: MetricsSnapshot, in_force: GatewaySettings) -> NDArray[np.float32]:
        """A tick that shows something.

        Returns:
            The observation, shape `(D,)`.
        """
        if self.replicas is None or in_force.replicas != self.replicas:
            self.since_change = 0
        else:
            self.since_change += 1
        self.replicas = in_force.replicas
        row = snapshot.to_row()
        self._push(row)
        seen = encode(
            self.history[np.newaxis],
            np.array([self.since_change]),
            self.spec,
            self._advised(row[np.newaxis]),
        )
        observation: NDArray[np.float32] = seen[0]
        return observation

    def saved(self) -> dict[str, Any]:
        """The memory as JSON content; NaN as null."""
        return {
            "history": [[None if x != x else x for x in row] for row in self.history.tolist()],  # noqa: PLR0124
            "since_change": self.since_change,
            "replicas": self.replicas,
            "clocks_s": None if self.clocks_s is None else list(self.clocks_s),
            "advisor": None
            if self.advisor is None or self.is_advisor_new
            else self.advisor.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over a saved memory."""
        self.history = np.array(saved["history"], np.float64)
        self.since_change = saved["since_change"]
        self.replicas = saved["replicas"]
        clocks_s = saved["clocks_s"]
        self.clocks_s = None if clocks_s is None else (clocks_s[0], clocks_s[1])
        self.is_advisor_new = saved["advisor"] is None
        if self.advisor is not None and not self.is_advisor_new:
            self.advisor.restore(saved["advisor"])

    def _forget(self) -> None:
        self.history = np.full((self.spec.history_ticks, len(FIELDS)), np.nan)
        self.since_change = 0
        self.replicas = None
        self.is_advisor_new = True

    def _miss(self, ticks: int) -> None:
        """Ticks that show nothing."""
        for _ in range(min(ticks, _LONGEST_GAP_TICKS)):
            self._push(np.nan)
            if not self.is_advisor_new:
                self._advised(self.history[-1:])
        self._age(ticks)

    def _advised(self, rows: NDArray[np.float64]) -> Advice | None:
        """What the advisor says of the next row, `(1, F)`."""
        if self.advisor is None:
            return None
        if self.is_advisor_new:
            self.is_advisor_new = False
            return self.advisor.begin(np.zeros(1, np.int64), rows)
        return self.advisor.advise(rows)

    def _push(self, row: NDArray[np.float64] | float) -> None:
        self.history = np.roll(self.history, -1, axis=0)
        self.history[-1] = row

    def _age(self, ticks: int) -> None:
        if self.replicas is not None:
            self.since_change += ticks


def adopted(snapshot: MetricsSnapshot) -> tuple[GatewaySettings, tuple[str, ...]]:
    """The settings in force, as the contract can say them.

    Returns:
        Whole replicas and the nearest threshold step of the table, and a note for each value that
        had to be rounded. (Envoy's own default of 85 % is step 17, exactly.)
    """
    notes = []
    replicas = round(snapshot.replicas_requested)
    if abs(replicas - snapshot.replicas_requested) > _EXACT:
        notes.append(f"replicas_requested {snapshot.replicas_requested:g} taken as {replicas}")
    steps = round(snapshot.breaker_threshold / THRESHOLD_STEP)
    steps = min(max(steps, MIN_THRESHOLD_STEPS), MAX_THRESHOLD_STEPS)
    settings = GatewaySettings(replicas, steps)
    if abs(settings.threshold - snapshot.breaker_threshold) > _EXACT:
        notes.append(
            f"breaker_threshold {snapshot.breaker_threshold:g} taken as {settings.threshold:g}"
        )
    return settings, tuple(notes)
