"""What the load generator notes of each request."""

import csv
from pathlib import Path

import pytest

from gatepilot.experiments.testbed.load_record import COLUMNS, Outcome, Record

USAGE = b'"usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("http_status", "tail", "status"),
    [
        (200, USAGE + DONE, "ok"),
        (200, USAGE, "error"),
        (200, DONE, "error"),
        (200, USAGE.replace(b"7", b"6") + DONE, "error"),
        (500, b"", "error"),
        (503, b"no healthy upstream", "error"),
        (504, b"upstream request timeout", "timeout"),
        (429, b"", "shed"),
        (400, b"", "error"),
    ],
)
def test_what_counts_as_good(http_status: int, tail: bytes, status: str) -> None:
    outcome = Outcome(0, 0.0, 5, 7, http_status=http_status)
    outcome.conclude(tail)
    assert outcome.status == status


def test_rows_and_summary(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    with Record(path) as record:
        record.begin(100.0)
        assert record.summary()["ttft_s"] is None
        for row in range(4):
            outcome = Outcome(row, 0.1 * row, 5, 7, sent_at_s=100.0 + 0.1 * row, late_s=0.001)
            record.sent(outcome)
            if row == 3:
                outcome.status, outcome.e2e_s = "error", 0.5
            else:
                outcome.status, outcome.http_status, outcome.replica = "ok", 200, "llm-0"
                outcome.ttft_s, outcome.e2e_s = 0.1 * (row + 1), 1.0
            record.ended(outcome)
        record.sent(Outcome(4, 0.4, 5, 7, sent_at_s=100.4, late_s=0.001))
        summary = record.summary()
        assert record.status()["under_way"] == 1
    assert (summary["requests"], summary["ok"], summary["error"]) == (5, 3, 1)
    assert summary["error_rate"] == 0.25
    assert summary["ttft_s"]["p50"] == pytest.approx(0.2)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "error"]
    assert float(rows[1]["arrival_s"]) == 0.1
    assert (rows[3]["ttft_s"], rows[3]["http_status"], rows[3]["replica"]) == ("", "", "")
    assert float(rows[0]["sent_at_s"]) == 100.0
