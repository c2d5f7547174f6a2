"""The shadow: an incumbent drives the simulated gateway, the bridge's real loop watches.

Nothing of the bridge is replaced but its clock and its source: loop, controller, guardrails,
journal and ledger are those that run beside a live gateway, and the actuator is the one of shadow,
which holds no way to write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...agents.evaluation import ControllerDecider
from ...deploy_bridge.actuators.noop import NoopActuator
from ...deploy_bridge.audit.journal import Journal, JournalParams
from ...deploy_bridge.controller import ControllerParams
from ...deploy_bridge.decision import Content, Decision
from ...deploy_bridge.loop import Loop, Parts
from ...deploy_bridge.metrics.exporter import BridgeMetrics
from ...deploy_bridge.settings import LEDGER_FILE, LedgerSection
from ...deploy_bridge.site import replica_content
from ...deploy_bridge.status import StatusBoard
from ...deploy_bridge.wiring import recorded_controller
from ...envs.batch import GatewayBatch
from ...envs.schema.settings import GatewaySettings
from ...reward.documented import default_reward
from .clock import VirtualClock
from .errors import RehearsalError
from .plan import RehearsalPlan
from .source import SimulatedSource


@dataclass(frozen=True)
class WatchedTick:
    """One tick of the incumbent's gateway, and what the bridge made of it."""

    number: int
    """From 0."""
    row: NDArray[np.float64]
    """The scraped snapshot, `(F,)`; on a blind tick the bridge did not see it."""
    decision: Decision
    before: GatewaySettings
    """In force at the tick."""
    after: GatewaySettings
    """What the incumbent then set."""


@dataclass(frozen=True)
class Shadow:
    """A finished shadow rehearsal."""

    ticks: tuple[WatchedTick, ...]
    ledger: Path
    """The ledger's file."""
    records: int
    """Records in it."""
    head: str
    """Hash of the last one, hexadecimal."""


def watch(plan: RehearsalPlan, state_dir: Path, progress: Callable[[int], None]) -> Shadow:
    """Plays the window under the incumbent and has the bridge watch it.

    Args:
        plan: What is rehearsed.
        state_dir: Where the ledger is written; made if need be.
        progress: Told of every tick.

    Raises:
        RehearsalError: There is a ledger already, or the folder cannot be made.
        LedgerError: The ledger cannot be written.
    """
    path = new_ledger(state_dir)
    batch, clock = _gateway(plan), VirtualClock()
    incumbent = ControllerDecider(
        [plan.incumbent.made(plan.trial)], [plan.trial.scenario.gateway.max_outstanding]
    )
    seen = batch.reset(
        starts_s=np.array([plan.window.start_s]),
        seeds=np.array([plan.window.seed]),
        workloads=np.array([plan.window.round]),
    )
    ticks = []
    with _journal(path, identity_of(plan), clock) as journal:
        controller = recorded_controller(identity_of(plan))
        parts = Parts(
            controller,
            SimulatedSource(batch, plan.faults),
            journal,
            NoopActuator(),
            BridgeMetrics(),
            StatusBoard(controller, started_s=clock.now()[0]),
        )
        loop = Loop(parts, clock, timer=lambda: clock.now()[1])
        for number in range(plan.trial.ticks):
            row, before = batch.seen[0].copy(), _in_force(batch, incumbent)
            decision = loop.tick()
            if decision is None:
                msg = f"tick {number}: the bridge failed; its log says why"
                raise RuntimeError(msg)
            seen = incumbent.step(batch, seen).observation
            ticks.append(WatchedTick(number, row, decision, before, _in_force(batch, incumbent)))
            clock.wait(batch.tick_s, threading.Event())
            progress(1)
    records, head = journal.head
    return Shadow(tuple(ticks), path, records, head)


def identity_of(plan: RehearsalPlan) -> Content:
    """Who runs, as a bridge records it: what a replay makes the same controller from."""
    policy = plan.artifact
    return {
        "name": f"rehearsal of {plan.trial.scenario.name}",
        "version": version("gatepilot"),
        "artifact": {
            "digest": policy.digest,
            "folder": str(policy.folder.resolve()),
            "fingerprint": policy.manifest.fingerprint,
            "is_signed": policy.is_signed,
        },
        "controller": asdict(ControllerParams(plan.trial.limits)),
        "incumbent": asdict(plan.incumbent.section),
        "replica": replica_content(plan.trial.site.replica),
    }


def new_ledger(state_dir: Path) -> Path:
    """Where a ledger is to be written; its folder is made.

    Raises:
        RehearsalError: There is one already, or the folder cannot be made.
    """
    path = state_dir / LEDGER_FILE
    if path.exists():
        msg = f"{path}: is there already; a rehearsal begins a new ledger, give another folder"
        raise RehearsalError(msg)
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RehearsalError(f"{state_dir}: cannot be made ({error.strerror})") from error
    return path


def _gateway(plan: RehearsalPlan) -> GatewayBatch:
    """The simulated gateway, as an evaluation plays it."""
    trial = plan.trial
    return GatewayBatch(
        trial.scenario,
        1,
        reward_fn=default_reward,
        split=trial.split,
        episode_ticks=trial.ticks,
        requests=trial.requests,
    )


def _in_force(batch: GatewayBatch, incumbent: ControllerDecider) -> GatewaySettings:
    return GatewaySettings(
        int(batch.replicas[0]), int(batch.threshold_steps[0]), incumbent.limits[0]
    )


@contextmanager
def _journal(path: Path, identity: Content, clock: VirtualClock) -> Iterator[Journal]:
    kept = LedgerSection()
    params = JournalParams(kept.retention_s, kept.max_entries, kept.checkpoint_ticks)
    journal = Journal(path, params, identity)
    reason = "broken off"
    try:
        if journal.trouble is not None:  # a live bridge goes on, frozen; here it would show nothing
            raise RehearsalError(journal.trouble)
        yield journal
        reason = "rehearsal over"
    finally:
        journal.close(reason, clock.now()[0])
