"""Processes that are tied to the launcher's life."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from gatepilot.experiments.testbed.errors import LaunchError
from gatepilot.experiments.testbed.part import Part, PartSpec

NOWHERE = "http://127.0.0.1:9/"
"""The discard port: nothing answers there."""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int, within_s: float = 5.0) -> None:
    deadline_s = time.monotonic() + within_s
    while is_alive(pid):
        assert time.monotonic() < deadline_s, f"process {pid} is still there"
        time.sleep(0.02)


def part(tmp_path: Path, *command: str, **more: object) -> Part:
    spec = PartSpec(name="gateway", command=command, log=tmp_path / "gateway.log", **more)  # type: ignore[arg-type]
    return Part(spec)


def test_it_is_stopped(tmp_path: Path) -> None:
    async def main() -> int:
        sleeper = part(tmp_path, "sleep", "60")
        await sleeper.start()
        assert sleeper.is_running
        await sleeper.stop()
        assert not sleeper.is_running
        assert "ended by SIGTERM" in sleeper.obituary
        return sleeper.process.pid

    wait_until_gone(asyncio.run(main()))


def test_one_that_will_not_end_is_killed(tmp_path: Path) -> None:
    async def main() -> int:
        stubborn = part(tmp_path, sys.executable, "-c", STUBBORN, grace_s=0.3)
        await stubborn.start()
        await asyncio.sleep(0.3)
        await stubborn.stop()
        assert stubborn.process.returncode == -signal.SIGKILL
        return stubborn.process.pid

    wait_until_gone(asyncio.run(main()))


def test_one_that_ends_before_it_is_ready(tmp_path: Path) -> None:
    async def main() -> None:
        broken = part(
            tmp_path, "sh", "-c", "echo starting; echo 'no port' >&2; exit 3", ready_url=NOWHERE
        )
        await broken.start()
        async with aiohttp.ClientSession() as session:
            await broken.wait_ready(session)

    expected = rf"^gateway ended with 3: no port; log: {tmp_path}/gateway.log$"
    with pytest.raises(LaunchError, match=expected):
        asyncio.run(main())


def test_one_that_does_not_get_ready(tmp_path: Path) -> None:
    async def main() -> None:
        slow = part(tmp_path, "sleep", "60", ready_url=NOWHERE, ready_within_s=0.2)
        await slow.start()
        try:
            async with aiohttp.ClientSession() as session:
                await slow.wait_ready(session)
        finally:
            await slow.stop()

    with pytest.raises(LaunchError, match=r"not ready after 0.2 s; log: .*gateway\.log"):
        asyncio.run(main())


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    async def main() -> None:
        missing = part(tmp_path, str(tmp_path / "nothing"), ready_url=NOWHERE)
        await missing.start()
        async with aiohttp.ClientSession() as session:
            await missing.wait_ready(session)

    with pytest.raises(LaunchError, match="nothing: No such file"):
        asyncio.run(main())


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, sys
from pathlib import Path
from gatepilot.experiments.testbed.part import Part, PartSpec
async def main():
    part = Part(PartSpec(name="x", command=("sleep", "60"), log=Path({str(tmp_path / "log")!r})))
    await part.start()
    await asyncio.sleep(0.3)
    print(part.process.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    command = [sys.executable, "-c", script]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        os.kill(parent.pid, signal.SIGKILL)
    wait_until_gone(child)
