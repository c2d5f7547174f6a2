"""A testbed and a bridge for the time of a block."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger_truth import WINDOW_S

from gatepilot.agents.artifact.signing import PUBLIC_KEY_FILE

GATEPILOT = [sys.executable, "-m", "gatepilot.experiments"]
BRIDGE = [sys.executable, "-m", "gatepilot.deploy_bridge"]
SCRAPE_S = 5.0
WARMUP_S = WINDOW_S + 2 * SCRAPE_S
DOWN_S = 20.0
"""How long a part that was killed stays dead."""
SPARE_S = 60.0
"""Load after the last look: the gateway must still be there."""


@contextmanager
def running_testbed(
    folder: Path, options: argparse.Namespace, seconds: float, faults: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """A testbed with four replicas under 20 requests/s, the artifact beside its bridge.yaml."""
    command = [*GATEPILOT, "testbed", "up", "--replicas", "4", "--rate", "20", "--out", str(folder)]
    command += ["--seconds", str(seconds + WARMUP_S + SPARE_S), "--restart-after", str(DOWN_S)]
    for fault in faults:
        command += ["--fault", fault]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        description = folder / "testbed.json"
        _until(
            lambda: description.is_file() and "load" in json.loads(description.read_text())["pids"]
        )
        shutil.copytree(options.artifact, folder / "artifact", dirs_exist_ok=True)
        place = described(description)
        shutil.copy(options.public_key, folder / PUBLIC_KEY_FILE)
        place["bridge"] = str(folder / "mine.yaml")
        text = Path(place["bridge"]).with_name("bridge.yaml").read_text(encoding="utf-8")
        lines = [
            f"public_key: {PUBLIC_KEY_FILE}" if line.startswith("public_key:") else line
            for line in text.splitlines()
        ]
        Path(place["bridge"]).write_text("\n".join(lines) + "\n", encoding="utf-8")
        time.sleep(WARMUP_S)  # until a window is full
        yield place
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()


@contextmanager
def running_bridge(place: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """`gatepilot-bridge run` on a testbed's configuration; asked to stop at the end."""
    process = subprocess.Popen([*BRIDGE, "run", place["bridge"]])  # noqa: S603
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        if process.wait(30) != 0:
            sys.exit(f"the bridge ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()


def described(path: Path) -> dict[str, Any]:
    """What the running testbed says of itself; nothing before it runs."""
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return content


def _until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end_s:
            sys.exit("the testbed did not start in time")
        time.sleep(0.2)
