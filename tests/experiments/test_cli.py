"""What holds for every command: help, exit codes, and one line for what is wrong."""

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from gatepilot.deploy_bridge.command_line import CommandLine
from gatepilot.experiments import cli as cli_module

from .cli_kit import Cli

pytestmark = pytest.mark.timeout(30)


def test_help_names_every_command(cli: Cli) -> None:
    code, out, err = cli("--help")
    assert code == 0
    assert err == ""
    assert all(name in out for name in cli_module.COMMANDS)
    code, out, _ = cli("evaluate", "--help")
    assert code == 0
    assert "Example: gatepilot evaluate" in out


def test_an_unknown_command_is_one_line(cli: Cli) -> None:
    code, out, err = cli("simulat")
    assert (code, out) == (2, "")
    assert err == "gatepilot: No such command 'simulat'. Did you mean 'simulate'?\n"


def test_without_the_extra_it_says_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(line: CommandLine, name: str) -> None:
        raise ModuleNotFoundError(name, name="numba.core")

    monkeypatch.setattr(CommandLine, "_loaded", missing)
    line = cli.refusal("evaluate")
    assert "numba is missing: install gatepilot with its extra, gatepilot[train]" in line


def test_a_fault_of_ours_is_neither_no_nor_wrong_usage(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(line: CommandLine, name: str) -> None:
        raise ValueError(math.nan)

    monkeypatch.setattr(CommandLine, "_loaded", broken)
    code, out, err = cli("evaluate")
    assert (code, out) == (70, "")
    assert "Traceback" in err


def test_ctrl_c_while_a_command_is_loaded_is_silent(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(line: CommandLine, name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CommandLine, "_loaded", interrupted)
    assert cli("evaluate") == (130, "", "")


WRONG = (
    ("export", "x"),
    ("export", "x", "-o", "y", "--unsigned", "--key", "k"),
    ("export", "x", "-o", "nowhere/y"),
    ("fetch",),
    ("fetch", "no-form", "-o", "y"),
)
LOADED = """
import sys
from gatepilot.experiments.cli import run
code = run(sys.argv[1:])
heavy = {"torch", "mlflow", "stable_baselines3", "numba", "onnxruntime"} & sys.modules.keys()
sys.exit(f"loaded: {heavy}" if heavy else code)
"""


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_a_wrong_option_is_refused_before_anything_heavy_is_loaded(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", LOADED, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1


PIPED = (
    ("experiments", "--help"),
    ("experiments", "profiles"),
    ("experiments", "evaluate", "--help"),
    ("experiments", "workload", "describe", "azure-conv-2023"),
    ("experiments", "workload", "describe", "azure-conv-2023", "--json"),
    ("deploy_bridge", "--help"),
)


def piped(
    arguments: tuple[str, ...], folder: Path, *, stdout: int | IO[str], stderr: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", f"gatepilot.{arguments[0]}", *arguments[1:]],
        text=True,
        check=False,
        cwd=folder,
        stdout=stdout,
        stderr=stderr,
    )


@pytest.mark.parametrize("arguments", PIPED, ids=" ".join)
def test_a_reader_who_has_gone_is_no_fault(arguments: tuple[str, ...], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = piped(arguments, tmp_path, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_wrong_usage_stays_wrong_where_nobody_reads_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = piped(("experiments", "nope"), tmp_path, stdout=writer, stderr=writer)
    os.close(writer)
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux' /dev/full")
@pytest.mark.parametrize("arguments", PIPED, ids=" ".join)
def test_a_full_disk_is_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = piped(arguments, tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.endswith(": the output: cannot be written (No space left on device)\n")


def test_too_little_memory_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def large(line: CommandLine, name: str) -> None:
        np.empty(1 << 58)

    monkeypatch.setattr(CommandLine, "_loaded", large)
    assert "not enough memory: Unable to allocate 2.00 EiB" in cli.refusal("evaluate")
