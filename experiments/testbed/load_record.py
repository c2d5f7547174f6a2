"""What became of each request: a csv that grows while the load runs, live figures, a summary."""

from __future__ import annotations

import csv
import math
import time
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import numpy as np

Status = Literal["pending", "ok", "error", "timeout", "shed", "unfinished"]
"""`shed`: 429; `timeout`: 504; `error`: any other failure, a torn answer included; `unfinished`:
still under way when the load was ended."""
COLUMNS: Final = (
    "row",
    "arrival_s",
    "sent_at_s",
    "late_s",
    "prompt_tokens",
    "output_tokens",
    "replica",
    "http_status",
    "ttft_s",
    "e2e_s",
    "status",
)
"""Of the csv; in the order in which requests end."""
RECENT_S: Final = 60.0
"""Window of the live figures."""

_BY_HTTP_STATUS: Final[dict[int, Status]] = {429: "shed", 504: "timeout"}
_FAILED: Final = ("error", "timeout", "shed")
_PERCENTILES: Final = (50, 90, 95, 99)


@dataclass(slots=True)
class Outcome:
    """One request of a load."""

    row: int
    """Its number, from 0."""
    scheduled_s: float
    """When it is due, from the start of the load."""
    prompt_tokens: int
    """Length of the prompt."""
    output_tokens: int
    """Length of the answer."""
    sent_at_s: float = math.nan
    """When it was sent, seconds since the epoch."""
    late_s: float = math.nan
    """How much later than due."""
    replica: str = ""
    """Who answered; empty: the gateway itself, or nobody."""
    http_status: int = 0
    """Of the answer; 0: there was none."""
    ttft_s: float = math.nan
    """From sending to the first token."""
    e2e_s: float = math.nan
    """From sending to the end."""
    status: Status = "pending"
    """What became of it."""

    def conclude(self, tail: bytes) -> None:
        """Judges a whole answer.

        Args:
            tail: Its last bytes: a good stream ends with the token counts and `[DONE]`.
        """
        if self.http_status != 200:
            self.status = _BY_HTTP_STATUS.get(self.http_status, "error")
            return
        counted = f'"completion_tokens": {self.output_tokens},'.encode()
        is_whole = counted in tail and tail.rstrip().endswith(b"data: [DONE]")
        self.status = "ok" if is_whole else "error"


class Record:
    """The outcomes of one load."""

    def __init__(self, path: Path) -> None:
        """Begins a csv.

        Args:
            path: Replaced if it is there.
        """
        self._file = path.open("w", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(COLUMNS)
        self._counts: Counter[str] = Counter()
        self._sent = 0
        self._started_at_s = math.nan
        self._recent_sent: deque[float] = deque()
        self._recent: deque[tuple[float, Outcome]] = deque()
        self._ttft_s: list[float] = []
        self._e2e_s: list[float] = []
        self._late_s: list[float] = []

    def __enter__(self) -> Self:
        """The file is open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the file."""
        self._file.close()

    def begin(self, at_s: float) -> None:
        """Notes when the load began, seconds since the epoch."""
        self._started_at_s = at_s

    def sent(self, outcome: Outcome) -> None:
        """Notes that a request is on its way."""
        self._sent += 1
        self._late_s.append(outcome.late_s)
        self._recent_sent.append(outcome.sent_at_s)

    def ended(self, outcome: Outcome) -> None:
        """Notes what became of a request."""
        self._counts[outcome.status] += 1
        if outcome.status == "ok":
            self._ttft_s.append(outcome.ttft_s)
            self._e2e_s.append(outcome.e2e_s)
        self._recent.append((time.time(), outcome))
        self._writer.writerow(
            (
                outcome.row,
                repr(outcome.scheduled_s),
                f"{outcome.sent_at_s:.6f}",
                f"{outcome.late_s:.6f}",
                outcome.prompt_tokens,
                outcome.output_tokens,
                outcome.replica,
                outcome.http_status or "",
                "" if math.isnan(outcome.ttft_s) else f"{outcome.ttft_s:.6f}",
                f"{outcome.e2e_s:.6f}",
                outcome.status,
            )
        )

    def flush(self) -> None:
        """Brings the file up to date."""
        self._file.flush()

    def status(self) -> dict[str, Any]:
        """How it goes: counts so far, rate, errors and TTFT of the last minute."""
        now_s = time.time()
        while self._recent_sent and self._recent_sent[0] < now_s - RECENT_S:
            self._recent_sent.popleft()
        while self._recent and self._recent[0][0] < now_s - RECENT_S:
            self._recent.popleft()
        outcomes = [outcome for _, outcome in self._recent]
        begun = not math.isnan(self._started_at_s)
        elapsed_s = now_s - self._started_at_s if begun else 0.0
        failed = sum(outcome.status in _FAILED for outcome in outcomes)
        return {
            "started_at_s": self._started_at_s if begun else None,
            "elapsed_s": elapsed_s,
            "sent": self._sent,
            "under_way": self._sent - self._counts.total(),
            "rate_rps": len(self._recent_sent) / max(min(elapsed_s, RECENT_S), 1.0),
            "error_rate": failed / len(outcomes) if outcomes else None,
            "ttft_s": _percentiles([o.ttft_s for o in outcomes if not math.isnan(o.ttft_s)]),
        }

    def summary(self) -> dict[str, Any]:
        """The whole load."""
        ended = sum(self._counts[name] for name in ("ok", *_FAILED))
        failed = sum(self._counts[name] for name in _FAILED)
        names = ("ok", *_FAILED, "unfinished")
        return {
            "requests": self._sent,
            **{name: self._counts[name] for name in names},
            "error_rate": failed / ended if ended else None,
            "ttft_s": _percentiles(self._ttft_s),
            "e2e_s": _percentiles(self._e2e_s),
            "late_s": _percentiles(self._late_s),
        }


def _percentiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    found = np.percentile(values, _PERCENTILES)
    return {f"p{q}": float(value) for q, value in zip(_PERCENTILES, found, strict=True)}
