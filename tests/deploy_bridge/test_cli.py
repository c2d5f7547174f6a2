"""The commands: exit codes, one-line errors, JSON; and a bridge as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepilot.deploy_bridge.cli import COMMANDS
from gatepilot.deploy_bridge.errors import ControlError, LedgerError

from .audit.ledger_kit import forged
from .kit import Cli, Gateway, finished, parsed, start, write_bridge


def wait_for(what: Callable[[], Any], seconds: float = 20.0) -> Any:  # noqa: ANN401
    """The first true answer."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        try:
            found = what()
        except (LedgerError, ControlError, AssertionError):
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def assert_light(pid: int) -> None:
    """Little memory, and no library that trains in it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    most_kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    assert most_kib < 150 * 1024
    mapped = Path(f"/proc/{pid}/maps").read_text()
    assert "onnxruntime" in mapped
    assert not [name for name in ("libtorch", "llvmlite", "sigstore") if name in mapped]


def test_every_command_has_help_with_an_example(cli: Cli) -> None:
    code, out, _ = cli("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)
    for name in COMMANDS:
        code, out, _ = cli(name, "--help")
        assert code == 0
        assert f"Example: gatepilot-bridge {name}" in out


@pytest.mark.parametrize(
    "arguments", [("verifyx",), ("verify",), ("run", "a", "b"), ("why", "x"), ("status", "--jsn")]
)
def test_wrong_usage_is_two_and_one_line(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("gatepilot-bridge")


def test_verify_says_yes_or_no(cli: Cli, folder: Path) -> None:
    code, out, _ = cli("verify", folder / "artifact", "--allow-unsigned")
    assert code == 0
    assert "UNSIGNED" in out
    code, out, _ = cli("verify", folder / "artifact", "--allow-unsigned", "--json")
    found = parsed(out)
    assert (code, found["accepted"], found["is_signed"]) == (0, True, False)
    content = bytearray((folder / "artifact" / "policy.onnx").read_bytes())
    content[100] ^= 1
    (folder / "artifact" / "policy.onnx").write_bytes(content)
    code, out, err = cli("verify", folder / "artifact", "--allow-unsigned", "--json")
    assert code == 1
    assert parsed(out)["accepted"] is False
    assert "policy.onnx" in err
    (folder / "empty").mkdir()
    code, _, err = cli("verify", folder / "empty", "--allow-unsigned")
    assert (code, len(err.splitlines())) == (1, 1)


def test_check_shows_every_source(cli: Cli, folder: Path, world: Gateway) -> None:
    path = write_bridge(folder, world.url)
    code, out, _ = cli("check", path)
    assert code == 0
    assert "request_rate_rps" in out
    assert "not asked for, so always missing: cpu_utilization" in out
    assert not (folder / "state").exists()
    found = parsed(cli("check", path, "--json")[1])
    assert found["sees"]
    assert {one["name"]: one["value"] for one in found["entries"]}["request_rate_rps"] == 20.0


def test_check_is_one_where_the_bridge_would_be_blind(
    cli: Cli, folder: Path, world: Gateway
) -> None:
    path = write_bridge(folder, world.url)
    del world.values["replicas_ready"]
    code, _, err = cli("check", path)
    assert code == 1
    assert err.splitlines()[-1].endswith("the bridge would be blind: replicas_ready")
    code, out, _ = cli("check", write_bridge(folder, "http://127.0.0.1:9"), "--json")
    assert code == 1
    assert parsed(out)["sees"] is False


def test_check_is_two_where_the_configuration_is_wrong(
    cli: Cli, folder: Path, world: Gateway
) -> None:
    code, _, err = cli("check", write_bridge(folder, world.url, good_ticks=0))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "bridge.yaml: good_ticks" in err
    world.several.add("request_rate_rps")
    code, _, err = cli("check", write_bridge(folder, world.url))
    assert code == 2
    assert "request_rate_rps" in err.splitlines()[-1]
    code, _, err = cli("check", folder / "absent.yaml")
    assert (code, len(err.splitlines())) == (2, 1)


def test_run_refuses_what_waiting_would_not_cure(cli: Cli, folder: Path, world: Gateway) -> None:
    world.several.add("gateway_up")
    code, _, err = cli("run", write_bridge(folder, world.url), "--ticks", "1")
    assert code == 2
    assert "gateway_up" in err.splitlines()[-1]
    (folder / "artifact" / "extra").touch()
    code, _, err = cli("run", write_bridge(folder, world.url), "--ticks", "1")
    assert code == 2
    assert "extra" in err.splitlines()[-1]


@pytest.mark.timeout(60)
def test_status_why_history_and_replay_of_a_running_bridge(
    cli: Cli, folder: Path, world: Gateway
) -> None:
    world.values |= {"request_rate_rps": 300.0, "waiting": 60.0}
    path = write_bridge(folder, world.url)
    process = start("run", path, stderr=folder / "log")
    try:
        wait_for(lambda: cli("status", "--config", path)[0] == 0)
        code, out, _ = cli("status", "--config", path)
        assert code == 0
        assert len(out.splitlines()) <= 24
        assert max(map(len, out.splitlines())) <= 80
        found = parsed(cli("status", "--config", path, "--json")[1])
        assert (found["mode"], found["lifecycle"], found["pid"]) == (
            "NORMAL",
            "SHADOW",
            process.pid,
        )
        assert_light(process.pid)
        code, out, _ = cli("why", "--config", path)
        assert code == 0
        assert "would change settings: 4 replicas, threshold 0.50 -> 5 replicas" in out
        assert "nobody carries it out" in out
        world.is_mute = True
        wait_for(lambda: cli("status", "--config", path)[0] == 1)
        code, out, _ = cli("why", "--config", path)
        assert "unreachable: gateway_up: HTTP Status Code 503" in out
        assert "asked: up{" in out
        code, out, _ = cli("replay", folder / "state", "--json")  # while it is written
        assert (code, parsed(out)["identical"]) == (0, True)
        world.is_mute = False
        wait_for(lambda: cli("status", "--config", path)[0] == 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
    code, out, _ = cli("history", path)
    assert code == 0
    assert "NORMAL -> FROZEN" in out
    assert "SIGTERM" in out
    rows = parsed(cli("history", path, "--all", "--json", "--last", "500")[1])["records"]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    code, out, _ = cli("replay", path)
    assert code == 0
    assert f"{len(rows)} records intact" in out
    assert ", 0 differ" in out
    code, out, _ = cli("why", "2", "--config", path)  # of the ledger: no bridge runs any more
    assert code == 0
    assert "held" in out.splitlines()[0]
    assert "is no decision but a boot" in cli("why", "1", "--config", path)[1]
    assert cli("why", "9999", "--config", path)[0] == 1
    code, out, err = cli("status", "--config", path)
    assert (code, out, len(err.splitlines())) == (1, "", 1)


@pytest.mark.timeout(90)
def test_a_bridge_that_is_killed_leaves_a_ledger_that_replays(
    cli: Cli, folder: Path, world: Gateway
) -> None:
    path = write_bridge(folder, world.url, ledger={"checkpoint_ticks": 3})
    seen = 0
    for k in range(3):
        process = start("run", path, stderr=folder / f"log{k}")
        try:

            def grown(before: int = seen) -> int:
                code, out, _ = cli("history", path, "--all", "--json", "--last", "1")
                rows = parsed(out)["records"] if code == 0 else []
                newest = int(rows[0]["seq"]) if rows else 0
                return newest if newest >= before + 5 else 0

            seen = wait_for(grown)
            world.values["request_rate_rps"] = 100.0 * k
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        code, out, _ = cli("replay", path, "--json")
        found = parsed(out)
        assert (code, found["identical"], found["boots"]) == (0, True, k + 1)
        assert found["last_seq"] >= seen
    with forged(folder / "state" / "ledger.sqlite") as connection:
        connection.execute("UPDATE record SET body = CAST(body || ' ' AS BLOB) WHERE seq = 4")
    code, out, err = cli("replay", path, "--json")
    assert (code, parsed(out)["seq"]) == (1, 4)
    assert "record 4" in err
    code, _, err = cli("replay", folder / "absent.sqlite")
    assert (code, len(err.splitlines())) == (2, 1)


@pytest.mark.timeout(60)
def test_without_prometheus_it_freezes_and_tries_again(cli: Cli, folder: Path) -> None:
    path = write_bridge(folder, "http://127.0.0.1:9")
    done = finished("run", path, "--ticks", "4")
    assert done.returncode == 0, done.stderr
    rows = parsed(cli("history", path, "--all", "--json")[1])["records"]
    assert [row["kind"] for row in rows] == ["boot", *["tick"] * 4, "stop"]
    assert all(row["mode"] in ("BOOT", "BOOT -> FROZEN", "FROZEN") for row in rows[:-1])
    assert "unreachable" in rows[1]["what"]


@pytest.mark.timeout(60)
def test_a_second_bridge_on_the_same_folder_is_refused(
    cli: Cli, folder: Path, world: Gateway
) -> None:
    path = write_bridge(folder, world.url)
    process = start("run", path, stderr=folder / "log")
    try:
        wait_for(lambda: parsed(cli("status", "--config", path, "--json")[1])["running"])
        done = finished("run", path, "--ticks", "1")
        assert done.returncode == 2
        assert "another bridge writes here" in done.stderr.splitlines()[-1]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
    assert json.loads(cli("history", path, "--json")[1])["records"][-1]["what"] == "SIGINT"
