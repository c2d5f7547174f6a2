"""Runs `gatepilot` within the test's process, and small inputs for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepilot.experiments.cli import run

PROFILE = "llama-3.1-8b-bf16-l40s-tp1-vllm-kernel"
HEADER = "arrival_s,prompt_tokens,output_tokens\n"


def write_trace(path: Path, *rows: str) -> Path:
    """A csv trace; without rows 400 requests, two a second."""
    lines = rows or [f"{i / 2},{100 + i % 7},{3 + i % 5}" for i in range(400)]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return path


def write_scenario(path: Path, **changes: Any) -> Path:  # noqa: ANN401
    """A light scenario of three 5-minute splits around a trace beside it."""
    write_trace(path.with_name("light.csv"), *(f"{i / 2},100,4" for i in range(1800)))
    content: dict[str, Any] = {
        "name": path.stem,
        "workload": {"trace": str(path.with_name("light.csv")), "to_s": 900.0},
        "profile": PROFILE,
        "cluster": {"max_replicas": 3, "cold_start_s": 20.0},
        "splits": {"train": [0.0, 300.0], "validation": [300.0, 600.0], "test": [600.0, 900.0]},
        "control": {"episode_ticks": 5, "warmup_s": 30.0},
    }
    path.write_text(yaml.safe_dump(content | changes))
    return path


def write_config(path: Path, scenario: str, **changes: Any) -> Path:  # noqa: ANN401
    """A training of a few hundred steps; nothing is learned."""
    content: dict[str, Any] = {
        "name": "tiny",
        "scenarios": [scenario],
        "n_envs": 4,
        "episode_ticks": 5,
        "steps": 256,
        "validation": {"every_steps": 128, "windows": 2, "ticks": 4},
        "ppo": {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "hidden": [16]},
    }
    path.write_text(yaml.safe_dump(content | changes))
    return path


class Cli:
    """Runs commands and looks at what they print."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self._capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = self._capfd.readouterr()
        return code, out, err

    def json(self, *arguments: str | Path) -> dict[str, Any]:
        """The one object that a successful command prints with `--json`."""
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        assert len(out.splitlines()) == 1
        found = json.loads(out, parse_constant=_refuse)
        assert isinstance(found, dict)
        return found

    def refusal(self, *arguments: str | Path) -> str:
        """The one line of a command that is refused."""
        code, out, err = self(*arguments)
        assert (code, out) == (2, ""), err
        assert len(err.splitlines()) == 1, err
        assert err.startswith("gatepilot ")
        return err


def contents(folder: Path) -> list[str]:
    """Everything under a folder, to see that nothing was left behind."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def _refuse(constant: str) -> Sequence[str]:
    raise AssertionError(f"{constant} is not JSON")
