"""Scenario files that cannot be read: one line that says what would be right."""

from pathlib import Path

import pytest

from gatepilot.envs.scenario import ScenarioError, load_scenario, parse_scenario


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
        ('"a\\nb": 1\n', r"f.yaml: 'a\nb': unknown key; known: name"),
        ('name: x\ncluster: {"a\\nb": 1}\n', r"f.yaml: cluster.'a\nb': unknown key"),
        ('"a\\nb": 1\n"a\\nb": 1\n', r"f.yaml: line 2: 'a\nb': key appears twice"),
        ('name: "\\ud800"\n', r"f.yaml: line 1: name: '\ud800' is not Unicode text"),
        ('cluster: {"\\ud800": 1}\n', r"f.yaml: line 1: cluster.'\ud800': '\ud800' is not"),
        ("name: " + "[" * 400 + "]" * 400, "f.yaml: line 1: name.0.0.0.0.0.0.0"),
        ("name: " + "[" * 2000 + "]" * 2000, "f.yaml: not YAML (nested too deeply)"),
        ("name: &a [*a]\n", "f.yaml: not YAML (nested too deeply: name.0 is an alias of"),
        ("2020-01-01: x\n", "f.yaml: line 1: expected a text as key"),
        ("? [a]\n: x\n", "f.yaml: not YAML (unhashable: a list or a mapping as a key)"),
        ("name: 0x" + "f" * 5000, "f.yaml: line 1: name: a number of more than 1000 digits"),
        ("name: [1, 2, 3]\n", "f.yaml: name: [1, 2, 3] should be a valid str"),
        ("name: [" + "1, " * 1000 + "1]\n", "1, 1... should be a valid string"),
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


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
"""Ten lines that stand for a few thousand million values."""


@pytest.mark.timeout(5)
def test_a_bomb_of_aliases_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(BOMB)
    with pytest.raises(
        ScenarioError, match=r"^f\.yaml: line 6: a5: more than 1,000,000 characters$"
    ):
        load_scenario(path)


def test_a_bomb_of_long_texts_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(f"a: &a {'x' * 5000}\nb: [{', '.join(['*a'] * 300)}]\n")
    with pytest.raises(ScenarioError, match=r"^f\.yaml: line 2: b: more than 1,000,000 char"):
        load_scenario(path)


def test_an_alias_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        "name: x\nprofile: llama-3.1-8b-bf16-l40s-tp1-vllm-kernel\n"
        "workload: {model: servegen-tenants, to_s: 40000, max_prompt_tokens: 5000}\n"
        "faults:\n"
        "  - {kind: brown_out, error_share: &share [0.1, 0.2], duration_s: 5, start_s: 5}\n"
        "  - {kind: brown_out, error_share: *share, duration_s: 5, start_s: 50}\n"
    )
    assert [fault.error_share for fault in load_scenario(path).faults] == [(0.1, 0.2)] * 2


def test_a_text_that_is_none_from_elsewhere_is_named() -> None:
    content = {"name": "x", "workload": {"trace": "day\udcff.csv", "to_s": 5.0}, "profile": "p"}
    with pytest.raises(ScenarioError, match=r"^f: workload\.trace: 'day.udcff\.csv' is not Uni"):
        parse_scenario(content, where="f")
