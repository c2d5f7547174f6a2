"""The composition root: which parts there are, made from the configuration.

Shadow is made here, not decided later: `_actuator` gives a bridge in SHADOW the one actuator that
holds no way to write. Sources only read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..agents.artifact.errors import ArtifactError
from ..agents.artifact.runtime import ArtifactPolicy, load_artifact
from ..envs.schema.settings import Limits
from .actuators.actuator import Actuator
from .actuators.noop import NoopActuator
from .audit.journal import Journal, JournalParams
from .control import ControlServer
from .controller import Controller, ControllerParams
from .decision import Content, Lifecycle
from .environment import origin
from .errors import SettingsError
from .guardrails.bounds import BoundsParams
from .guardrails.drift import DriftParams
from .incumbent import make_incumbent, recorded_incumbent
from .loop import LOG, Loop, Parts, SystemClock
from .metrics.collector import Collector
from .metrics.exporter import CONTENT_TYPE, BridgeMetrics
from .pages import Pages, Shown
from .settings import BridgeSettings
from .site import (
    known_replica,
    other_facts,
    policy_advisor,
    policy_site,
    recorded_replica,
    replica_content,
)
from .sources import make_sources
from .status import StatusBoard


@dataclass(frozen=True, slots=True)
class Head:
    """Artifact, sources and controller: all that needs no ledger and no port."""

    settings: BridgeSettings
    policy: ArtifactPolicy
    collector: Collector
    controller: Controller
    fields: frozenset[str]
    """Fields of the contract that some source is asked for."""
    identity: Content
    """What a replay needs to make the same controller."""
    remarks: tuple[str, ...]
    """What an operator should know, one line each."""


def make_head(settings: BridgeSettings, file: str) -> Head:
    """Loads the artifact with all checks and sets up everything that decides.

    Args:
        settings: The configuration.
        file: Its name, for errors.

    Raises:
        ArtifactError: The artifact is refused.
        SettingsError: One line with file, key and what would be right.
    """
    policy = load_artifact(
        settings.artifact,
        public_key=settings.public_key,
        allow_unsigned=settings.allow_unsigned,
    )
    params = ControllerParams(
        limits=settings.limits,
        good_ticks=settings.good_ticks,
        drift=settings.guardrails.drift,
        bounds=settings.guardrails.bounds,
    )
    replica = known_replica(settings.replica, origin(file, "replica"))
    site = policy_site(settings.limits, policy.manifest, replica)
    advisor = policy_advisor(site, policy.manifest, file)
    incumbent = make_incumbent(settings.incumbent, site, origin(file, "incumbent"))
    try:
        controller = Controller(params, policy, incumbent, advisor)
    except ValueError as error:
        above = origin(file, "guardrails", "drift")
        raise SettingsError(f"{above}: guardrails.drift.{error}") from error
    identity = {
        "name": settings.name,
        "version": version("gatepilot"),
        "artifact": {
            "digest": policy.digest,
            "folder": str(policy.folder),
            "fingerprint": policy.manifest.fingerprint,
            "is_signed": policy.is_signed,
        },
        "controller": asdict(params),
        "incumbent": asdict(settings.incumbent),
        "replica": replica_content(replica),
    }
    sources, fields = make_sources(settings, policy, file)
    remarks = _remarks(settings, policy, replica_content(replica))
    return Head(settings, policy, Collector(sources), controller, fields, identity, remarks)


def recorded_controller(identity: Mapping[str, Any], folder: Path | None = None) -> Controller:
    """The controller of a recorded identity, for a replay.

    Args:
        identity: As a boot or checkpoint names it.
        folder: Where the artifact is now; `None`: where it was.

    Raises:
        ArtifactError: It is not there, or it is another one.
        SettingsError: The incumbent does not exist in this version.
    """
    artifact, given = identity["artifact"], identity["controller"]
    # the recorded digest pins every byte, so a signature would add nothing
    policy = load_artifact(folder or Path(artifact["folder"]), public_key=None, allow_unsigned=True)
    if policy.digest != artifact["digest"]:
        msg = (
            f"{policy.folder}: is {policy.digest[:12]}, but {artifact['digest'][:12]} decided: "
            "name the folder of that one"
        )
        raise ArtifactError(msg)
    drift = given["drift"]
    params = ControllerParams(
        limits=Limits(**given["limits"]),
        good_ticks=given["good_ticks"],
        drift=DriftParams(**{**drift, "ignore": tuple(drift["ignore"])}),
        bounds=BoundsParams(**given["bounds"]),
        lifecycle=given["lifecycle"],
    )
    site = policy_site(params.limits, policy.manifest, recorded_replica(identity["replica"]))
    advisor = policy_advisor(site, policy.manifest, "ledger")
    return Controller(params, policy, recorded_incumbent(identity, site), advisor)


class Bridge:
    """A bridge that is ready to run: it holds the ledger, the socket and the port."""

    def __init__(self, head: Head) -> None:
        """Takes everything that another process must not have.

        Raises:
            LedgerError: Another bridge writes there, or the ledger is not what was written.
            ControlError: The socket or the port cannot be had.
        """
        settings = head.settings
        try:
            settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            msg = f"state_dir: {settings.state_dir}: cannot be made ({error.strerror})"
            raise SettingsError(msg) from error
        self._clock = SystemClock()
        self._controller = head.controller
        metrics = BridgeMetrics()
        metrics.set_artifact(head.policy.digest, head.controller.params.lifecycle)
        ledger = settings.ledger
        kept = JournalParams(ledger.retention_s, ledger.max_entries, ledger.checkpoint_ticks)
        self._journal = Journal(settings.ledger_path, kept, head.identity)
        self._pages: Pages | None = None
        self._control: ControlServer | None = None
        try:
            self._board = StatusBoard(head.controller, started_s=self._clock.now()[0])
            if settings.serve is not None:
                shown = Shown(metrics.render, CONTENT_TYPE, self._status, self._is_alive)
                self._pages = Pages(settings.serve.host, settings.serve.port, shown)
            self._board.stand(_standing(head, self.address))
            verbs = {"status": lambda *_: self._status(), "why": lambda *_: self._why()}
            self._control = ControlServer(settings.socket_path, verbs)
        except BaseException:
            self.close("could not start")
            raise
        parts = Parts(
            head.controller,
            head.collector,
            self._journal,
            _actuator(head.controller.params.lifecycle),
            metrics,
            self._board,
        )
        self.loop = Loop(parts, self._clock, timer=time.perf_counter)

    @property
    def address(self) -> str | None:
        """Where the pages are; `None`: there are none."""
        return None if self._pages is None else self._pages.address

    def start(self) -> None:
        """Records the boot and begins to answer operators; ticks are the loop's."""
        self._journal.boot(self._controller.saved, self._clock.now()[0])
        if self._pages is not None:
            self._pages.start()
        if self._control is not None:
            self._control.start()

    def close(self, reason: str) -> None:
        """Records the end and gives everything back; what it cannot record, the log says."""
        if self._control is not None:
            self._control.stop()
        if self._pages is not None:
            self._pages.stop()
        lost = self._journal.close(reason, self._clock.now()[0])
        if lost:
            LOG.warning("%d ticks were not recorded: %s", lost, self._journal.trouble)
        elif self._journal.trouble is not None:
            LOG.warning("the stop was not recorded: %s", self._journal.trouble)

    def _status(self) -> Content:
        return self._board.status(self._clock.now()[0])

    def _why(self) -> Content:
        return {"latest": self._board.why()}

    def _is_alive(self) -> bool:
        return self._board.is_alive(self._clock.now()[1])


def _actuator(lifecycle: Lifecycle) -> Actuator:
    """The one actuator of a lifecycle state; nothing that could write exists in SHADOW."""
    match lifecycle:
        case "SHADOW":
            return NoopActuator()


def _remarks(
    settings: BridgeSettings, policy: ArtifactPolicy, replica: Content | None
) -> tuple[str, ...]:
    remarks = []
    if not policy.is_signed:
        remarks.append("UNSIGNED artifact: allow_unsigned is set, nobody vouches for it")
    if settings.allow_unsigned and settings.public_key is not None:
        remarks.append(
            "public_key and allow_unsigned are both set: a signature is checked where there is "
            "one, and an artifact without one is taken"
        )
    trained, limits = policy.manifest.replica_limits, settings.limits
    if limits.min_replicas < trained.min_replicas or limits.max_replicas > trained.max_replicas:
        remarks.append(
            f"limits {limits.min_replicas}-{limits.max_replicas} are wider than the training's "
            f"{trained.min_replicas}-{trained.max_replicas} replicas: expect drift"
        )
    sites = policy.manifest.advised_sites
    if sites and replica is not None:
        others = min((other_facts(site["replica"], replica) for site in sites), key=len)
        if others:
            remarks.append(
                f"replica is none of the training's, the nearest differs in {', '.join(others)}: "
                "the policy is advised for this one; expect drift"
            )
    return tuple(remarks)


def _standing(head: Head, address: str | None) -> Content:
    """What `status` shows and what does not change."""
    return {
        **head.identity,
        "pid": os.getpid(),
        "lifecycle": head.controller.params.lifecycle,
        "tick_s": head.controller.tick_s,
        "needed": head.controller.params.good_ticks,
        "remarks": list(head.remarks),
        "ledger_path": str(head.settings.ledger_path),
        "address": address,
    }
