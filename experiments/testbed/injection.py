"""Faults on a clock: which replica does what, from when to when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from .errors import LaunchError

FaultKind = Literal["errors", "slow", "hang", "kill"]
"""Fail a share of the requests, slow down by a factor, stop, be killed."""

SYNTAX: Final = (
    "REPLICA:errors=SHARE@FROM-TO, also slow=FACTOR, hang, kill; e.g. 1:errors=0.6@30-90"
)
"""How a fault is written; without TO it lasts."""

_PATTERN: Final = re.compile(
    r"(?P<replica>\d+):(?P<kind>errors|slow|hang|kill)(?:=(?P<value>[\d.]+))?"
    r"@(?P<start>[\d.]+)(?:-(?P<end>[\d.]+)?)?"
)
_HEALTHY: Final[dict[str, dict[str, Any]]] = {
    "errors": {"error_share": 0.0},
    "slow": {"slow_factor": 1.0},
    "hang": {"hang": False},
}


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault of one replica; times count from the start of the load."""

    replica: int
    """Number of the replica, from 0."""
    kind: FaultKind
    """What it does."""
    value: float | None
    """Share of failing requests, or factor on the length of iterations."""
    start_s: float
    """Onset."""
    end_s: float | None
    """Its end; None: it lasts."""

    @property
    def onset(self) -> dict[str, Any]:
        """Body of the admin call that begins it; empty for a kill."""
        match self.kind:
            case "errors":
                return {"error_share": self.value}
            case "slow":
                return {"slow_factor": self.value}
            case "hang":
                return {"hang": True}
            case "kill":
                return {}

    @property
    def recovery(self) -> dict[str, Any]:
        """Body of the admin call that ends it."""
        return _HEALTHY.get(self.kind, {})


def parse_injection(text: str, replicas: int) -> Injection:
    """Reads a fault.

    Args:
        text: As in `SYNTAX`.
        replicas: Number of replicas there are.

    Raises:
        LaunchError: It is malformed, or there is no such replica.
    """
    found = _PATTERN.fullmatch(text)
    if found is None:
        msg = f"--fault {text}: expected {SYNTAX}"
        raise LaunchError(msg)
    try:
        numbers = {
            name: None if found[name] is None else float(found[name])
            for name in ("value", "start", "end")
        }
    except ValueError as error:
        msg = f"--fault {text}: {error}"
        raise LaunchError(msg) from error
    replica, value = int(found["replica"]), numbers["value"]
    start_s, end_s = numbers["start"] or 0.0, numbers["end"]
    kind: FaultKind = found["kind"]  # type: ignore[assignment]  # the pattern allows no other
    if replica >= replicas:
        msg = f"--fault {text}: replica {replica} is not one of 0 to {replicas - 1}"
        raise LaunchError(msg)
    if (value is not None) != (kind in ("errors", "slow")):
        msg = f"--fault {text}: errors and slow need a value, hang and kill have none"
        raise LaunchError(msg)
    if (kind == "errors" and value is not None and value > 1) or (kind == "slow" and value == 0):
        msg = f"--fault {text}: a share is at most 1, a factor above 0"
        raise LaunchError(msg)
    if end_s is not None and (end_s <= start_s or kind == "kill"):
        msg = f"--fault {text}: it must end after it begins; a kill has no end"
        raise LaunchError(msg)
    return Injection(replica, kind, value, start_s, end_s)
