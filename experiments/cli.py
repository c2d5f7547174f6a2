"""The command `gatepilot`, for those who train and compare.

One-line errors; exit code 0: good, 1: the answer is no, 2: wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ..deploy_bridge.command_line import CommandLine

COMMANDS: Final[dict[str, str]] = {
    "compare": "Tracked runs side by side: figures, curves, differences.",
    "demo": "The whole story in a few minutes: train, compare, report.",
    "evaluate": "Compare policies and baselines over the same windows of traffic.",
    "export": "Seal a trained policy: ONNX, manifest, golden vectors, signature.",
    "fetch": "Bring a sealed policy from the registry to a folder.",
    "leaderboard": "Reproduce the frozen comparison of all controllers, with hashes.",
    "search": "Search for hyperparameters; trainings that lag behind are broken off.",
    "profiles": "Serving profiles: the catalogue, one in detail, a fit to your own hardware.",
    "rehearse": "Watch a policy in shadow: the real bridge beside the simulated gateway.",
    "simulate": "Run a trace or a scenario through the simulated gateway.",
    "testbed": "A real Envoy and Prometheus around emulated replicas, on this machine.",
    "train": "Train a policy; everything is logged to MLflow.",
    "tune": "Tune the controllers on training windows, each with the same budget.",
    "validate": "Show that the simulator is right: another one, theory, hardware, Envoy.",
    "workload": "Traffic: describe it, fit a model to it, generate it, check a model.",
}
"""Command to its line in the help; `commands/<name>.py` holds a function or group of its name."""


def main() -> None:
    """Runs the command line and ends the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs a command line.

    Args:
        arguments: Everything behind `gatepilot`.

    Returns:
        The exit code.
    """
    return _LINE.run(arguments)


def _explained(error: Exception) -> str | None:
    """What the user can change, in one line; `None` for faults of ours.

    Each `ValueError` that says what the user can change has a class of the project's own.
    """
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        missing = error.name.split(".")[0]
        if missing != "gatepilot":
            extra = "testbed" if missing == "aiohttp" else "train"
            return f"{missing} is missing: install gatepilot with its extra, gatepilot[{extra}]"
    ours = type(error).__module__.startswith("gatepilot.")
    return str(error) if isinstance(error, ValueError) and ours else None


_LINE: Final = CommandLine(
    program="gatepilot",
    help="Tunes an LLM gateway: trains policies, and shows whether they are better.",
    package=__package__ or "",
    commands=COMMANDS,
    explain=_explained,
)
