"""Real time on clocks that the test turns: alignment, late ticks, faults, failing parts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.deploy_bridge.actuators.noop import NoopActuator
from gatepilot.deploy_bridge.audit.journal import Journal
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.deploy_bridge.audit.replay import replay
from gatepilot.deploy_bridge.controller import Controller
from gatepilot.deploy_bridge.decision import Decision, Doubt
from gatepilot.deploy_bridge.loop import Loop, Parts, SystemClock
from gatepilot.deploy_bridge.metrics.exporter import BridgeMetrics
from gatepilot.deploy_bridge.metrics.source import Reading
from gatepilot.deploy_bridge.status import StatusBoard

from .audit.ledger_kit import journal, verified
from .kit import BLIND, ScriptedSource, make_bridge_controller, reading

BUSY = reading(request_rate_rps=300.0, waiting=60.0, kv_usage=0.9)


@dataclass
class TurnedClock:
    """Clocks that move when somebody waits, or when the test turns them."""

    wall_s: float = 1_800_000_003.2
    monotonic_s: float = 500.0
    waits: list[float] = field(default_factory=list)

    def now(self) -> tuple[float, float]:
        return self.wall_s, self.monotonic_s

    def turn(self, seconds: float) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds

    def wait(self, seconds: float, stop: threading.Event) -> None:
        del stop
        self.waits.append(seconds)
        self.turn(seconds)


@dataclass
class Run:
    """A loop with everything a test wants to look at."""

    loop: Loop
    controller: Controller
    source: ScriptedSource
    book: Journal
    actuator: NoopActuator
    metrics: BridgeMetrics
    board: StatusBoard
    clock: TurnedClock
    path: Path

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"gatepilot_bridge_{name}", labels)


Make = Callable[..., Run]


@pytest.fixture
def make(policy: ArtifactPolicy, tmp_path: Path) -> Make:
    def made(*readings: Reading) -> Run:
        path = tmp_path / "ledger.sqlite"
        controller, source = make_bridge_controller(policy), ScriptedSource(list(readings))
        book, actuator, metrics = journal(path), NoopActuator(), BridgeMetrics()
        clock = TurnedClock()
        board = StatusBoard(controller, started_s=clock.wall_s)
        parts = Parts(controller, source, book, actuator, metrics, board)
        loop = Loop(parts, clock, timer=lambda: clock.monotonic_s)
        return Run(loop, controller, source, book, actuator, metrics, board, clock, path)

    return made


def decisions(run: Run) -> list[Decision]:
    run.book.close("done", run.clock.wall_s)
    return [one.content for one in verified(run.path) if one.kind == "tick"]  # type: ignore[misc]


def test_ticks_fall_on_whole_multiples_of_the_interval(make: Make) -> None:
    run = make(reading())
    run.loop.run(threading.Event(), ticks=4)
    assert [round(one, 6) for one in run.clock.waits] == [1.8, 5.0, 5.0, 5.0]
    times = [one["at_s"] for one in decisions(run)]  # type: ignore[index]
    assert times == pytest.approx([1_800_000_005.0 + 5 * k for k in range(4)])


def test_a_slow_tick_does_not_shift_the_next(make: Make) -> None:
    run = make(reading())
    read = run.source.read

    def slow(now_s: float) -> Reading:
        run.clock.turn(1.25)
        return read(now_s)

    run.source.read = slow  # type: ignore[method-assign]
    run.loop.run(threading.Event(), ticks=3)
    assert [round(one, 6) for one in run.clock.waits] == [1.8, 3.75, 3.75]
    assert {one["mode"]["mode"] for one in decisions(run)} == {"FROZEN", "NORMAL"}  # type: ignore[index]


def test_after_an_overrun_ticks_are_left_out_not_queued(make: Make) -> None:
    run = make(reading())
    read = run.source.read

    def once_very_slow(now_s: float) -> Reading:
        run.clock.turn(12.0 if run.source.at == 3 else 0.0)
        return read(now_s)

    run.source.read = once_very_slow  # type: ignore[method-assign]
    run.loop.run(threading.Event(), ticks=6)
    found = decisions(run)
    times = [round(one["at_s"] - 1_800_000_005.0) for one in found]  # type: ignore[index]
    assert times == [0, 5, 10, 15, 30, 35]
    assert [one["mode"]["mode"] for one in found][2:] == ["NORMAL", "NORMAL", "FROZEN", "FROZEN"]  # type: ignore[index]
    assert found[4]["doubts"][0]["kind"] == "overrun"  # type: ignore[index]
    assert "2 left out before it" in found[4]["doubts"][0]["detail"]  # type: ignore[index]


def test_nothing_is_carried_out_before_normal_and_never_by_more_than_the_noop(make: Make) -> None:
    run = make(BUSY)
    for _ in range(5):
        run.loop.tick()
        run.clock.turn(5.0)
    assert run.actuator.would_have == 3
    assert run.actuator.last is not None
    assert run.actuator.last.final is not None
    assert run.actuator.last.final.replicas == 5
    assert run.actuator.read() is None
    assert not run.actuator.confirm(run.actuator.last)


def test_what_cannot_be_recorded_is_not_carried_out(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(BUSY)
    for _ in range(4):
        run.loop.tick()
        run.clock.turn(5.0)
    assert run.actuator.would_have == 2
    with monkeypatch.context() as patch:
        patch.setattr(run.book, "record", lambda _: Doubt("ledger", "ledger", "disk is full"))
        run.loop.tick()
    assert run.actuator.would_have == 2
    assert run.controller.mode.mode == "FROZEN"
    assert run.metric("mode", gatepilot_bridge_mode="FROZEN") == 1


def test_a_decision_that_has_expired_is_not_carried_out(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(BUSY)
    for _ in range(3):
        run.loop.tick()
        run.clock.turn(5.0)
    assert run.actuator.would_have == 1
    record = run.book.record

    def slow(decision: Decision) -> Doubt | None:
        run.clock.turn(5.0)
        return record(decision)

    monkeypatch.setattr(run.book, "record", slow)
    run.loop.tick()
    assert run.actuator.would_have == 1


def test_a_fault_of_the_bridge_is_survived_and_recorded_as_a_gap(
    make: Make, caplog: pytest.LogCaptureFixture, policy: ArtifactPolicy
) -> None:
    run = make(reading())
    for tick in range(9):
        if tick == 4:
            broken = run.controller.tick
            run.controller.tick = None  # type: ignore[method-assign, assignment]
            with caplog.at_level(logging.ERROR):
                assert run.loop.tick() is None
            run.controller.tick = broken  # type: ignore[method-assign]
            assert run.controller.mode.mode == "FROZEN"
            assert "fault" in run.controller.mode.reason
        else:
            assert run.loop.tick() is not None
        run.clock.turn(5.0)
    assert run.controller.mode.mode == "NORMAL"
    assert "fault in the bridge" in caplog.text
    assert run.board.status(0.0)["ticks"]["faults"] == 1
    run.book.close("done", run.clock.wall_s)
    assert "gap" in [one.kind for one in verified(run.path)]
    again = replay(LedgerReader(run.path).verified(), lambda _: make_bridge_controller(policy))
    assert again.is_identical
    assert again.lost_ticks == 1


def test_a_source_that_raises_is_a_blind_one(make: Make) -> None:
    run = make(reading())

    def broken(now_s: float) -> Reading:
        raise OSError("network is unreachable")

    run.source.read = broken  # type: ignore[method-assign]
    decision = run.loop.tick()
    assert decision is not None
    assert decision.is_blind
    assert decision.doubts[0].detail == "it raised OSError"


def test_metrics_say_what_happened(make: Make) -> None:
    run = make(BUSY, BUSY, BUSY, BUSY, BLIND)
    for _ in range(4):
        run.loop.tick()
        run.clock.turn(5.0)
    assert run.metric("ticks_total", result="good") == 4
    assert run.metric("settings", by="policy", setting="replicas") == 5
    assert run.metric("settings", by="policy", setting="breaker_threshold") == 0.5
    assert run.metric("settings", by="incumbent", setting="replicas") is not None
    assert run.metric("ledger_entries") == 5
    assert run.metric("mode", gatepilot_bridge_mode="NORMAL") == 1
    run.loop.tick()
    assert run.metric("ticks_total", result="blind") == 1
    assert run.metric("problems_total", kind="stale") == 1
    assert run.metric("settings", by="policy", setting="replicas") is None
    assert run.metric("mode", gatepilot_bridge_mode="FROZEN") == 1


def test_the_board_counts_and_tells(make: Make) -> None:
    run = make(BLIND, BUSY)
    assert run.board.why() is None
    assert run.board.is_alive(1e9)
    for _ in range(6):
        run.loop.tick()
        run.clock.turn(5.0)
    found = run.board.status(run.clock.wall_s)
    assert found["ticks"] == {"all": 6, "good": 5, "blind": 1, "counted": 3, "faults": 0}
    assert found["outcomes"] == {"would_apply": 3, "unchanged": 0, "held": 3}
    assert found["agreement"]["compared"] == 3
    assert found["ledger"]["seq"] == 8
    assert found["latest"]["headline"].endswith(
        "would change settings: 4 replicas, threshold 0.50 -> 5 replicas, threshold 0.50"
    )
    why = run.board.why()
    assert why is not None
    assert "Policy: one replica more" in "\n".join(why["why"])
    assert run.board.is_alive(run.clock.monotonic_s)
    assert not run.board.is_alive(run.clock.monotonic_s + 16.0)


def test_a_stop_ends_the_wait() -> None:
    stop, clock = threading.Event(), SystemClock()
    stop.set()
    wall_s, monotonic_s = clock.now()
    clock.wait(30.0, stop)
    assert clock.now()[1] - monotonic_s < 1.0
    assert wall_s > 1.7e9


def test_a_stop_between_ticks_ends_the_loop(make: Make) -> None:
    run, stop = make(reading()), threading.Event()
    wait = run.clock.wait

    def third_wait_is_interrupted(seconds: float, event: threading.Event) -> None:
        wait(seconds, event)
        if len(run.clock.waits) == 3:
            event.set()

    run.clock.wait = third_wait_is_interrupted  # type: ignore[method-assign, assignment]
    run.loop.run(stop)
    assert len(decisions(run)) == 2
