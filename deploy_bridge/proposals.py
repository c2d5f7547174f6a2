"""What the policy and the incumbent want, given a reading that can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..agents.artifact.errors import NonFiniteError
from ..agents.artifact.manifest import Manifest
from ..agents.artifact.runtime import PolicyOutput
from ..agents.policy import Controller as Incumbent
from ..envs.schema.action import decode
from ..envs.schema.snapshot import MetricsSnapshot
from .decision import Doubt, Proposal
from .sight import Sight, adopted


class SealedPolicy(Protocol):
    """What the controller asks of a policy (`agents.artifact.runtime.ArtifactPolicy`)."""

    @property
    def manifest(self) -> Manifest:
        """What it is and what it was trained on."""
        ...

    def decide(self, observation: NDArray[np.float32]) -> PolicyOutput:
        """An action for one observation `(D,)`; raises where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Wish:
    """What was made of one reading."""

    in_force: Proposal
    """The settings that it shows."""
    notes: tuple[str, ...]
    """How a value in force was fitted to the contract's steps."""
    observation: NDArray[np.float32]
    """What the policy was shown."""
    output: PolicyOutput | None
    """What it said; `None`: it failed."""
    proposal: Proposal | None
    """What that means for the settings, before any limit."""
    incumbent: Proposal | None
    """What the incumbent would set; `None`: it failed."""
    doubts: tuple[Doubt, ...]
    """Which of the two failed, and how."""


def wishes(
    values: Mapping[str, float], sight: Sight, policy: SealedPolicy, incumbent: Incumbent
) -> Wish:
    """Asks both; whatever they raise is a doubt.

    Args:
        values: A reading that the freshness guardrail has let pass: names and ranges are good.
        sight: The memory; it is told of the reading.
        policy: The artifact's policy.
        incumbent: The controller beside it.
    """
    snapshot = MetricsSnapshot(**values)
    settings, notes = adopted(snapshot)
    observation = sight.see(snapshot, settings)
    output = proposal = wanted = None
    doubts = []
    try:
        answer = policy.decide(observation)
        scale, threshold = decode(np.array([answer.action]))
        if not np.isfinite(answer.logits).all():
            raise NonFiniteError(f"logits are {answer.logits}")
        output = answer
        proposal = Proposal(
            settings.replicas + int(scale[0]), settings.threshold_steps + int(threshold[0])
        )
    except Exception as error:  # whatever a policy does, the bridge holds and goes on
        doubts.append(Doubt("policy", "policy", _line(error)))
    try:
        rule = incumbent.decide(snapshot, settings)
        wanted = Proposal(rule.replicas, rule.threshold_steps, rule.max_outstanding)
    except Exception as error:  # the same for a rule
        doubts.append(Doubt("incumbent", "incumbent", _line(error)))
    in_force = Proposal(settings.replicas, settings.threshold_steps)
    return Wish(in_force, notes, observation, output, proposal, wanted, tuple(doubts))


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
