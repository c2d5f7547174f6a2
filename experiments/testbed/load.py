"""The load generator: replays requests at their times through the gateway and measures them itself.

    python -m gatepilot.experiments.testbed.load CONFIG.json

Open loop: a request is sent at its time whatever became of those before. Once a second one JSON
line on standard output says how it goes, at the end one with the summary.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
import numpy as np

from .envoy_config import UPSTREAM_HEADER
from .load_record import Outcome, Record

_TAIL_BYTES = 1024
"""How much of the end of an answer is kept: the last events, the token counts among them."""
_STATUS_S = 1.0
"""Between two status lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadConfig:
    """What the load generator is told, as one JSON file."""

    url: str
    """Where the gateway listens."""
    model: str
    """Name of the model."""
    trace: str
    """csv with arrival_s, prompt_tokens, output_tokens."""
    span_s: float
    """Length of the trace; it begins anew after that."""
    seconds: float | None
    """How long new requests are sent; None: until stopped."""
    drain_s: float
    """How long those under way then have."""
    out: str
    """csv that gets one row a request."""
    replicas: dict[str, str]
    """Address and port of a replica to its name."""

    def write(self, path: Path) -> None:
        """Writes the configuration as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> LoadConfig:
        """Reads what `write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


class Load:
    """One replay."""

    def __init__(self, config: LoadConfig, record: Record) -> None:
        """A replay that has not begun.

        Args:
            config: What to send where.
            record: Where the outcomes go.
        """
        self._config = config
        self._record = record
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Sends everything, waits for the answers; cancelled, it gives up those under way."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            self._config.url, timeout=timeout, connector=connector, read_bufsize=1 << 18
        ) as session:
            try:
                await self._send_all(session)
                if self._under_way:
                    await asyncio.wait(self._under_way, timeout=self._config.drain_s)
            finally:
                for task in self._under_way:
                    task.cancel()
                await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _send_all(self, session: aiohttp.ClientSession) -> None:
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        self._record.begin(time.time())
        for row, arrival_s, prompt_tokens, output_tokens in self._schedule():
            await asyncio.sleep(start_s + arrival_s - loop.time())
            outcome = Outcome(row, arrival_s, prompt_tokens, output_tokens)
            task = asyncio.create_task(self._send(session, outcome, start_s))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        if self._config.seconds is not None:
            await asyncio.sleep(start_s + self._config.seconds - loop.time())

    def _schedule(self) -> Iterator[tuple[int, float, int, int]]:
        """Row, time and lengths of each request; over and over, up to the end."""
        config = self._config
        rows = np.loadtxt(config.trace, delimiter=",", skiprows=1, ndmin=2)
        until_s = math.inf if config.seconds is None else config.seconds
        shift_s, number = 0.0, 0
        while True:
            for arrival_s, prompt_tokens, output_tokens in rows:
                at_s = shift_s + float(arrival_s)
                if at_s >= until_s:
                    return
                yield number, at_s, int(prompt_tokens), int(output_tokens)
                number += 1
            shift_s += config.span_s
            if shift_s >= until_s:
                return

    async def _send(self, session: aiohttp.ClientSession, outcome: Outcome, start_s: float) -> None:
        """Sends one request and notes what became of it."""
        loop = asyncio.get_running_loop()
        body = {
            "model": self._config.model,
            "messages": [{"role": "user", "content": "a " * outcome.prompt_tokens}],
            "max_tokens": outcome.output_tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        data = json.dumps(body)
        sent_s = loop.time()
        outcome.sent_at_s = time.time()
        outcome.late_s = sent_s - start_s - outcome.scheduled_s
        self._record.sent(outcome)
        try:
            async with session.post(
                "/v1/chat/completions", data=data, headers={"Content-Type": "application/json"}
            ) as response:
                outcome.http_status = response.status
                upstream = response.headers.get(UPSTREAM_HEADER, "")
                outcome.replica = self._config.replicas.get(upstream, upstream)
                tail = b""
                async for chunk in response.content.iter_any():
                    if response.status == 200 and math.isnan(outcome.ttft_s):
                        outcome.ttft_s = loop.time() - sent_s
                    tail = (tail + chunk)[-_TAIL_BYTES:]
            outcome.conclude(tail)
        except (aiohttp.ClientError, TimeoutError):
            outcome.status = "error"
        except asyncio.CancelledError:
            outcome.status = "unfinished"
        outcome.e2e_s = loop.time() - sent_s
        self._record.ended(outcome)


async def replay(config: LoadConfig) -> None:
    """Runs a load until its end, or until the process is told to end."""
    with Record(Path(config.out)) as record:
        task = asyncio.create_task(Load(config, record).run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        while not task.done():
            await asyncio.wait({task}, timeout=_STATUS_S)
            record.flush()
            _say(record.status())
        with contextlib.suppress(asyncio.CancelledError):
            task.result()
        _say({"summary": {**record.summary(), "cpu_s": time.process_time()}})


def _say(content: object) -> None:
    sys.stdout.write(json.dumps(content, allow_nan=False) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(replay(LoadConfig.read(Path(sys.argv[1]))))
