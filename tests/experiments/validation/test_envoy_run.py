"""From Envoy's log and the answers to intervals; what is not certain is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gatepilot.experiments.validation.envoy_load import (
    Answer,
    DisturbedRunError,
    EventLog,
    LoggedEvent,
    ScriptedLoad,
)
from gatepilot.experiments.validation.envoy_run import Change, _Run
from gatepilot.experiments.validation.failure_script import INTERVAL_S, INTERVALS, REPLICAS

START_S = 1_800_000_000.0
"""End of the first interval."""
ADDRESSES = {f"127.0.0.1:{9000 + number}": number for number in range(REPLICAS)}


def line(at_s: float, replica: int, action: str, **more: Any) -> str:  # noqa: ANN401
    """A line as Envoy 1.40 writes it."""
    stamp = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    event = {
        "type": "FAILURE_PERCENTAGE",
        "timestamp": stamp.replace("+00:00", "Z"),
        "cluster_name": "llm",
        "upstream_url": f"127.0.0.1:{9000 + replica}",
        "action": action,
        "num_ejections": 1,
        "enforced": action == "EJECT",
    }
    return json.dumps(event | more) + "\n"


def beginning() -> list[str]:
    """Replicas 5, 4, 3 are taken out after the first interval, 2, 1, 0 after the fourth."""
    lines = [line(START_S, replica, "EJECT") for replica in (5, 4, 3)]
    lines += [line(START_S + 2 * INTERVAL_S, replica, "UNEJECT") for replica in (5, 4, 3)]
    return lines + [line(START_S + 3 * INTERVAL_S, replica, "EJECT") for replica in (2, 1, 0)]


def run_of(path: Path, lines: list[str], *answers: Answer) -> _Run:
    path.write_text("".join(lines), encoding="utf-8")
    load = ScriptedLoad(1, ADDRESSES)
    load.answers += answers
    return _Run([], load, EventLog(path, ADDRESSES))


def test_the_log_is_read_as_it_grows_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, ADDRESSES)
    assert list(log.events()) == []
    first = line(START_S + 0.25, 2, "EJECT")
    second = line(START_S + 3.5, 2, "UNEJECT")
    path.write_text(first + second[:30], encoding="utf-8")
    expected = [LoggedEvent(START_S + 0.25, 2, is_out=True)]
    assert list(log.events()) == expected
    path.write_text(first + second, encoding="utf-8")
    expected.append(LoggedEvent(START_S + 3.5, 2, is_out=False))
    assert list(log.events()) == expected
    assert list(log.events()) == expected


def test_what_envoy_only_would_have_done_is_no_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(line(START_S, 1, "EJECT", enforced=False, type="CONSECUTIVE_5XX"))
    assert list(EventLog(path, ADDRESSES).events()) == []


def test_order_intervals_and_counts_follow_from_log_and_answers(tmp_path: Path) -> None:
    late_s = 0.004  # Envoy's timer
    lines = [*beginning(), line(START_S + 9 * INTERVAL_S + late_s, 2, "UNEJECT")]
    sent_s = START_S + 4.5 * INTERVAL_S
    answers = [
        Answer(sent_s, sent_s + 0.01, 3, is_failure=True),
        Answer(sent_s, sent_s + 0.01, 3, is_failure=False),
        Answer(START_S + 0.3, START_S + 0.31, 0, is_failure=False),
    ]
    found = run_of(tmp_path / "events.jsonl", lines, *answers).result(40)
    assert found.order == (5, 4, 3, 2, 1, 0)
    assert found.changes[0] == Change(1, 5, is_out=True)
    assert found.changes[3] == Change(3, 5, is_out=False)
    assert found.changes[-1] == Change(10, 2, is_out=False)
    assert found.answers.shape == found.failures.shape == (INTERVALS, REPLICAS)
    assert found.answers.sum() == 3
    assert (found.answers[5, 3], found.failures[5, 3], found.answers[1, 0]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("sent", "answered"), [(-0.3, -0.01), (-0.01, 0.05), (-0.1, 0.1), (0.01, 0.05)]
)
def test_an_answer_near_the_end_of_an_interval_spoils_the_run(
    tmp_path: Path, sent: float, answered: float
) -> None:
    end_s = START_S + 6 * INTERVAL_S
    answer = Answer(end_s + sent, end_s + answered, 0, is_failure=False)
    run = run_of(tmp_path / "events.jsonl", beginning(), answer)
    with pytest.raises(DisturbedRunError, match=r"at the end of interval [78]"):
        run.result(40)


def test_a_beginning_that_does_not_teach_the_whole_order_spoils_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path / "events.jsonl", beginning()[:-1])
    with pytest.raises(DisturbedRunError, match=r"took out \[5, 4, 3, 2, 1\]"):
        run.result(40)
