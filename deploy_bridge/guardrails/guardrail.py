"""What a guardrail is: a function of proposal, context and its own state, so that replay is exact.

A guardrail may let a proposal pass, reduce the change, or refuse it. It never enlarges a change and
never proposes. One reason to say no is one file of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.settings import Limits
from ..decision import Doubt, Proposal, Verdict

State: TypeAlias = Any
"""JSON content; each guardrail knows its own form."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a tick knows."""

    values: Mapping[str, float]
    """The reading."""
    problems: tuple[Doubt, ...]
    """What its sources say against it."""
    limits: Limits
    """How many replicas there may be."""
    in_force: Proposal | None = None
    """The settings as read; `None` as long as the reading has not been judged."""
    observation: NDArray[np.float32] | None = None
    """What the policy was shown."""


class Guardrail(Protocol):
    """One reason to say no."""

    @property
    def name(self) -> str:
        """Its word in records."""
        ...

    def initial(self) -> State:
        """Its state before the first tick."""
        ...

    def judge(
        self, proposal: Proposal | None, context: Context, state: State
    ) -> tuple[Verdict, State]:
        """Judges one tick.

        Args:
            proposal: What is wanted; `None` before the policy has been asked.
            context: What is known.
            state: Its own, as it returned it last.

        Returns:
            The verdict and its next state. A veto with doubts freezes.
        """
        ...
