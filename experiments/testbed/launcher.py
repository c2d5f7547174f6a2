"""Starts all parts, keeps them running, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Any, Final, Self

import aiohttp
from prometheus_client import CollectorRegistry, start_http_server

from ..files import writing
from .binaries import LOOPBACK
from .cluster_metrics import ClusterMetrics
from .errors import LaunchError
from .injection import Injection
from .layout import Layout
from .part import Part, PartSpec
from .plan import Plan
from .preparation import load_config, write_files

_PACKAGE: Final = __package__ or ""
_LOAD_GRACE_S: Final = 10.0
"""Time the load generator has to write what it knows."""


class Launcher:
    """One testbed, from `async with` to its end."""

    def __init__(
        self, plan: Plan, layout: Layout, *, say: Callable[[str], None], restart_after_s: float
    ) -> None:
        """A testbed that has not started.

        Args:
            plan: What it is to be.
            layout: Where it lies and listens.
            say: Gets one line for each thing worth knowing.
            restart_after_s: How long a part that died stays dead.
        """
        self.layout = layout
        self._plan = plan
        self._say = say
        self._restart_after_s = restart_after_s
        self._load: Part | None = None
        self._undo = contextlib.AsyncExitStack()
        self._session: aiohttp.ClientSession
        self.replicas = [
            self._part(
                pod,
                sys.executable,
                *("-m", f"{_PACKAGE}.replica", str(layout.replica_config(pod))),
                ready=f"{layout.urls[pod]}/health",
            )
            for pod in layout.pods
        ]
        self.envoy = self._part(
            "envoy", *layout.envoy.command, ready=f"{layout.urls['envoy_admin']}/ready"
        )
        self.prometheus = self._part(
            "prometheus", *layout.prometheus.command, ready=f"{layout.urls['prometheus']}/-/ready"
        )

    @property
    def parts(self) -> list[Part]:
        """Everything that runs besides the load generator."""
        return [*self.replicas, self.envoy, self.prometheus]

    async def __aenter__(self) -> Self:
        """Starts everything, or nothing.

        Raises:
            LaunchError: A part does not start.
            OutputError: Its files cannot be written.
        """
        async with contextlib.AsyncExitStack() as stack:
            files = stack.enter_context(ExitStack())
            self.layout.lock(files)
            self._session = await stack.enter_async_context(aiohttp.ClientSession())
            with writing(self.layout.folder):
                write_files(self._plan, self.layout)
            await asyncio.to_thread(self.layout.envoy.check)
            self._serve_cluster_metrics(files)
            stack.callback(self.layout.description.unlink, missing_ok=True)
            stack.push_async_callback(self._stop_all)
            for group in (self.replicas, [self.envoy], [self.prometheus]):
                for part in group:
                    await part.start()
                for part in group:
                    await part.wait_ready(self._session)
            self._describe()
            self._undo = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends everything."""
        await self._undo.aclose()

    async def run(self, on_status: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
        """Runs the load to its end; without one, until cancelled. What dies is started again.

        Args:
            on_status: Gets the load generator's figures once a second.

        Returns:
            The load's summary.

        Raises:
            LaunchError: The load generator ended early, or a part does not come back.
        """
        keepers = [asyncio.create_task(self._keep(part)) for part in self.parts]
        work = asyncio.create_task(self._work(on_status))
        try:
            done, _ = await asyncio.wait({work, *keepers}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {work}:
                task.result()  # a keeper only ends by raising
            return await work
        finally:
            for task in (work, *keepers):
                task.cancel()
            await asyncio.gather(work, *keepers, return_exceptions=True)

    @property
    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of every part so far, the without the load generator: its summary has it."""
        parts = {part.spec.name: part.cpu_s for part in self.parts}
        return {**parts, "launcher": time.process_time()}

    async def _work(self, on_status: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
        if self._plan.requests is None:
            await self._inject_all(time.time())
            await (
                asyncio.sleep(self._plan.seconds) if self._plan.seconds else asyncio.Event().wait()
            )
            return None
        config = self.layout.folder / "load.json"
        with writing(config):
            load_config(self._plan, self.layout).write(config)
        self._load = self._part(
            "load",
            *(sys.executable, "-m", f"{_PACKAGE}.load", str(config)),
            is_piped=True,
            grace_s=_LOAD_GRACE_S,
        )
        await self._load.start()
        self._describe()
        summary, injections = None, None
        try:
            async for status in self._load_lines(self._load):
                if "summary" in status:
                    summary = status["summary"]
                    continue
                if injections is None and status["started_at_s"] is not None:
                    injections = asyncio.create_task(self._inject_all(status["started_at_s"]))
                on_status(status)
        finally:
            if injections is not None:
                injections.cancel()
                await asyncio.gather(injections, return_exceptions=True)
        await self._load.process.wait()
        if summary is None:
            raise LaunchError(self._load.obituary)
        return dict(summary)

    async def _load_lines(self, load: Part) -> AsyncIterator[dict[str, Any]]:
        """What the load generator says, line by line."""
        stream = load.process.stdout
        if stream is None:
            msg = "the load generator's output is not read"
            raise LaunchError(msg)
        async for line in stream:
            yield json.loads(line)

    async def _keep(self, part: Part) -> None:
        """Starts a part again each time it has died."""
        while True:
            await part.process.wait()
            part.is_ready = False
            self._say(f"{part.obituary}; starts again in {self._restart_after_s:g} s")
            await asyncio.sleep(self._restart_after_s)
            await part.start()
            await part.wait_ready(self._session)
            self._describe()
            self._say(f"{part.spec.name} is back")

    async def _inject_all(self, started_at_s: float) -> None:
        """Begins and ends all faults at their times."""
        await asyncio.gather(*(self._inject(fault, started_at_s) for fault in self._plan.faults))

    async def _inject(self, fault: Injection, started_at_s: float) -> None:
        pod = self.layout.pods[fault.replica]
        await asyncio.sleep(started_at_s + fault.start_s - time.time())
        if fault.kind == "kill":
            self.replicas[fault.replica].process.kill()
            return
        await self._tell(pod, fault.onset)
        if fault.end_s is not None:
            await asyncio.sleep(started_at_s + fault.end_s - time.time())
            await self._tell(pod, fault.recovery)

    async def _tell(self, pod: str, body: dict[str, Any]) -> None:
        """The admin call of a replica."""
        try:
            async with self._session.post(
                f"{self.layout.urls[pod]}/admin/faults", json=body
            ) as response:
                self._say(f"{pod}: {await response.text()}")
        except aiohttp.ClientError as error:
            self._say(f"{pod} cannot be told {body}: {error}")

    async def _stop_all(self) -> None:
        """The load first, then gateway and telemetry, then the replicas."""
        if self._load is not None:
            await self._load.stop()
        await asyncio.gather(*(part.stop() for part in (self.envoy, self.prometheus)))
        await asyncio.gather(*(part.stop() for part in self.replicas))

    def _serve_cluster_metrics(self, stack: ExitStack) -> None:
        registry = CollectorRegistry()
        replicas = {part.spec.name: part for part in self.replicas}
        registry.register(
            ClusterMetrics(
                self.layout.pods, lambda pod: replicas[pod].is_ready and replicas[pod].is_running
            )
        )
        server, thread = start_http_server(self.layout.cluster_port, LOOPBACK, registry)
        stack.callback(thread.join)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)

    def _describe(self) -> None:
        """Writes what others need to know: scripts, and whoever looks for a process."""
        layout = self.layout
        parts = self.parts if self._load is None else [*self.parts, self._load]
        content = {
            "pid": os.getpid(),
            "urls": layout.urls,
            "pids": {part.spec.name: part.process.pid for part in parts},
            "logs": {part.spec.name: str(part.spec.log) for part in parts},
            "scenario": self._plan.scenario.name,
            "model": self._plan.model,
            "replicas": self._plan.replicas,
            "requests": str(layout.requests),
            "bridge": str(layout.bridge),
        }
        temporary = layout.description.with_suffix(".partial")
        with writing(layout.description):
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            temporary.replace(layout.description)

    def _part(self, name: str, *command: str, ready: str | None = None, **more: Any) -> Part:  # noqa: ANN401
        return Part(
            PartSpec(name=name, command=command, log=self.layout.log(name), ready_url=ready, **more)
        )
