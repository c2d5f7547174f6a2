"""Scenario files that cannot be read: one line that says what would be right."""

from pathlib import Path

import pytest

from gatepilot.envs.scenario import ScenarioError, load_scenario


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml: expected keys and values"),
        ("- 1\n", "f.yaml: expected keys and values"),
        ("name: x\n  y: ]\n", "f.yaml: line 2: "),
        ("name: x\nprofile: y\nname: z\n", "f.yaml: line 3: name: key appears twice"),
        ("a:\n  b: 1\n  b: 2\n", "f.yaml: line 3: b: key appears twice"),
        ("name: \xff", "f.yaml: not UTF-8"),
        ("name: \x07x", "f.yaml: not YAML"),
    ],
)
def test_bad_yaml(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ScenarioError, match=r"^[^\n]+$") as caught:
        load_scenario(path)
    assert message in str(caught.value)


def test_no_such_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"tenant70b: unknown .*mean tenants70b\?"):
        load_scenario("tenant70b")
    with pytest.raises(ScenarioError, match="zzz: unknown scenario; known: azure70b"):
        load_scenario("zzz")
    with pytest.raises(ScenarioError, match=r"none\.yaml: cannot be read"):
        load_scenario(tmp_path / "none.yaml")
