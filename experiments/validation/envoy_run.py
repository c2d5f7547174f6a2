"""The failure script against a real Envoy: what it counted and whom it took out, by interval.

Envoy's own log of events says when an interval ended: the first ejection fixes the phase, each
further one the drift. Requests are sent well inside an interval, so it is certain in which of them
Envoy counted an answer; a run in which one comes close to a boundary is done again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import numpy as np
import yaml
from numpy.typing import NDArray

from ..testbed.binaries import LOOPBACK, find_binary, free_ports
from ..testbed.envoy import EnvoyFiles
from ..testbed.part import Part, PartSpec
from .envoy_load import DisturbedRunError, EventLog, LoggedEvent, ScriptedLoad, ScriptedReplica
from .failure_script import (
    BEGIN,
    BEGIN_REQUESTS,
    INTERVAL_S,
    INTERVALS,
    REPLICAS,
    SECOND_HALF,
    gateway,
    phase_of_each_interval,
)

_TRIES: Final = 3
"""Runs at most until one keeps its rhythm."""
_LEAD_S: Final = 0.2
"""From the start of an interval to its requests: until then all workers know who is in."""
_MARGIN_S: Final = 0.02
"""An answer this close to the end of an interval may belong to either side."""
_FIRST_WITHIN_S: Final = 30.0
"""Time Envoy has for its first ejection."""
_FLUSH_MS: Final = 20
"""How often Envoy writes its log of events; its default of 10 s is too slow to align with."""
_SPARE_S: Final = 0.3
"""After the last interval, for its events."""


@dataclass(frozen=True, slots=True)
class Change:
    """A replica taken out, or let in again."""

    interval: int
    """At whose end it happened; the first is 1."""
    replica: int
    """Number of the replica."""
    is_out: bool
    """Whether it was taken out."""


@dataclass(frozen=True, slots=True)
class EnvoyRun:
    """What one Envoy counted and did."""

    threshold_percent: int
    """Its threshold."""
    order: tuple[int, ...]
    """Replicas in the order in which it looks at them: arbitrary, fixed while it runs."""
    answers: NDArray[np.int64]
    """`(K, R)`: answers in each interval, by number of the replica."""
    failures: NDArray[np.int64]
    """`(K, R)`: errors among them."""
    changes: tuple[Change, ...]
    """In the order of its log."""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "threshold_percent": self.threshold_percent,
            "order": list(self.order),
            "answers": self.answers.tolist(),
            "failures": self.failures.tolist(),
            "changes": [[c.interval, c.replica, c.is_out] for c in self.changes],
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """What `as_json` made."""
        return cls(
            content["threshold_percent"],
            tuple(content["order"]),
            np.array(content["answers"], np.int64),
            np.array(content["failures"], np.int64),
            tuple(Change(*row) for row in content["changes"]),
        )


async def record_runs(
    thresholds_percent: Sequence[int], folder: Path, on_interval: Callable[[], None]
) -> list[EnvoyRun]:
    """Runs the script once for each threshold, side by side, each with an Envoy of its own.

    Args:
        thresholds_percent: In whole percent.
        folder: Gets a folder for each Envoy.
        on_interval: Told of every interval of every run.

    Raises:
        LaunchError: Envoy is not here or does not start.
        DisturbedRunError: The machine is too busy.
    """
    binary = find_binary("envoy")
    each = 2 + REPLICAS
    ports = free_ports(each * len(thresholds_percent))
    tasks = []
    for number, percent in enumerate(thresholds_percent):
        port, admin_port, *replica_ports = ports[each * number : each * (number + 1)]
        files = EnvoyFiles(
            binary=binary, folder=folder / str(percent), port=port, admin_port=admin_port
        )
        tasks.append(asyncio.create_task(_record(files, replica_ports, percent, on_interval)))
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _record(
    files: EnvoyFiles,
    replica_ports: Sequence[int],
    percent: int,
    on_interval: Callable[[], None],
) -> EnvoyRun:
    """One threshold's run, again if the machine was too busy."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return await _record_once(files, replica_ports, percent, on_interval)
        except DisturbedRunError as error:
            if tries_left == 0:
                msg = f"threshold {percent} %, {_TRIES} runs: {error}"
                raise DisturbedRunError(msg) from error
    raise AssertionError  # the last try has returned or raised


async def _record_once(
    files: EnvoyFiles,
    replica_ports: Sequence[int],
    percent: int,
    on_interval: Callable[[], None],
) -> EnvoyRun:
    files.write(gateway(percent), replica_ports)
    _tell_workers_at_once(files)
    envoy = Part(
        PartSpec(
            name=f"envoy, threshold {percent} %",
            command=(*files.command, "--file-flush-interval-msec", str(_FLUSH_MS)),
            log=files.folder / "envoy.log",
            ready_url=f"http://{LOOPBACK}:{files.admin_port}/ready",
        )
    )
    addresses = {f"{LOOPBACK}:{port}": number for number, port in enumerate(replica_ports)}
    replicas = [ScriptedReplica() for _ in replica_ports]
    async with AsyncExitStack() as stack:
        for replica, port in zip(replicas, replica_ports, strict=True):
            await replica.listen(port, stack)
        stack.push_async_callback(envoy.stop)
        await envoy.start()
        async with aiohttp.ClientSession() as session:
            await envoy.wait_ready(session)
        load = ScriptedLoad(files.port, addresses)
        await load.connect(stack)
        run = _Run(replicas, load, EventLog(files.ejections, addresses))
        await run.play(on_interval)
    return run.result(percent)


def _tell_workers_at_once(files: EnvoyFiles) -> None:
    """Switches off that Envoy's workers learn of the second and further changes a second later.

    By default (`update_merge_window`, 1 s) they do: a replica that is out still gets requests, one
    that is back gets none. That is long in an interval of a second; the detector has no part in it.
    """
    content = yaml.safe_load(files.bootstrap.read_text(encoding="utf-8"))
    (cluster,) = content["static_resources"]["clusters"]
    cluster["common_lb_config"]["update_merge_window"] = "0s"
    files.bootstrap.write_text(yaml.safe_dump(content), encoding="utf-8")


class _Run:
    """One script against one Envoy."""

    def __init__(
        self, replicas: Sequence[ScriptedReplica], load: ScriptedLoad, log: EventLog
    ) -> None:
        self._replicas = replicas
        self._load = load
        self._log = log
        self._unaligned = 0  # answers before the first ejection

    async def play(self, on_interval: Callable[[], None]) -> None:
        """From the first request to the last event."""
        first_half = await self._first_half()
        on_interval()
        phases = phase_of_each_interval()
        for interval in range(2, INTERVALS + 1):
            await _sleep_until(self._end_of(interval - 1) + _LEAD_S)
            if interval > BEGIN:
                phase = phases[interval - BEGIN - 1]
                await self._burst(phase.percent, phase.requests)
            else:
                rest_fails = interval == SECOND_HALF
                percent = [100 * (rest_fails and r not in first_half) for r in range(REPLICAS)]
                await self._burst(percent, BEGIN_REQUESTS)
            on_interval()
        await _sleep_until(self._end_of(INTERVALS) + _SPARE_S)

    async def _first_half(self) -> set[int]:
        """Has everybody fail until the first ejection: whom it takes."""
        deadline_s = time.time() + _FIRST_WITHIN_S
        await self._burst([100] * REPLICAS, BEGIN_REQUESTS)
        while not self._log.events():
            if time.time() > deadline_s:
                msg = f"no ejection within {_FIRST_WITHIN_S:g} s though every answer was an error"
                raise DisturbedRunError(msg)
            await asyncio.sleep(_FLUSH_MS / 1000)
        self._unaligned = len(self._load.answers)
        await asyncio.sleep(2 * _FLUSH_MS / 1000)  # for the other lines of that interval
        return {event.replica for event in self._log.events()}

    async def _burst(self, percent: Sequence[int], requests: int) -> None:
        """Sends the requests of one interval."""
        for replica, share in zip(self._replicas, percent, strict=True):
            replica.begin(share)
        await self._load.send(requests)

    def _end_of(self, interval: int) -> float:
        """When an interval ends, seconds since the epoch, from the newest event."""
        events = self._log.events()
        return events[-1].at_s + (interval - _interval_of(events[-1], events[0])) * INTERVAL_S

    def result(self, threshold_percent: int) -> EnvoyRun:
        """What Envoy counted and did.

        Raises:
            DisturbedRunError: An answer came too close to the end of an interval, or the beginning
                did not take out every replica once.
        """
        events = self._log.events()
        changes = [Change(_interval_of(e, events[0]), e.replica, e.is_out) for e in events]
        order = [change.replica for change in changes if change.is_out and change.interval <= BEGIN]
        if sorted(order) != list(range(REPLICAS)):
            msg = f"the beginning took out {order}, expected each replica once"
            raise DisturbedRunError(msg)
        ends_s = self._ends(events, changes)
        answers = np.zeros((INTERVALS, REPLICAS), np.int64)
        failures = np.zeros_like(answers)
        for number, answer in enumerate(self._load.answers):
            k = 0
            if number >= self._unaligned:
                k = int(np.searchsorted(ends_s, answer.sent_s - _MARGIN_S))
                if k == INTERVALS or answer.answered_s > ends_s[k] - _MARGIN_S:
                    msg = f"an answer came at the end of interval {k + 1}"
                    raise DisturbedRunError(msg)
            answers[k, answer.replica] += 1
            failures[k, answer.replica] += answer.is_failure
        return EnvoyRun(threshold_percent, tuple(order), answers, failures, tuple(changes))

    @staticmethod
    def _ends(events: Sequence[LoggedEvent], changes: Sequence[Change]) -> NDArray[np.float64]:
        """When each interval ended, seconds since the epoch; between events interpolated."""
        known: dict[int, float] = {}
        for change, event in zip(changes, events, strict=True):
            known.setdefault(change.interval, event.at_s)
        last = max(known)
        known.setdefault(INTERVALS, known[last] + (INTERVALS - last) * INTERVAL_S)
        return np.interp(np.arange(1, INTERVALS + 1), list(known), list(known.values()))


def _interval_of(event: LoggedEvent, first: LoggedEvent) -> int:
    """At the end of which interval an event happened; the first event ends the first."""
    return round((event.at_s - first.at_s) / INTERVAL_S) + 1


async def _sleep_until(at_s: float) -> None:
    """Sleeps until a moment, seconds since the epoch."""
    await asyncio.sleep(at_s - time.time())
