"""What a command answers when the answer is "no", and what counts as wrong usage."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from gatepilot.deploy_bridge.audit.ledger import Ledger, head_path
from gatepilot.deploy_bridge.audit.record import Entry
from gatepilot.deploy_bridge.commands import output
from gatepilot.deploy_bridge.commands.output import print_table
from gatepilot.deploy_bridge.settings import load_settings
from gatepilot.deploy_bridge.wiring import Bridge, make_head

from .audit.ledger_kit import forged
from .kit import Cli, Gateway, finished, parsed, write_bridge

PEM = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"


def test_what_is_no_artifact_and_no_key_is_wrong_usage(cli: Cli, folder: Path) -> None:
    (folder / "file").write_text("x")
    artifact = folder / "artifact"
    for arguments, words in (
        ((folder / "absent",), "absent: no such folder"),
        ((folder / "file",), "file: no such folder"),
        (("x" * 300,), "no such folder"),
        (("",), "empty path"),
        ((artifact, "--public-key", folder / "absent"), "--public-key: "),
        ((artifact, "--public-key", artifact), "--public-key: "),
        ((artifact, "--public-key", folder / "file"), "not a public key in PEM"),
        ((artifact, "--public-key", ""), "empty path"),
    ):
        code, out, err = cli("verify", *arguments, "--json")
        assert (code, out, len(err.splitlines())) == (2, "", 1), arguments
        assert words in err
    (folder / "key").write_text(PEM)
    code, out, err = cli("verify", artifact, "--public-key", folder / "key", "--json")
    assert (code, parsed(out)["accepted"]) == (1, False)
    assert "unsigned" in err


def test_without_a_key_of_ones_own_one_must_be_named(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    code, _, err = cli("verify", folder / "artifact")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "name another one with --public-key" in err


def test_an_empty_path_is_never_this_folder(cli: Cli) -> None:
    for arguments in (
        ("check", ""),
        ("run", ""),
        ("status", "--config", ""),
        ("why", "--config", ""),
        ("history", ""),
        ("replay", ""),
        ("replay", "ledger.sqlite", "--artifact", ""),
    ):
        code, out, err = cli(*arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1), arguments
        assert "empty path" in err


@pytest.mark.parametrize("command", ["why", "history", "replay"])
def test_what_is_no_ledger_is_wrong_usage_for_all_alike(
    cli: Cli, folder: Path, command: str
) -> None:
    path = write_bridge(folder, "http://127.0.0.1:9")
    arguments = ("why", "--config", path, "--json") if command == "why" else (command, path)
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert "no such ledger" in err
    (folder / "state").mkdir()
    (folder / "state" / "ledger.sqlite").write_text("no database" * 500)
    code, out, err = cli(*arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert str(folder / "state" / "ledger.sqlite") in err


def test_no_is_one_json_object_too(cli: Cli, folder: Path) -> None:
    path = write_bridge(folder, "http://127.0.0.1:9")
    code, out, err = cli("status", "--config", path, "--json")
    found = parsed(out)
    assert (code, found["running"]) == (1, False)
    assert "no bridge answers" in found["reason"]
    assert found["reason"] in err
    bridge = Bridge(make_head(load_settings(path), path.name))
    bridge.start()
    code, out, _ = cli("status", "--config", path, "--json")
    assert (code, parsed(out)["running"], parsed(out)["mode"]) == (1, True, "BOOT")
    code, out, err = cli("why", "--config", path, "--json")
    assert (code, parsed(out)["decision"]) == (1, None)
    assert "no decision is recorded yet" in parsed(out)["reason"]
    assert "no decision is recorded yet" in err
    bridge.close("done")
    code, out, _ = cli("why", "77", "--config", path, "--json")
    assert (code, "there is no record 77" in parsed(out)["reason"]) == (1, True)
    assert cli("why", "9" * 30, "--config", path)[0] == 2


@pytest.mark.parametrize("content", ["", "garbage"])
def test_a_damaged_head_is_found_by_run_and_by_replay(cli: Cli, folder: Path, content: str) -> None:
    path = write_bridge(folder, "http://127.0.0.1:9")
    Bridge(made := make_head(load_settings(path), path.name)).close("never started")
    bridge = Bridge(made)
    bridge.start()
    bridge.close("done")
    head = head_path(folder / "state" / "ledger.sqlite")
    whole = head.read_text()
    head.write_text(content)
    code, out, err = cli("replay", path, "--json")
    assert (code, parsed(out)["intact"], parsed(out)["seq"]) == (1, False, None)
    assert str(head) in err
    code, _, err = cli("run", path, "--ticks", "1")
    assert code == 2
    assert f"{head}: is " in err.splitlines()[-1]
    assert f"move {head.parent} away" in err.splitlines()[-1]
    head.write_text(whole)
    assert cli("replay", path)[0] == 0
    head.unlink()
    code, out, _ = cli("replay", path)
    assert (code, "no ledger.head beside it" in out) == (0, True)


def test_a_changed_record_is_found_by_all_who_read_it(cli: Cli, folder: Path) -> None:
    path = write_bridge(folder, "http://127.0.0.1:9")
    bridge = Bridge(make_head(load_settings(path), path.name))
    bridge.start()
    bridge.loop.tick()
    bridge.close("done")
    ledger = folder / "state" / "ledger.sqlite"
    with forged(ledger) as connection:
        connection.execute("UPDATE record SET body = x'00' WHERE seq = 2")
    for code, *arguments in (
        (1, "replay", path),
        (2, "history", path, "--all"),
        (2, "why", "2", "--config", path),
    ):
        found, _, err = cli(*arguments)
        assert (found, len(err.splitlines())) == (code, 1)
        assert f"{ledger}: record 2: " in err


def test_a_run_that_broke_off_is_told(cli: Cli, folder: Path) -> None:
    path = write_bridge(folder, "http://127.0.0.1:9")
    bridge = Bridge(made := make_head(load_settings(path), path.name))
    bridge.start()
    bridge.close("done")
    ledger = Ledger(folder / "state" / "ledger.sqlite")
    ledger.append([Entry("cut", 1.8e9, b'{"first": 1, "previous": "", "removed": 0}')])
    ledger.close()  # the last record is no stop, as after a kill
    bridge = Bridge(made)
    bridge.start()
    bridge.close("done")
    words = "without a stop (killed, or the disk was full)"
    code, out, _ = cli("history", path)
    assert code == 0
    told = [line for line in out.splitlines() if words in line]
    assert len(told) == 1
    assert told[0].endswith("its last record is 3 of 2027-01-15 08:00:00 UTC")
    code, out, _ = cli("replay", path)
    assert (code, words in out) == (0, True)
    found = parsed(cli("replay", path, "--json")[1])
    assert found["broken_off"] == [{"seq": 3, "at_s": 1.8e9}]


def test_a_reading_that_broke_off_says_so(cli: Cli, folder: Path) -> None:
    path = write_bridge(folder, "http://127.0.0.1:9")
    code, out, _ = cli("check", path)
    assert code == 1
    lines = out.splitlines()
    unread = next(line for line in lines if "the reading broke off" in line)
    absent = next(line for line in lines if "not asked for, so always missing" in line)
    assert "request_rate_rps" in unread
    assert "request_rate_rps" not in absent
    assert "cpu_utilization" in absent
    found = parsed(cli("check", path, "--json")[1])
    assert "request_rate_rps" in found["broken_off_before"]
    assert "cpu_utilization" in found["not_asked"]


def test_a_whole_reading_did_not_break_off(cli: Cli, folder: Path, world: Gateway) -> None:
    path = write_bridge(folder, world.url)
    assert "broke off" not in cli("check", path)[1]
    assert parsed(cli("check", path, "--json")[1])["broken_off_before"] == []


def test_a_refused_start_is_recorded_as_one(cli: Cli, folder: Path, world: Gateway) -> None:
    world.several.add("gateway_up")
    path = write_bridge(folder, world.url)
    done = finished("run", path, "--ticks", "1")
    assert done.returncode == 2
    rows = parsed(cli("history", path, "--json")[1])["records"]
    assert [row["kind"] for row in rows] == ["boot", "stop"]
    assert rows[1]["what"].startswith("AmbiguousDataError: gateway_up")


ROWS = [("a", "ok", ""), ("a longer name", "missing", "a hint " * 40)]


def test_a_table_for_a_pipe_pads_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("quantity", "state", "hint"), ROWS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == "quantity       state    hint"
    assert first == "a              ok"
    assert second == "a longer name  missing  " + " ".join(["a hint"] * 40)


def test_a_table_wraps_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()

    def terminal(**options: bool) -> Console:
        return Console(file=screen, force_terminal=True, width=60, color_system=None, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(output, "Console", terminal)
    print_table(("quantity", "state", "hint"), ROWS)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert len(lines) > 8
    assert sum("missing" in line for line in lines) == 1
    assert screen.getvalue().count("hint") == 41
