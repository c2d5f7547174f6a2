"""The emulated replica over HTTP: answers, timing, faults, metrics."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gatepilot.envs.sim.series import E2E_BOUNDS_S, PROMPT_BOUNDS, TTFT_BOUNDS_S

from .replica_kit import MODEL, chat, served


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


async def scraped(session: aiohttp.ClientSession) -> dict[tuple[str, str], float]:
    """Value by name and bucket bound."""
    async with session.get("/metrics") as response:
        text = await response.text()
    return {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_whole_answers() -> None:
    async def main() -> None:
        async with served() as (_, session):
            async with session.post("/v1/chat/completions", json=chat(5, 3)) as response:
                assert response.status == 200
                body = await response.json()
            assert body["choices"][0]["message"]["content"] == " token token token"
            assert body["usage"]["total_tokens"] == 8
            plain = {"model": MODEL, "prompt": [1, 2], "max_tokens": 2}
            async with session.post("/v1/completions", json=plain) as response:
                body = await response.json()
            assert body["choices"][0]["text"] == " token token"
            async with session.get("/v1/models") as response:
                assert [model["id"] for model in (await response.json())["data"]] == [MODEL]

    run(main())


def test_a_stream_comes_token_by_token_in_the_model_s_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with served() as (_, session):
            start_s = loop.time()
            times: list[float] = []
            last = b""
            body = chat(90, 11, stream=True)
            async with session.post("/v1/chat/completions", json=body) as response:
                assert response.headers["Content-Type"].startswith("text/event-stream")
                async for line in response.content:
                    if b'"content": " token"' in line:
                        times.append(loop.time() - start_s)
                    last = line.strip() or last
            assert last == b"data: [DONE]"
            assert len(times) == 11
            # 10 ms and 90 prompt tokens of 1 ms, then 10 ms a token; never early
            assert times[0] >= 0.1
            assert times[-1] >= 0.2
            assert times[-1] < 2.0

    run(main())


def test_lateness_does_not_add_up() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with served() as (replica, session):
            start_s = loop.time()
            task = asyncio.create_task(_read(session, chat(1, 60, stream=True)))
            await asyncio.sleep(0.1)
            loop.call_soon(time.sleep, 0.2)  # nobody gets to run meanwhile
            await task
            assert 0.6 <= loop.time() - start_s < 0.9
            assert replica.clock.engine.iterations == 60

    run(main())


async def _read(session: aiohttp.ClientSession, body: dict[str, object]) -> int:
    async with session.post("/v1/chat/completions", json=body) as response:
        await response.read()
        return response.status


def test_a_client_that_goes_frees_its_place() -> None:
    async def main() -> None:
        async with served() as (replica, session):
            task = asyncio.create_task(_read(session, chat(10, 1000, stream=True)))
            while not replica.clock.engine.running:
                await asyncio.sleep(0.01)
            task.cancel()
            while replica.clock.engine.running:
                await asyncio.sleep(0.01)
            assert replica.clock.engine.free_blocks == 100

    run(main())


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"messages": [{"content": "a"}], "max_tokens": 10000}', 400)],
)
def test_requests_that_cannot_be_served(body: bytes, status: int) -> None:
    async def main() -> None:
        async with (
            served() as (_, session),
            session.post("/v1/chat/completions", data=body) as response,
        ):
            assert response.status == status
            assert (await response.json())["object"] == "error"

    run(main())


def test_told_to_fail_it_fails_its_share() -> None:
    async def main() -> None:
        async with served() as (_, session):
            async with session.post("/admin/faults", json={"error_share": 0.5}) as response:
                assert (await response.json())["error_share"] == 0.5
            found = [await _read(session, chat(1, 1)) for _ in range(60)]
            assert set(found) == {200, 500}
            assert 15 <= found.count(500) <= 45
            async with session.post("/admin/faults", json={"error_share": 0.0}) as response:
                assert response.status == 200
            assert {await _read(session, chat(1, 1)) for _ in range(5)} == {200}

    run(main())


def test_told_to_hang_it_answers_nothing_until_released() -> None:
    async def main() -> None:
        async with served() as (replica, session):
            async with session.post("/admin/faults", json={"hang": True}) as response:
                assert (await response.json())["hang"] is True
            task = asyncio.create_task(_read(session, chat(1, 1)))
            await asyncio.sleep(0.2)
            assert not task.done()
            assert (await scraped(session))["vllm:num_requests_waiting", ""] == 1
            async with session.post("/admin/faults", json={"hang": False}) as response:
                assert response.status == 200
            assert await task == 200
            assert not replica.clock.is_hung

    run(main())


def test_told_to_be_slow_it_is_slow() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with served() as (_, session):
            async with session.post("/admin/faults", json={"slow_factor": 20}) as response:
                assert response.status == 200
            start_s = loop.time()
            assert await _read(session, chat(5, 1)) == 200
            assert loop.time() - start_s >= 0.3

    run(main())


@pytest.mark.parametrize(
    "body",
    [
        {"error_share": 1.5},
        {"error_share": True},
        {"slow_factor": 0},
        {"hang": 1},
        {"error": 0.5},
        [],
    ],
)
def test_faults_that_do_not_exist_change_nothing(body: object) -> None:
    async def main() -> None:
        async with served() as (replica, session):
            async with session.post("/admin/faults", json=body) as response:
                assert response.status == 400
            async with session.get("/admin/faults") as response:
                assert await response.json() == {
                    "error_share": 0.0,
                    "slow_factor": 1.0,
                    "hang": False,
                }
            assert replica.error_share == 0.0

    run(main())


def test_metrics_have_the_names_and_buckets_of_vllm() -> None:
    async def main() -> None:
        async with served() as (_, session):
            for _ in range(3):
                await _read(session, chat(40, 5))
            found = await scraped(session)
            for name, bounds in (
                ("vllm:time_to_first_token_seconds", TTFT_BOUNDS_S),
                ("vllm:e2e_request_latency_seconds", E2E_BOUNDS_S),
                ("vllm:request_prompt_tokens", PROMPT_BOUNDS),
            ):
                les = [float(le) for key, le in found if key == f"{name}_bucket"]
                assert les == [*bounds.tolist(), float("inf")]
                assert found[f"{name}_count", ""] == 3
            assert found["vllm:request_prompt_tokens_sum", ""] == 120
            assert found["vllm:prompt_tokens_total", ""] == 120
            assert found["vllm:generation_tokens_total", ""] == 15
            assert found["vllm:request_success_total", ""] == 3
            assert found["vllm:num_requests_running", ""] == 0
            assert found["vllm:kv_cache_usage_perc", ""] == 0
            # 15 iterations of 1 s, 120 + 12 tokens of 100 s, and half of the time
            assert found["container_cpu_usage_seconds_total", ""] == pytest.approx(13_216, abs=2)

    run(main())
