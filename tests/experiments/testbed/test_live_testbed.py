"""The testbed with its real parts: it works, a failing replica is ejected, nothing is left."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepilot.experiments.testbed.binaries import find_binary
from gatepilot.experiments.testbed.envoy_config import UPSTREAM_HEADER
from gatepilot.experiments.testbed.errors import LaunchError
from gatepilot.experiments.testbed.launcher import Launcher
from gatepilot.experiments.testbed.layout import Layout
from gatepilot.experiments.testbed.plan import Wishes, planned

from ..cli_kit import write_trace

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

GATEPILOT = [sys.executable, "-m", "gatepilot.experiments"]
START_WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def programs() -> None:
    """Envoy and Prometheus are here, or the test is skipped."""
    for name in ("envoy", "prometheus"):
        try:
            find_binary(name)
        except LaunchError as error:
            pytest.skip(str(error))


class Bed:
    """`gatepilot testbed up` as a process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder / "bed"
        trace = write_trace(folder / "a.csv", *(f"{i / 10},60,4" for i in range(300)))
        common = ["--trace", str(trace), "--replicas", "2", "--restart-after", "1"]
        self.process = subprocess.Popen(  # noqa: S603
            [*GATEPILOT, "testbed", "up", *common, "--out", str(self.folder), "--json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: "load" in self.description.get("pids", {}), START_WITHIN_S)
        self.urls: dict[str, str] = self.description["urls"]
        assert len(processes_of(self.folder)) == 5  # replicas, Envoy, Prometheus, load

    @property
    def description(self) -> dict[str, Any]:
        path = self.folder / "testbed.json"
        if self.process.poll() is not None:
            pytest.fail(f"the testbed has ended: {self.process.communicate()}")
        found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return found

    def json(self, part: str, path: str) -> Any:  # noqa: ANN401
        with urllib.request.urlopen(self.urls[part] + path, timeout=5) as response:  # noqa: S310
            return json.load(response)

    def ask(self, query: str) -> list[float]:
        """Values of an instant query."""
        found = self.json("prometheus", f"/api/v1/query?query={urllib.parse.quote(query)}")
        return [float(series["value"][1]) for series in found["data"]["result"]]

    def end(self, within_s: float = 30.0) -> tuple[dict[str, Any], str]:
        """Its result and what it said besides."""
        out, err = self.process.communicate(timeout=within_s)
        assert self.process.returncode == 0, err
        return json.loads(out), err

    def assert_gone(self) -> None:
        """No process and no port is left; the kernel may take a moment to clear up."""
        until(lambda: not processes_of(self.folder), 5.0)
        until(lambda: not [url for url in self.urls.values() if listens(url)], 5.0)


@pytest.fixture
def beds(tmp_path: Path) -> Iterator[Callable[..., Bed]]:
    """Starts testbeds; none survives its test."""
    started: list[Bed] = []

    def start(*options: str) -> Bed:
        started.append(Bed(tmp_path, *options))
        return started[-1]

    yield start
    for bed in started:
        bed.process.kill()
        bed.process.communicate()


def listens(url: str) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", urllib.parse.urlsplit(url).port)) == 0


def processes_of(folder: Path) -> list[int]:
    """Processes with the folder in their command line, testbeds themselves left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"up" not in words and any(str(folder).encode() in word for word in words):
            found.append(int(path.parent.name))
    return found


def until(condition: Callable[[], bool], within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s} s"
        time.sleep(0.1)


def test_traffic_metrics_and_an_ejection(beds: Callable[..., Bed]) -> None:
    bed = beds("--seconds", "26", "--fault", "1:errors=1@2-24")

    body = {"messages": [{"role": "user", "content": "a b c"}], "max_tokens": 2}
    request = urllib.request.Request(  # noqa: S310
        bed.urls["gateway"] + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
        assert response.headers[UPSTREAM_HEADER] in (
            bed.urls[name].removeprefix("http://") for name in ("llm-0", "llm-1")
        )
        assert json.load(response)["usage"]["total_tokens"] == 5

    entries = bed.json("envoy_admin", "/runtime?format=json")["entries"]
    key = "outlier_detection.failure_percentage_threshold"
    assert entries[key]["final_value"] == "50"

    until(lambda: bed.ask("sum(up)") == [4.0], 15)
    until(lambda: bed.ask("sum(vllm:generation_tokens_total)") > [0.0], 15)
    assert bed.ask("kube_deployment_status_replicas_available") == [2.0]

    until(lambda: failing_hosts(bed) == [bed.urls["llm-1"].removeprefix("http://")], 25)
    until(lambda: bed.ask("envoy_cluster_outlier_detection_ejections_active") == [1.0], 10)

    result, err = bed.end()
    bed.assert_gone()
    load = result["load"]
    assert load["requests"] == 260
    assert load["ok"] >= 0.97 * load["requests"]  # failed ones are retried on the other replica
    assert load["ttft_s"]["p50"] < 1.0
    assert '"error_share": 1' in err
    rows = (bed.folder / "requests.csv").read_text().splitlines()
    assert len(rows) == 1 + 260
    assert not (bed.folder / "testbed.json").exists()


def failing_hosts(bed: Bed) -> list[str]:
    """Addresses that the breaker holds out."""
    (cluster,) = bed.json("envoy_admin", "/clusters?format=json")["cluster_statuses"]
    addresses = []
    for host in cluster["host_statuses"]:
        if host["health_status"].get("failed_outlier_check"):
            at = host["address"]["socket_address"]
            addresses.append(f"{at['address']}:{at['port_value']}")
    return addresses


def test_what_is_killed_comes_back_and_ctrl_c_ends_everything(beds: Callable[..., Bed]) -> None:
    bed = beds("--fault", "0:kill@1")
    before = bed.description["pids"]
    until(lambda: bed.description["pids"]["llm-0"] != before["llm-0"], 30)
    bed.process.send_signal(signal.SIGINT)
    result, err = bed.end()
    bed.assert_gone()
    assert result["load"] is None
    assert "llm-0 ended by SIGKILL" in err
    assert "llm-0 is back" in err


def test_a_launcher_that_is_killed_leaves_nothing(beds: Callable[..., Bed]) -> None:
    bed = beds()
    bed.process.kill()
    bed.process.wait()
    bed.assert_gone()


def test_one_testbed_a_folder(beds: Callable[..., Bed]) -> None:
    bed = beds()
    second = subprocess.run(  # noqa: S603
        [*GATEPILOT, "testbed", "up", "--out", str(bed.folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 2
    assert "another testbed runs in this folder" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    bed.process.send_signal(signal.SIGTERM)
    bed.end()
    bed.assert_gone()


def test_nothing_is_half_started(tmp_path: Path) -> None:
    broken = Path(shutil.which("false") or "/bin/false")
    plan = planned(Wishes(scenario="testbed", replicas=2, rate_rps=0.0))
    layout = Layout.choose(tmp_path / "bed", 2)
    layout = dataclasses.replace(
        layout, prometheus=dataclasses.replace(layout.prometheus, binary=broken)
    )
    said: list[str] = []

    async def main() -> None:
        async with Launcher(plan, layout, say=said.append, restart_after_s=1.0):
            pytest.fail("it started")

    with pytest.raises(LaunchError, match=r"^prometheus ended with 1; log: .*/prometheus\.log$"):
        asyncio.run(main())
    until(lambda: not processes_of(tmp_path / "bed"), 5.0)


def test_envoy_checks_its_configuration(tmp_path: Path) -> None:
    plan = planned(Wishes(scenario="testbed", replicas=2, rate_rps=0.0))
    envoy = Layout.choose(tmp_path / "bed", 2).envoy
    envoy.write(plan.scenario.gateway, [1, 2])
    envoy.check()
    text = envoy.bootstrap.read_text()
    envoy.bootstrap.write_text(text.replace("enforcing_success_rate", "enforcing_sucess_rate"))
    with pytest.raises(LaunchError, match="enforcing_sucess_rate") as caught:
        envoy.check()
    assert len(str(caught.value).splitlines()) == 1
