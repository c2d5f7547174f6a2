"""Results that cannot be written: one line, exit code 2, and before the work."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gatepilot.experiments.files import (
    OutputError,
    check_folder,
    check_writable,
    replacing,
    writing,
)
from gatepilot.experiments.run_files import RunFiles

from .cli_kit import Cli, contents

PROC = Path("/proc")
"""The kernel's: root may write there by its mode, and nobody can."""

pytestmark = [
    pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="needs Linux' /proc"),
    pytest.mark.timeout(60),
]


@pytest.mark.parametrize(
    "command",
    [
        ["testbed", "up", "--rate", "0", "--out", "/proc/x"],
        ["testbed", "up", "--rate", "0", "--out", "/proc/x/deeper"],
        ["rehearse", "nowhere", "--report", "/proc/q.html"],
        ["evaluate", "--policy", "hpa", "--scenario", "demo", "--report", "/proc/q.html"],
        ["evaluate", "--policy", "hpa", "--scenario", "demo", "--out", "/proc/q.parquet"],
        ["evaluate", "--policy", "hpa", "--scenario", "demo", "--cells", "/proc/cells"],
        ["tune", "--policy", "hpa", "--scenario", "demo", "--out", "/proc/tuned"],
        ["leaderboard", "--quick", "--out", "/proc/board"],
        ["leaderboard", "--quick", "--report", "/proc/q.html"],
        ["simulate", "--scenario", "demo", "--out", "/proc/q.csv"],
        ["train", "demo", "--runs", "/proc/runs"],
        ["demo", "--out", "/proc/demo"],
        ["export", "0" * 32, "--out", "/proc/artifact"],
        ["fetch", "a@b", "--out", "/proc/artifact"],
        ["workload", "describe", "azure-conv-2023", "--report", "/proc/q.html"],
        ["workload", "generate", "azure-conv-2023", "--out", "/proc/q.csv"],
    ],
    ids=lambda command: " ".join(word.lstrip("-") for word in command[::2])[:40],
)
def test_a_place_that_nobody_can_write_is_refused_before_the_work(
    cli: Cli, command: list[str], tmp_path: Path
) -> None:
    line = cli.refusal(*command)
    assert "/proc/" in line
    assert "writable" in line or "cannot be written" in line
    assert contents(tmp_path) == []


def test_a_place_is_tried_and_nothing_stays(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("before")
    check_writable(file)
    check_writable(tmp_path / "new")
    check_folder(tmp_path / "a" / "b")
    assert contents(tmp_path) == ["report.html"]
    assert file.read_text() == "before"


@pytest.mark.parametrize("name", ["x" * 300, "x" * 250])
def test_a_name_that_is_too_long(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot be written") as caught:
        check_writable(tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1


def fill_up(file: Path) -> None:
    with replacing(file) as temporary:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_fills_up_while_writing_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("before")
    with pytest.raises(OutputError, match=r"report\.html: cannot be written \(No space left"):
        fill_up(file)
    assert contents(tmp_path) == ["report.html"]
    assert file.read_text() == "before"


def test_the_file_that_failed_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    wanted = r"file/inside: cannot be written \(Not a directory\)"
    with pytest.raises(OutputError, match=wanted), writing(tmp_path):
        (tmp_path / "file" / "inside").mkdir()


def test_a_run_s_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = RunFiles("0" * 32, tmp_path / "file" / "run")
    with pytest.raises(OutputError, match="cannot be written"):
        files.write(None, None, None, None)  # type: ignore[arg-type]  # the folder comes first


def test_a_testbed_s_part_of_the_folder_that_is_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bed").mkdir()
    (tmp_path / "bed" / "logs").touch()
    line = cli.refusal("testbed", "up", "--rate", "0", "--out", "bed")
    assert "bed/logs: cannot be written (File exists)" in line
