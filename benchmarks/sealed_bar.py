"""The bar of the sealed artifact: parity, changed bytes, time of a verification.

    python benchmarks/sealed_bar.py --run RUN [--run RUN ...] [--runs DIR]

Prints the figures as JSON and stores them in `benchmarks/results/sealed.json`. Exit code 1: missed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from bar_file import Measured, run_bar

from gatepilot.agents.artifact.errors import ArtifactError
from gatepilot.agents.artifact.runtime import load_artifact
from gatepilot.agents.artifact.signing import make_key_pair, verify_signature

GATEPILOT = [sys.executable, "-m", "gatepilot.experiments"]
BRIDGE = [sys.executable, "-m", "gatepilot.deploy_bridge"]
OBSERVATIONS = 100_000
CHANGES = 240
"""Changed bytes, over all files of the artifact."""
VERIFY_LIMIT_S = 2.0


def main() -> int:
    """Runs the bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="append", required=True)
    parser.add_argument("--runs", default="runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        return run_bar("sealed", "sealed.json", partial(sealed, options, Path(work)))


def sealed(options: argparse.Namespace, work: Path) -> Measured:
    """Parity over 100,000 observations; every changed byte refused; verify within 2 s."""
    private, public = make_key_pair(work / "keys")
    figures: dict[str, Any] = {}
    met = True
    for run in options.run:
        folder = work / run
        command = [*GATEPILOT, "export", run, "-o", str(folder), "--runs", options.runs]
        export = [*command, "--key", str(private)]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        parity = json.loads((folder / "manifest.json").read_text())["parity"]
        refused, tried = _changed_bytes(folder, public)
        verify_s = [_verified_s(folder, public) for _ in range(7)]
        figures[run] = {
            "parity": parity,
            "changed_bytes": tried,
            "refused": refused,
            "verify_s": {"median": statistics.median(verify_s), "worst": max(verify_s)},
        }
        met &= parity["observations"] >= OBSERVATIONS and parity["ties"] == 0
        met &= refused == tried >= 200 and statistics.median(verify_s) <= VERIFY_LIMIT_S
    return met, figures


def _changed_bytes(folder: Path, public_key: Path) -> tuple[int, int]:
    """How many of the artifacts with one changed byte are refused."""
    rng = random.Random(0)  # noqa: S311  # which bytes, not a secret
    files = sorted(folder.iterdir())
    refused = 0
    for i in range(CHANGES):
        path = files[i % len(files)]
        content = path.read_bytes()
        place = rng.randrange(len(content))
        changed = bytearray(content)
        changed[place] ^= rng.randrange(1, 256)
        path.write_bytes(changed)
        try:
            load_artifact(folder, public_key=public_key, check_signature=verify_signature)
        except ArtifactError:
            refused += 1
        path.write_bytes(content)
    load_artifact(folder, public_key=public_key)  # whole again, it is taken
    return refused, CHANGES


def _verified_s(folder: Path, public_key: Path) -> float:
    started_s = time.perf_counter()
    command = [*BRIDGE, "verify", str(folder), "--public-key", str(public_key)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return time.perf_counter() - started_s


if __name__ == "__main__":
    sys.exit(main())
