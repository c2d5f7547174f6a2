"""One emulated replica: vLLM's interface and metrics over the simulator's step model.

    python -m gatepilot.experiments.testbed.replica CONFIG.json

Headers go out with the first token, not before: then an answer counts as a success for gateway and
breaker when it does in the simulator.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from .openai_api import Call, RequestError, Wording, parse_call
from .replica_clock import Answer, ReplicaClock
from .replica_config import ReplicaConfig
from .replica_metrics import ReplicaMetrics, ReplicaReadings
from .step_engine import StepEngine

KEEP_ALIVE_S: Final = 3600.0
"""Idle connections stay longer than the gateway keeps them: it must be the one to close."""
SHUTDOWN_S: Final = 0.5
"""What answers under way get when the replica is told to end."""
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Largest request."""
_FAULTS: Final = ("error_share", "slow_factor", "hang")
"""What the admin call sets."""


class Replica:
    """The web application of one replica."""

    def __init__(self, config: ReplicaConfig) -> None:
        """A replica that is not served yet."""
        self.config = config
        self.error_share = 0.0
        self.metrics = ReplicaMetrics(
            model=config.model, pod=config.name, namespace=config.namespace
        )
        self.clock = ReplicaClock(StepEngine(config.step), self.metrics)
        self.metrics.read = self._readings
        self._started_s = time.monotonic()
        self._random = random.Random(config.seed)  # noqa: S311
        self._numbers = itertools.count()

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/admin/faults", self._faults)
        app.router.add_post("/admin/faults", self._set_faults)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, is_chat=True)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, is_chat=False)

    async def _answer(self, request: web.Request, *, is_chat: bool) -> web.StreamResponse:
        if self.error_share > 0 and self._random.random() < self.error_share:
            return _error(500, "InternalServerError", "told to fail")
        try:
            call = parse_call(await request.json(), is_chat=is_chat, model=self.config.model)
        except json.JSONDecodeError as error:
            return _error(400, "BadRequestError", f"not JSON: {error}")
        except RequestError as error:
            return _error(400, "BadRequestError", str(error))
        if not self.clock.engine.fits(call.prompt_tokens, call.output_tokens):
            return _error(400, "BadRequestError", "longer than the KV cache can ever hold")
        wording = Wording(
            call,
            answer_id=f"{self.config.name}-{next(self._numbers)}",
            model=self.config.model,
            created_s=int(time.time()),
        )
        answer = self.clock.submit(call.prompt_tokens, call.output_tokens)
        try:
            if call.is_streamed:
                return await _stream(request, answer, call, wording)
            while await answer.next_tokens():
                pass
            return web.json_response(wording.whole())
        finally:
            self.clock.abandon(answer)

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": self.config.model, "object": "model", "owned_by": "gatepilot"}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _faults(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "error_share": self.error_share,
                "slow_factor": self.clock.slow_factor,
                "hang": self.clock.is_hung,
            }
        )

    async def _set_faults(self, request: web.Request) -> web.Response:
        try:
            body = await request.json()
            self._apply(body)
        except (json.JSONDecodeError, RequestError) as error:
            return _error(400, "BadRequestError", str(error))
        return await self._faults(request)

    def _apply(self, body: Any) -> None:  # noqa: ANN401
        """Sets the faults that a call names; the others stay.

        Raises:
            RequestError: An unknown key, or a value out of range: nothing is changed.
        """
        if not isinstance(body, Mapping) or not set(body) <= set(_FAULTS):
            raise RequestError(f"expected an object with keys out of {', '.join(_FAULTS)}")
        share = body.get("error_share", self.error_share)
        slow = body.get("slow_factor", self.clock.slow_factor)
        hung = body.get("hang", self.clock.is_hung)
        if not _is_number(share) or not 0 <= share <= 1:
            raise RequestError(f"error_share: {share!r} is not a number from 0 to 1")
        if not _is_number(slow) or not slow > 0:
            raise RequestError(f"slow_factor: {slow!r} is not a number above 0")
        if not isinstance(hung, bool):
            raise RequestError(f"hang: {hung!r} is neither true nor false")
        self.error_share = float(share)
        self.clock.slow_factor = float(slow)
        self.clock.hang(hung)

    def _readings(self) -> ReplicaReadings:
        engine, uptime_s = self.clock.engine, time.monotonic() - self._started_s
        return ReplicaReadings(
            running=len(engine.running),
            waiting=self.clock.waiting,
            kv_usage=1.0 - engine.free_blocks / engine.model.kv_blocks,
            evictions=engine.evictions,
            cpu_used_s=self.config.cpu.used_s(uptime_s, engine.iterations, engine.tokens),
        )


async def _stream(
    request: web.Request, answer: Answer, call: Call, wording: Wording
) -> web.StreamResponse:
    """Sends tokens as they come."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    sent = 0
    while fresh := await answer.next_tokens():
        if sent == 0:
            await response.prepare(request)
        events = wording.tokens(
            fresh, is_first=sent == 0, is_last=sent + fresh == call.output_tokens
        )
        sent += fresh
        await response.write(events)
    await response.write_eof()
    return response


def _error(status: int, kind: str, message: str) -> web.Response:
    """An error as vLLM words it."""
    content = {"object": "error", "message": message, "type": kind, "code": status}
    return web.json_response(content, status=status)


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int | float) and not isinstance(value, bool)


async def serve(config: ReplicaConfig) -> None:
    """Serves one replica until the process is told to end."""
    replica = Replica(config)
    runner = web.AppRunner(
        replica.app(),
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    await web.TCPSite(runner, config.host, config.port, backlog=1024).start()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    iterations = asyncio.create_task(replica.clock.run())
    end = asyncio.create_task(ended.wait())
    done, _ = await asyncio.wait({iterations, end}, return_when=asyncio.FIRST_COMPLETED)
    if iterations in done:
        iterations.result()  # it never returns: what it raised ends the replica
    iterations.cancel()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(ReplicaConfig.read(Path(sys.argv[1]))))
