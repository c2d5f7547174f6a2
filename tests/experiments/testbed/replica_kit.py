"""A replica that is quick and takes little, served within the test's process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from gatepilot.experiments.testbed.binaries import LOOPBACK, free_ports
from gatepilot.experiments.testbed.replica import Replica
from gatepilot.experiments.testbed.replica_config import CpuShare, ReplicaConfig
from gatepilot.experiments.testbed.step_engine import StepModel

MODEL = "tiny"


def replica_config(port: int = 0) -> ReplicaConfig:
    """An iteration takes 10 ms and what is prefilled in it."""
    return ReplicaConfig(
        name="llm-0",
        namespace="gatepilot",
        model=MODEL,
        host=LOOPBACK,
        port=port,
        seed=1,
        step=StepModel(
            base_s=0.01,
            per_seq_s=0.0,
            per_ctx_token_s=0.0,
            per_prefill_token_s=0.001,
            max_num_seqs=4,
            chunk_tokens=100,
            kv_blocks=100,
            block_tokens=16,
            watermark=0.01,
        ),
        cpu=CpuShare(idle=0.5, per_iteration_s=1.0, per_token_s=100.0),
    )


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[Replica, aiohttp.ClientSession]]:
    """A running replica and a client of it."""
    (port,) = free_ports(1)
    replica = Replica(replica_config(port))
    runner = web.AppRunner(replica.app(), handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    iterations = asyncio.create_task(replica.clock.run())
    try:
        async with aiohttp.ClientSession(f"http://{LOOPBACK}:{port}") as session:
            yield replica, session
    finally:
        iterations.cancel()
        await asyncio.gather(iterations, return_exceptions=True)
        await runner.cleanup()


def chat(prompt_tokens: int, output_tokens: int, **more: object) -> dict[str, object]:
    """Body of a chat call."""
    messages = [{"role": "user", "content": "a " * prompt_tokens}]
    return {"model": MODEL, "messages": messages, "max_tokens": output_tokens, **more}
