"""Another process's view: everything is recomputed from the records alone, or found to differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.artifact.errors import ArtifactError
from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.deploy_bridge.audit.journal import JournalParams
from gatepilot.deploy_bridge.audit.ledger import head_path
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.deploy_bridge.audit.record import Entry, chained
from gatepilot.deploy_bridge.audit.replay import ReplayReport, replay
from gatepilot.deploy_bridge.controller import Controller
from gatepilot.deploy_bridge.decision import canonical
from gatepilot.deploy_bridge.wiring import recorded_controller

from ..kit import BLIND, VirtualClock, make_bridge_controller, reading
from ..tiny_artifact import CONTRACT, write_artifact
from .ledger_kit import KEPT, Writer, forged, journal, verified

TOKENS: dict[str, Any] = {
    "prompt_token_rate_tps": 20_000.0,
    "output_token_rate_tps": 4000.0,
    "prompt_tokens_p50": 800.0,
    "prompt_tokens_p95": 2500.0,
}
RATES = [3.0, 20.0, 20.0, 300.0, 300.0, 300.0, 40.0, 2.0, 0.1, 0.1, 0.1, 9.0, 700.0, 700.0]


def recorded(path: Path, policy: ArtifactPolicy, *, params: JournalParams = KEPT) -> None:
    """Boots twice and sees good ticks, blind ones and a jump of the clock."""
    for _ in range(2):
        controller, clock = make_bridge_controller(policy), VirtualClock()
        book = journal(path, params)
        for tick, rate in enumerate(RATES):
            moment = clock.next(jump_s=99.0 if tick == 10 else 0.0)
            seq, troubles = book.begin(controller.saved, moment["now_s"])
            seen = (
                BLIND if tick == 4 else reading(request_rate_rps=rate, waiting=rate / 3, **TOKENS)
            )
            assert book.record(controller.tick(seen, seq=seq, troubles=troubles, **moment)) is None
        book.close("done", clock.now_s)


def replayed(path: Path, policy: ArtifactPolicy) -> ReplayReport:
    def make(identity: Mapping[str, Any]) -> Controller:
        assert identity == {"name": "test"}
        return make_bridge_controller(policy)

    return replay(LedgerReader(path).verified(), make)


def test_every_decision_comes_out_again(either: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    recorded(path, either)
    report = replayed(path, either)
    assert report.is_identical
    assert (report.ticks, report.boots, report.gaps) == (2 * len(RATES), 2, 0)
    assert (report.first_seq, report.last_seq) == (1, report.records)
    assert report.head_hash == verified(path)[-1].hash.hex()


def test_behind_a_cut_it_starts_at_the_checkpoint(either: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    recorded(path, either, params=JournalParams(1e9, 8, 5))
    report = replayed(path, either)
    assert report.first_seq > 10
    assert report.is_identical
    assert report.ticks > 5


def test_behind_a_gap_it_goes_on(either: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(either, journal(path))
    for tick in range(12):
        if tick in (3, 4, 9):  # decided, not recorded
            moment = writer.clock.next()
            writer.controller.tick(reading(waiting=99.0), seq=0, **moment)
            writer.book.lose("disk is full", moment["now_s"])
        else:
            writer.tick()
    writer.book.close("done", 0.0)
    report = replayed(path, either)
    assert report.is_identical
    assert (report.gaps, report.lost_ticks, report.ticks) == (2, 3, 9)


def test_runs_that_broke_off_are_named(policy: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    for ending in ("done", None, None, "done"):
        writer = Writer(policy, journal(path))
        writer.tick()
        if ending is None:  # as a kill leaves it
            writer.book._reset()
            writer.book._lock.release()
        else:
            writer.book.close(ending, writer.clock.now_s)
    report = replayed(path, policy)
    records = verified(path)
    assert report.is_identical
    assert [one.seq for one in report.broken_off] == [5, 7]
    assert report.broken_off[0].at_s == records[4].at_s
    told = [one.content["unfinished"] for one in records if one.kind == "boot"]
    assert [one and one["seq"] for one in told] == [None, None, 5, 7]


def rewritten(path: Path, seq: int, change: dict[str, Any]) -> None:
    """A forger who knows the chain: the record is changed, and every hash behind it made anew."""
    records = verified(path)
    previous = records[seq - 2].hash
    with forged(path) as connection:
        for record in records[seq - 1 :]:
            body = record.body
            if record.seq == seq:
                body = canonical(record.content | change)
            kind: Any = record.kind
            false = chained(Entry(kind, record.at_s, body), record.seq, previous)
            connection.execute("DELETE FROM record WHERE seq = ?", (record.seq,))
            connection.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)", false.row())
            previous = false.hash
    head_path(path).write_text(f"{records[-1].seq:020d} {previous.hex()}\n")


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({"outcome": "would_apply"}, ("outcome",)),
        ({"logits": [0.1] * 6}, ("logits",)),
        ({"reason": "all was well"}, ("reason",)),
        ({"final": {"replicas": 8, "threshold_steps": 1, "max_outstanding": None}}, ("final",)),
    ],
)
def test_a_decision_that_was_forged_with_its_chain_is_found(
    policy: ArtifactPolicy, tmp_path: Path, change: dict[str, Any], keys: tuple[str, ...]
) -> None:
    path = tmp_path / "ledger.sqlite"
    recorded(path, policy)
    rewritten(path, 4, change)
    report = replayed(path, policy)
    assert [(one.seq, one.keys) for one in report.differences] == [(4, keys)]


def test_a_forged_input_changes_what_follows(policy: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    recorded(path, policy)
    values = verified(path)[3].content["values"]
    rewritten(path, 4, {"values": values | {"request_rate_rps": 900.0}})
    found = replayed(path, policy).differences
    assert found[0].seq == 4
    assert "observation_sha256" in found[0].keys


def test_the_advisors_memory_is_part_of_what_is_compared(
    advised: ArtifactPolicy, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    recorded(path, advised, params=JournalParams(1e9, 100, 5))
    start = next(one for one in verified(path) if one.kind == "checkpoint")
    state = start.content["state"]
    sight = state["sight"]
    memory = sight["advisor"] | {"mean": [9.0]}
    rewritten(path, start.seq, {"state": state | {"sight": sight | {"advisor": memory}}})
    first, *others = replayed(path, advised).differences
    assert (first.seq, first.keys) == (start.seq, ("state",))
    assert "observation_sha256" in others[0].keys


def test_another_artifact_cannot_stand_in(policy: ArtifactPolicy, tmp_path: Path) -> None:
    other = write_artifact(tmp_path / "other", features={"waiting": (0.0, 0.5)})
    identity = {
        "artifact": {"digest": policy.digest, "folder": str(policy.folder)},
        "controller": {
            "limits": {"min_replicas": 1, "max_replicas": 8},
            "good_ticks": 3,
            "drift": {"tolerance": 0.02, "strange_ticks": 3, "of_ticks": 5, "ignore": []},
            "bounds": {"min_threshold": 0.05, "max_threshold": 0.95},
            "lifecycle": "SHADOW",
        },
        "incumbent": {"controller": "hpa", "params": {}, "seed": 0},
        "replica": None,
    }
    assert recorded_controller(json.loads(json.dumps(identity))).tick_s == 5.0
    with pytest.raises(ArtifactError, match=f"is {other.digest[:12]}, but {policy.digest[:12]}"):
        recorded_controller(identity, other.folder)
    with pytest.raises(ArtifactError):
        recorded_controller(identity, tmp_path / "absent")
    assert CONTRACT.fingerprint == policy.manifest.fingerprint
