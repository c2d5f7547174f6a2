"""The operator's socket: who may ask, what comes back, and who is refused."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gatepilot.deploy_bridge.control import ControlServer, Peer, ask
from gatepilot.deploy_bridge.errors import ControlError


def echo(request: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
    return {"said": request.get("word"), "pid": peer.pid, "uid": peer.uid}


def refuse(request: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
    raise ControlError("not now")


def fail(request: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
    raise KeyError("a fault")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "control.sock"
    server = ControlServer(place, {"echo": echo, "refuse": refuse, "fail": fail})
    server.start()
    yield place
    server.stop()
    assert not place.exists()


def test_an_answer_comes_back_and_the_peer_is_the_kernels(path: Path) -> None:
    assert ask(path, "echo", word="hä?") == {
        "said": "hä?",
        "pid": os.getpid(),
        "uid": os.geteuid(),
    }
    assert [ask(path, "echo", word=str(k))["said"] for k in range(20)] == [
        str(k) for k in range(20)
    ]


def test_only_the_owner_may_connect(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_refusal_is_one_line(path: Path) -> None:
    with pytest.raises(ControlError, match="not now"):
        ask(path, "refuse")
    with pytest.raises(ControlError, match="verb 'promote': expected one of echo, refuse, fail"):
        ask(path, "promote")


@pytest.mark.parametrize(
    "line",
    [b"not json\n", b"[1, 2]\n", b"", b"\xff\xfe\n", b"x" * 3_000_000, b"[" * 99_999 + b"\n"],
)
def test_nonsense_is_refused_and_the_next_one_is_answered(path: Path, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(path))
        try:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(1 << 16)
        except OSError:
            answer = b""
    assert not answer or "refused" in json.loads(answer)
    assert ask(path, "echo", word="still here")["said"] == "still here"


def connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(str(path))
    return connection


def test_idle_connections_keep_nobody_waiting(path: Path) -> None:
    with ExitStack() as held:
        idle = [held.enter_context(connected(path)) for _ in range(100)]
        idle[-1].sendall(b'{"verb": ')  # never goes on
        began_s = time.monotonic()
        for word in ("a", "b", "c"):
            assert ask(path, "echo", word=word)["said"] == word
        assert [one.recv(1) for one in idle] == [b""] * 100  # closed, the last ones after a second
        assert time.monotonic() - began_s < 20.0  # one after the other they would take 100 s


def test_a_request_in_parts_is_answered(path: Path) -> None:
    with connected(path) as connection:
        for part in (b'{"verb": "echo"', b', "word": "slow"', b"}\n"):
            connection.sendall(part)
            time.sleep(0.05)
        assert json.loads(connection.recv(1 << 16))["answer"]["said"] == "slow"


def test_a_fault_in_one_answer_ends_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ControlError, match="fault in the bridge: KeyError: 'a fault'"):
        ask(path, "fail")
    assert "fault in an answer" in caplog.text
    assert ask(path, "echo", word="still here")["said"] == "still here"


def test_a_stop_does_not_wait_for_idle_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepilot.deploy_bridge.control._IDLE_S", 60.0)
    server = ControlServer(tmp_path / "control.sock", {"echo": echo})
    server.start()
    with connected(tmp_path / "control.sock"):
        assert ask(tmp_path / "control.sock", "echo", word="x")["said"] == "x"
        began_s = time.monotonic()
        server.stop()
        assert time.monotonic() - began_s < 20.0


def test_another_user_is_refused(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    path.chmod(0o666)
    for folder in (path.parent, *path.parent.parents[:3]):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    code = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        'try: s.sendall(b\'{"verb": "echo"}\\n\')\n'
        "except OSError: pass\n"
        "print(s.recv(4096).decode())"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-I", "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and "PermissionError" in done.stderr:
        pytest.skip("the folder of temporary files is not open to others")
    assert "user 65534 is neither root nor the bridge's own" in done.stdout, done.stderr


def test_a_stale_socket_of_a_killed_bridge_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(place))
    with pytest.raises(ControlError, match="no bridge answers"):
        ask(place, "echo")
    server = ControlServer(place, {"echo": echo})
    server.start()
    assert ask(place, "echo", word="new")["said"] == "new"
    server.stop()


def test_without_a_bridge_one_line_says_so(tmp_path: Path) -> None:
    for place in (tmp_path / "control.sock", tmp_path / "absent" / "control.sock"):
        with pytest.raises(ControlError, match="no bridge answers"):
            ask(place, "status")
    with pytest.raises(ControlError, match="cannot be made"):
        ControlServer(tmp_path / "absent" / "control.sock", {})


def test_a_path_longer_than_a_sockets_name_may_be(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 60) / ("b" * 60)
    folder.mkdir(parents=True)
    server = ControlServer(folder / "control.sock", {"echo": echo})
    server.start()
    assert ask(folder / "control.sock", "echo", word="far")["said"] == "far"
    server.stop()


def test_what_is_no_bridge_is_told_apart(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    server = ControlServer(place, {"list": lambda *_: [1]})  # type: ignore[dict-item]
    server.start()
    with pytest.raises(ControlError, match="not a bridge's answer"):
        ask(place, "list")
    server.stop()
