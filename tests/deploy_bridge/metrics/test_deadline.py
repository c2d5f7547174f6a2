"""Work that must be over in time."""

from __future__ import annotations

import threading
import time

import pytest

from gatepilot.deploy_bridge.metrics.deadline import Deadline, LateError


def test_it_returns_what_the_work_returns_and_raises_what_it_raises() -> None:
    deadline = Deadline("work", 1.0)
    assert deadline.run(lambda _: 3) == 3
    with pytest.raises(ZeroDivisionError):
        deadline.run(lambda _: 1 // 0)


def test_who_is_late_is_left_behind_told_so_and_waited_for() -> None:
    end, told = threading.Event(), threading.Event()

    def work(given_up: threading.Event) -> int:
        end.wait()
        if given_up.is_set():
            told.set()
        return 1

    deadline = Deadline("work", 0.1)
    with pytest.raises(LateError, match=r"no complete answer within 0\.1 s"):
        deadline.run(work)
    with pytest.raises(LateError, match="an earlier read has not ended yet"):
        deadline.run(lambda _: 2)
    end.set()
    assert told.wait(10.0)
    for _ in range(100):
        if not any(thread.name == "work" for thread in threading.enumerate()):
            break
        time.sleep(0.01)
    assert deadline.run(lambda _: 3) == 3
