"""What one tick saw, what was proposed, who said what to it, and what came of it.

A decision is plain data: `content` gives it as JSON content, `canonical` as the one way to write
that down. The ledger holds those bytes, and a replay has to produce them again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ..envs.schema.settings import THRESHOLD_STEP
from .mode import ModeState

Lifecycle = Literal["SHADOW"]
"""What the artifact may do here. SHADOW: nothing; it is watched."""
Outcome = Literal["would_apply", "unchanged", "held"]
"""`would_apply`: the change stands, and in shadow nobody makes it. `unchanged`: nothing to change.
`held`: the settings in force are left alone, for the reason given."""
Result = Literal["pass", "clamp", "veto"]
"""What a guardrail says."""
Content: TypeAlias = dict[str, Any]
"""Plain JSON content: no NaN, no infinity."""

_DIGEST_CHARACTERS: Final = 12
"""Of a SHA-256, as the key of a query's text: 48 bits, for some dozens of texts."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason to freeze."""

    kind: str
    """`stale`, `missing`, `clock`, `policy`, `ledger`, ...: the class of the reason."""
    what: str
    """The query, field or part it is about."""
    detail: str
    """One line for the operator."""

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind}: {self.what}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One query and what it brought."""

    name: str
    query: str
    value: float | None

    @property
    def key(self) -> str:
        """What stands for the text in records."""
        return hashlib.sha256(self.query.encode()).hexdigest()[:_DIGEST_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings that somebody wants or that are in force; not yet checked against any limit."""

    replicas: int
    threshold_steps: int
    """Breaker threshold in steps of 0.05."""
    max_outstanding: int | None = None
    """Admission limit; the policy has no head for it, an incumbent may."""

    @property
    def threshold(self) -> float:
        """The breaker threshold as a share."""
        return round(self.threshold_steps * THRESHOLD_STEP, 2)


@dataclass(frozen=True, slots=True)
class Excess:
    """A value and the range it should have kept."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one guardrail says to a proposal."""

    guardrail: str
    result: Result
    reason: str = ""
    """Empty: nothing to remark."""
    before: Proposal | None = None
    after: Proposal | None = None
    """What is left of it; `None` after a veto."""
    values: tuple[Excess, ...] = ()
    """What it looked at, where that explains the result."""
    doubts: tuple[Doubt, ...] = ()
    """Reasons to freeze that it found."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One tick."""

    seq: int
    """Its number in the ledger."""
    at_s: float
    """Wall time, seconds since the epoch."""
    monotonic_s: float
    """The monotonic clock of the same moment."""
    lifecycle: Lifecycle
    mode_before: str
    mode: ModeState
    """After this tick."""
    troubles: tuple[Doubt, ...]
    """What the caller knew to be wrong before the tick, such as a ledger that cannot be written."""
    problems: tuple[Doubt, ...]
    """What the sources said against their own reading."""
    values: Mapping[str, float]
    """Fields of the contract as they were read; what is not known is absent."""
    evidence: tuple[Evidence, ...]
    queries: Mapping[str, str]
    """Texts of queries that no record since the last checkpoint has named, by their key."""
    doubts: tuple[Doubt, ...]
    """All reasons to freeze, wherever found. None: a good tick."""
    in_force: Proposal | None = None
    """The settings as the reading shows them; `None` on a blind tick."""
    notes: tuple[str, ...] = ()
    """How a value in force was fitted to the contract's steps."""
    observation_sha256: str | None = None
    """Of the float32 bytes, little endian."""
    logits: tuple[float, ...] | None = None
    action: tuple[int, int] | None = None
    """Head indices of the policy; 1 is "no change"."""
    proposal: Proposal | None = None
    """What the policy wants, before any guardrail. `None` on a blind tick, always."""
    verdicts: tuple[Verdict, ...] = ()
    incumbent: Proposal | None = None
    """What the incumbent controller would set."""
    outcome: Outcome = "held"
    final: Proposal | None = None
    """What would be in force after the tick; `None`: the last confirmed settings, unknown now."""
    reason: str = ""
    """One line: why this outcome."""
    expires_at_s: float = field(default=0.0)
    """Wall time from which on the decision must not be carried out any more."""

    @property
    def is_good(self) -> bool:
        """Whether nothing was doubtful."""
        return not self.doubts

    @property
    def is_blind(self) -> bool:
        """Whether nothing could be decided."""
        return self.in_force is None

    @property
    def counts(self) -> bool:
        """Whether it is evidence for or against the policy."""
        return self.mode.mode == "NORMAL"

    def content(self) -> Content:
        """The decision as JSON content; query texts are named by key."""
        plain = asdict(self)
        plain["values"] = {name: numeral(value) for name, value in self.values.items()}
        plain["evidence"] = [
            [one.name, one.key, None if one.value is None else numeral(one.value)]
            for one in self.evidence
        ]
        for verdict in plain["verdicts"]:
            for excess in verdict["values"]:
                excess["value"] = numeral(excess["value"])
        return plain


def canonical(content: Mapping[str, Any]) -> bytes:
    """JSON in the one way records are written: sorted keys, no white space, ASCII.

    Raises:
        ValueError: NaN or an infinity in it.
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def numeral(value: float) -> float | str:
    """A number as JSON content: what is not finite becomes a text, never a number."""
    return value if math.isfinite(value) else str(float(value))
