"""Jobs over processes: their results stay in order, errors name their job, Ctrl-C ends them all."""

import importlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gatepilot.experiments.job_progress import JobsProgress
from gatepilot.experiments.job_watcher import SilentWatcher
from gatepilot.experiments.jobs import (
    JobFailedError,
    JobRefusedError,
    run_jobs,
)

pytestmark = pytest.mark.timeout(90)  # a worker imports the engine

# Workers import a job's class by name, so it stands in a module that they can find.
MODULE = """
import os, time
from dataclasses import dataclass
from pathlib import Path

from gatepilot.experiments.files import OutputError


@dataclass(frozen=True)
class Sample:
    number: int
    does: str = "square"
    folder: Path = Path()

    @property
    def label(self):
        return f"job {self.number}"

    def run(self, reporter, threads):
        advance = reporter.start(f"part of {self.number}", 10)
        advance(4)
        match self.does:
            case "square":
                time.sleep(0.02 * (5 - self.number))
            case "refuse":
                raise OutputError("x.txt: cannot be written (No space left on device)")
            case "break":
                raise ZeroDivisionError
            case "exhaust":
                raise MemoryError("an array of 9 TiB")
            case "die":
                os._exit(9)
            case "linger":
                (self.folder / f"{self.number}.started").touch()
                try:
                    time.sleep(60)
                finally:
                    (self.folder / f"{self.number}.tidied").touch()
        advance(6)
        return self.number**2, os.getpid(), threads
"""
MAIN = """
import sys
from pathlib import Path

from gatepilot.experiments.job_watcher import SilentWatcher
from gatepilot.experiments.jobs import run_jobs
from jobs_of_a_test import Sample

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    jobs = [Sample(n, "linger", folder) for n in (1, 2, 3)]
    try:
        run_jobs(jobs, workers=2, watcher=SilentWatcher())
    except KeyboardInterrupt:
        sys.exit(130)
"""


@dataclass
class Journal:
    """Remembers what was shown."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def begin(self, jobs: int, workers: int) -> None:
        self.told.append(("begin", jobs, workers))

    def started(self, worker: int, label: str) -> None:
        self.told.append(("started", worker, label))

    def piece(self, worker: int, what: str, ticks: int) -> None:
        self.told.append(("piece", worker, what, ticks))

    def advanced(self, worker: int, ticks: int) -> None:
        self.told.append(("advanced", worker, ticks))

    def finished(self, worker: int, label: str) -> None:
        self.told.append(("finished", worker, label))

    def note(self, text: str) -> None:
        self.told.append(("note", text))


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "jobs_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jobs_of_a_test", raising=False)
    return importlib.import_module("jobs_of_a_test")


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_jobs(samples: ModuleType, workers: int) -> None:
    journal = Journal()
    jobs = [samples.Sample(n) for n in range(5)]
    found = run_jobs(jobs, workers=workers, watcher=journal)
    assert [square for square, _, _ in found] == [0, 1, 4, 9, 16]
    processes = {pid for _, pid, _ in found}
    assert (os.getpid() in processes) == (workers == 1)
    assert len(processes) == workers
    assert {threads for _, _, threads in found} == ({None} if workers == 1 else {1})
    assert journal.told[0] == ("begin", 5, workers)
    for n in range(5):
        mine = [line for line in journal.told if line[-1] == f"job {n}" or f"part of {n}" in line]
        assert [line[0] for line in mine] == ["started", "piece", "finished"]
        assert len({line[1] for line in mine}) == 1
    assert sum(line[2] for line in journal.told if line[0] == "advanced") == 50


def test_a_terminal_shows_all_jobs_and_every_worker(
    samples: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich takes it for a terminal
    with JobsProgress() as progress:
        for _ in range(2):
            run_jobs([samples.Sample(n) for n in range(3)], workers=1, watcher=progress)
        progress.note("something to know")
    shown = capsys.readouterr().err
    for words in ("all jobs", "3/3 jobs", "part of 2", "something to know"):
        assert words in shown


def test_there_are_no_more_workers_than_jobs(samples: ModuleType) -> None:
    journal = Journal()
    run_jobs([samples.Sample(3)], workers=8, watcher=journal)
    assert journal.told[0] == ("begin", 1, 1)
    assert run_jobs([], workers=2, watcher=journal) == []


@pytest.mark.parametrize(
    ("workers", "does", "kind", "words"),
    [
        (1, "refuse", JobRefusedError, r"^job 1: x\.txt: cannot be written \(No space left"),
        (2, "refuse", JobRefusedError, r"^job 1: x\.txt: cannot be written \(No space left"),
        (1, "break", JobFailedError, r"^job 1:\n[\s\S]*ZeroDivisionError"),
        (2, "break", JobFailedError, r"^job 1:\n[\s\S]*ZeroDivisionError"),
        (1, "exhaust", MemoryError, r"^job 1: an array of 9 TiB"),
    ],
)
def test_an_error_names_its_job(
    samples: ModuleType, workers: int, does: str, kind: type[Exception], words: str
) -> None:
    jobs = [samples.Sample(0), samples.Sample(1, does), samples.Sample(2)]
    with pytest.raises(kind, match=words):
        run_jobs(jobs, workers=workers, watcher=SilentWatcher())


def test_a_process_that_dies_names_its_job_and_ends_the_others(
    samples: ModuleType, tmp_path: Path
) -> None:
    jobs = [samples.Sample(0, "linger", tmp_path), samples.Sample(1, "die")]
    started = time.monotonic()
    with pytest.raises(JobFailedError, match=r"^job 1: its process died \(exit code 9\)$"):
        run_jobs(jobs, workers=2, watcher=SilentWatcher())
    assert time.monotonic() - started < 50
    assert not (tmp_path / "0.started").exists() or (tmp_path / "0.tidied").exists()


def test_ctrl_c_ends_every_worker_and_leaves_nothing_half_done(
    samples: ModuleType, tmp_path: Path
) -> None:
    del samples
    script = tmp_path / "main.py"
    script.write_text(textwrap.dedent(MAIN))
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, str(script), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for name in ("1.started", "2.started"):
            while not (tmp_path / name).exists():
                assert process.poll() is None
                time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
        _, err = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert err == ""
    assert (tmp_path / "1.tidied").exists()
    assert (tmp_path / "2.tidied").exists()
    assert not (tmp_path / "3.started").exists()
    assert gone(process.pid)


def gone(group: int) -> bool:
    """Whether nothing is left of a process group; Python's own helper leaves a moment later."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
