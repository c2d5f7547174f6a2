"""The same window played twice more: by the policy alone, and by the incumbent alone.

This is a simulation and says so wherever it is shown. It is the one honest way to a figure for the
policy here: shadow data of a deterministic incumbent give no estimate of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from ...agents.episodes import Episode, Outcomes, episodes_of
from ...agents.evaluation import play_controllers, play_policy, unkeepable
from ...agents.tuning import Reporter
from .plan import RehearsalPlan

POLICY: Final = "policy"
"""What the artifact is called beside the incumbent's name."""


@dataclass(frozen=True)
class Counterfactual:
    """What each did when it was alone."""

    outcomes: dict[str, Outcomes]
    """The policy's first, then the incumbent's."""
    episodes: tuple[Episode, ...]
    """Their figures, in the same order."""
    unkeepable_rate: float
    """Share of violating ticks with all replicas from the start and faults off; above 0, nobody
    keeps the window."""

    def as_dict(self) -> dict[str, Any]:
        """Plain content."""
        return {
            "simulated": True,
            "unkeepable_rate": self.unkeepable_rate,
            "episodes": [asdict(episode) for episode in self.episodes],
        }


def played_alone(plan: RehearsalPlan, reporter: Reporter) -> Counterfactual:
    """Plays the window under each, without guardrails and without telemetry faults.

    Args:
        plan: What is rehearsed.
        reporter: Shows progress.
    """
    trial, policy = plan.trial, plan.artifact
    spec = policy.manifest.observation_spec
    progress = reporter.start("each alone", 3 * trial.ticks)
    alone = {
        POLICY: play_policy(trial, policy, spec, progress, advisor=policy.manifest.advisor),
        plan.incumbent.name: play_controllers(
            trial, [lambda _: plan.incumbent.made(trial)], progress
        )[0],
    }
    episodes = [
        episode
        for name, outcomes in alone.items()
        for episode in episodes_of(
            outcomes,
            trial,
            policy=name,
            train_seed=policy.manifest.origin.seed if name == POLICY else None,
        )
    ]
    return Counterfactual(alone, tuple(episodes), float(unkeepable(trial, progress)[0]))
