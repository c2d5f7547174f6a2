"""One tick: what was read goes in, a decision comes out. No clock, no file, no network.

The live loop, a replay and a rehearsal on a virtual clock call the same `tick`. All that it
remembers between ticks is in `saved()`; after `restore` of that, the same inputs give the same
decisions to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..agents.policy import Controller as Incumbent
from ..agents.policy import memory_of, restore_memory
from ..envs.schema.settings import Limits
from .decision import Content, Decision, Doubt, Evidence, Lifecycle, Outcome, Proposal, Verdict
from .guardrails.bounds import Bounds, BoundsParams
from .guardrails.chain import judged
from .guardrails.drift import Drift, DriftParams
from .guardrails.freshness import Freshness
from .guardrails.guardrail import Context, Guardrail
from .metrics.source import Problem, Reading, Sample
from .mode import ModeState, advanced
from .proposals import SealedPolicy, Wish, wishes
from .sight import RememberingAdvisor, Sight

_MOST_QUERIES: Final = 256
"""Query texts that are remembered as recorded; a catalogue has some dozens."""


@dataclass(frozen=True, slots=True)
class ControllerParams:
    """What is set about the controller; interval and observation come from the artifact."""

    limits: Limits
    """How many replicas there may be."""
    good_ticks: int = 3
    """Good ticks in a row before anything counts."""
    drift: DriftParams = DriftParams()  # noqa: RUF009  # frozen
    bounds: BoundsParams = BoundsParams()  # noqa: RUF009  # frozen
    lifecycle: Lifecycle = "SHADOW"

    def __post_init__(self) -> None:
        """Refuses a count that trusts blindly.

        Raises:
            ValueError: `good_ticks` is below 1.
        """
        if self.good_ticks < 1:
            msg = f"good_ticks is {self.good_ticks}, expected 1 or more"
            raise ValueError(msg)


class Controller:
    """The bridge's head: one artifact, one gateway, one incumbent."""

    def __init__(
        self,
        params: ControllerParams,
        policy: SealedPolicy,
        incumbent: Incumbent,
        advisor: RememberingAdvisor | None = None,
    ) -> None:
        """Starts in BOOT.

        Args:
            params: What is set.
            policy: The artifact's policy.
            incumbent: The controller it is compared with; fresh, or to be restored.
            advisor: Advises the policy, if it was trained with one; likewise.

        Raises:
            ValueError: The drift parameters do not fit the policy's observation, or the advisor is
                not the one that it was trained with.
        """
        contract = policy.manifest.contract_object()
        if contract.advisor != (None if advisor is None else advisor.identity):
            raise ValueError("advisor: the policy was trained with another one, or with none")
        self.params = params
        self.tick_s = contract.control_interval_s
        self._policy = policy
        self._incumbent = incumbent
        self._sight_guardrails: tuple[Guardrail, ...] = (Freshness(),)
        self._guardrails: tuple[Guardrail, ...] = (
            Drift(params.drift, policy.manifest.features),
            Bounds(params.bounds),
        )
        self._sight = Sight(contract.observation, self.tick_s, advisor)
        self._states: dict[str, Any] = {
            guardrail.name: guardrail.initial()
            for guardrail in (*self._sight_guardrails, *self._guardrails)
        }
        self._queries: dict[str, str] = {}
        self.mode = ModeState()

    def tick(
        self,
        reading: Reading,
        *,
        seq: int,
        now_s: float,
        monotonic_s: float,
        troubles: Sequence[Doubt] = (),
    ) -> Decision:
        """Decides once.

        Args:
            reading: What the sources say.
            seq: Number of the record that the decision will be.
            now_s: Wall clock at the tick, seconds since the epoch.
            monotonic_s: Monotonic clock at the same moment.
            troubles: What is wrong outside: the tick is not a good one.
        """
        now_s, monotonic_s = float(now_s), float(monotonic_s)
        values = {name: float(reading.values[name]) for name in sorted(reading.values)}
        mode_before = self.mode.mode
        late = self._sight.pass_time(now_s, monotonic_s)
        problems = tuple(Doubt(one.kind, one.what, one.detail) for one in reading.problems)
        evidence = tuple(
            Evidence(one.name, one.query, None if one.value is None else float(one.value))
            for one in reading.samples
        )
        context = Context(values, problems, self.params.limits)
        _, verdicts, self._states = judged(self._sight_guardrails, None, context, self._states)
        wish = left = None
        if any(verdict.result == "veto" for verdict in verdicts):
            self._sight.blind()
        else:
            wish = wishes(values, self._sight, self._policy, self._incumbent)
            context = replace(context, in_force=wish.in_force, observation=wish.observation)
            left, more, self._states = judged(
                self._guardrails, wish.proposal, context, self._states
            )
            verdicts += more
        found = tuple(doubt for verdict in verdicts for doubt in verdict.doubts)
        doubts = (*troubles, *late, *found, *(wish.doubts if wish else ()))
        self.mode = advanced(
            self.mode,
            [str(doubt) for doubt in doubts],
            needed=self.params.good_ticks,
            now_s=now_s,
        )
        outcome, reason = self._outcome(wish, left, verdicts)
        seen: dict[str, Any] = {}
        if wish is not None:
            seen = {
                "in_force": wish.in_force,
                "notes": wish.notes,
                "observation_sha256": _digest(wish.observation),
                "proposal": wish.proposal,
                "incumbent": wish.incumbent,
                "final": left if outcome == "would_apply" else wish.in_force,
            }
            if wish.output is not None:
                seen |= {"logits": wish.output.logits, "action": wish.output.action}
        return Decision(
            seq=seq,
            at_s=now_s,
            monotonic_s=monotonic_s,
            lifecycle=self.params.lifecycle,
            mode_before=mode_before,
            mode=self.mode,
            troubles=tuple(troubles),
            problems=problems,
            values=values,
            evidence=evidence,
            queries=self._new_queries(evidence),
            doubts=doubts,
            verdicts=verdicts,
            outcome=outcome,
            reason=reason,
            expires_at_s=now_s + self.tick_s,
            **seen,
        )

    def replayed(self, content: Mapping[str, Any]) -> Content:
        """Decides again from what a recorded decision says it was given.

        Args:
            content: A decision's content.

        Returns:
            The content of the decision that comes out now: the same, to the bit.
        """
        texts = self._queries | content["queries"]
        reading = Reading(
            {name: float(value) for name, value in content["values"].items()},
            tuple(Problem(**problem) for problem in content["problems"]),
            tuple(
                Sample(name, texts[key], None if value is None else float(value))
                for name, key, value in content["evidence"]
            ),
        )
        return self.tick(
            reading,
            seq=content["seq"],
            now_s=content["at_s"],
            monotonic_s=content["monotonic_s"],
            troubles=[Doubt(**trouble) for trouble in content["troubles"]],
        ).content()

    def freeze(self, doubt: Doubt) -> None:
        """Freezes between two ticks; the caller writes a checkpoint before the next record."""
        self.mode = advanced(self.mode, [str(doubt)], needed=self.params.good_ticks, now_s=None)

    def saved(self) -> Content:
        """All that is remembered, as JSON content."""
        return {
            "mode": asdict(self.mode),
            "sight": self._sight.saved(),
            "guardrails": dict(self._states),
            "incumbent": memory_of(self._incumbent),
            "queries": dict(self._queries),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Takes over what another controller of the same parameters remembered."""
        self.mode = ModeState(**saved["mode"])
        self._sight.restore(saved["sight"])
        self._states = dict(saved["guardrails"])
        self._queries = dict(saved["queries"])
        restore_memory(self._incumbent, saved["incumbent"])

    def _outcome(
        self, wish: Wish | None, left: Proposal | None, verdicts: Sequence[Verdict]
    ) -> tuple[Outcome, str]:
        if self.mode.mode != "NORMAL":
            counted = f"{self.mode.good_ticks} of {self.params.good_ticks} good ticks"
            blind = "nothing is proposed" if wish is None else "nothing counts"
            return "held", f"{self.mode.mode}, {blind} ({counted}): {self.mode.reason}"
        if wish is None or left is None:  # a veto without a doubt
            return "held", "; ".join(v.reason for v in verdicts if v.result == "veto")
        if left != wish.in_force:
            return (
                "would_apply",
                "the change passed the guardrails; in shadow nobody makes it",
            )
        if wish.proposal != wish.in_force:
            return "unchanged", "; ".join(v.reason for v in verdicts if v.result == "clamp")
        return "unchanged", "the policy wants no change"

    def _new_queries(self, evidence: Sequence[Evidence]) -> dict[str, str]:
        new = {one.key: one.query for one in evidence if one.key not in self._queries}
        if len(self._queries) + len(new) > _MOST_QUERIES:
            self._queries = {}
            new = {one.key: one.query for one in evidence}
        self._queries |= new
        return new


def _digest(observation: NDArray[np.float32]) -> str:
    return hashlib.sha256(observation.astype("<f4").tobytes()).hexdigest()
