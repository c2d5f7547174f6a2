"""Envoy's outlier detection by failure percentage and by errors in a row, in plain Python.

Written from what Envoy does (`source/common/upstream/outlier_detection_impl.cc`), an interval at a
time: hosts whose time is over come back; those that have enough answers are judged; the back-off
of those that are in, and were not let in this very moment, falls. Times are counted in intervals,
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Host:
    out: bool = False
    backoff: int = 0
    since: Fraction | None = None  # when it was ejected
    back: Fraction | None = None  # when it was let in again
    jitter: Fraction = Fraction(0)  # on top of its present time out
    in_a_row: int = 0  # errors


@dataclass
class Detector:
    hosts: int
    threshold_percent: int
    minimum_hosts: int = 2
    request_volume: int = 10
    base: Fraction | int = 3
    cap: Fraction | int = 30
    max_ejection_percent: int = 50
    always_eject_one_host: bool = False
    consecutive_5xx: int = 0  # 0: off
    is_enforced: Callable[[], bool] = lambda: True  # drawn anew for each ejection
    jitter: Callable[[], Fraction] = lambda: Fraction(0)  # drawn anew for each ejection
    is_late: Callable[[], bool] = lambda: False  # which side of equal times: Envoy's timer decides
    order: Sequence[int] = ()  # in which the hosts are looked at; default: as they are numbered
    now: Fraction = Fraction(0)
    table: list[Host] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = [Host() for _ in range(self.hosts)]
        self.order = self.order or range(self.hosts)

    @property
    def ejected(self) -> list[bool]:
        return [host.out for host in self.table]

    def answer(self, number: int, is_error: bool, at: Fraction) -> None:
        """One answer within an interval, for the detection of errors in a row alone."""
        host = self.table[number]
        host.in_a_row = host.in_a_row + 1 if is_error else 0
        if is_error and host.in_a_row == self.consecutive_5xx and not host.out:
            self._eject(host, at)
            host.in_a_row = 0

    def interval(self, answers: Sequence[int], failures: Sequence[int]) -> list[bool]:
        """The end of one interval with so many answers and failures a host: who is out then."""
        self.now += 1
        for host in self._in_order():
            length = min(self.base * host.backoff, self.cap) + host.jitter
            if host.out and host.since is not None and self._is_over(host.since, length):
                host.out = False
                host.back = self.now
                host.in_a_row = 0
        valid = [
            (self.table[number], Fraction(100 * failures[number], answers[number]))
            for number in self.order
            if not self.table[number].out and answers[number] >= max(self.request_volume, 1)
        ]
        if len(valid) >= self.minimum_hosts:
            for host, percent in valid:
                if percent >= self.threshold_percent:
                    self._eject(host, self.now)
        for host in self._in_order():
            if not host.out and host.back is not None and self._is_over(host.back, Fraction(1)):
                host.backoff = max(host.backoff - 1, 0)
        return self.ejected

    def _in_order(self) -> list[Host]:
        return [self.table[number] for number in self.order]

    def _is_over(self, since: Fraction, length: Fraction | int) -> bool:
        passed = self.now - since
        return passed > length or (passed == length and not self.is_late())

    def _eject(self, host: Host, at: Fraction) -> None:
        share = Fraction(100 * (sum(self.ejected) + 1), self.hosts)
        is_first = self.always_eject_one_host and not any(self.ejected)
        if not (share <= self.max_ejection_percent or is_first) or not self.is_enforced():
            return
        host.out = True
        host.since = at
        host.jitter = self.jitter()
        if host.backoff * self.base < self.cap + self.base:
            host.backoff += 1
