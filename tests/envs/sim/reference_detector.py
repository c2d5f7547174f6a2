"""Envoy's outlier detection by failure percentage a second time, in plain Python.

Written from what Envoy does (`source/common/upstream/outlier_detection_impl.cc`), an interval at a
time: hosts whose time is over come back; those that have enough answers are judged; the back-off
of those that are in, and were not let in this very moment, falls. Times are whole numbers of
intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Host:
    out: bool = False
    backoff: int = 0
    since: int | None = None  # when it was ejected
    back: int | None = None  # when it was let in again


@dataclass
class Detector:
    hosts: int
    threshold_percent: int
    minimum_hosts: int = 2
    request_volume: int = 10
    base: int = 3  # intervals
    cap: int = 30
    max_ejection_percent: int = 50
    now: int = 0
    table: list[Host] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = [Host() for _ in range(self.hosts)]

    @property
    def ejected(self) -> list[bool]:
        return [host.out for host in self.table]

    def interval(self, answers: Sequence[int], failures: Sequence[int]) -> list[bool]:
        """The end of one interval with so many answers and failures a host: who is out then."""
        self.now += 1
        for host in self.table:
            length = min(self.base * host.backoff, self.cap)
            if host.out and host.since is not None and length <= self.now - host.since:
                host.out = False
                host.back = self.now
        valid = [
            (host, Fraction(100 * bad, total))
            for host, total, bad in zip(self.table, answers, failures, strict=True)
            if not host.out and total >= self.request_volume and total > 0
        ]
        if len(valid) >= self.minimum_hosts:
            for host, percent in valid:
                if percent < self.threshold_percent:
                    continue
                share = Fraction(100 * (sum(self.ejected) + 1), self.hosts)
                if share <= self.max_ejection_percent:
                    host.out = True
                    host.since = self.now
                    if host.backoff * self.base < self.cap + self.base:
                        host.backoff += 1
        for host in self.table:
            if not host.out and host.back is not None and self.now - host.back >= 1:
                host.backoff = max(host.backoff - 1, 0)
        return self.ejected
