"""A configuration is taken whole, or one line says file, key and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.deploy_bridge.errors import SettingsError
from gatepilot.deploy_bridge.metrics.catalogue_params import CatalogueParams
from gatepilot.deploy_bridge.parameters import parsed
from gatepilot.deploy_bridge.settings import load_settings
from gatepilot.envs.schema.settings import Limits

from .kit import write_bridge

SMALL: dict[str, Any] = {
    "name": "g",
    "artifact": "a",
    "public_key": "signing.pub",
    "limits": {"min_replicas": 1, "max_replicas": 8},
    "prometheus": {"url": "http://127.0.0.1:9090/"},
}


def written(folder: Path, content: object) -> Path:
    path = folder / "bridge.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_the_smallest_one_has_every_default(tmp_path: Path) -> None:
    found = load_settings(written(tmp_path, SMALL))
    assert found.artifact == tmp_path / "a"
    assert found.public_key == tmp_path / "signing.pub"
    assert found.ledger_path == tmp_path / "state" / "ledger.sqlite"
    assert found.socket_path == tmp_path / "state" / "control.sock"
    assert found.limits == Limits(1, 8)
    assert found.prometheus.url == "http://127.0.0.1:9090"
    assert (found.good_ticks, found.nvml, found.envoy_admin) == (3, False, None)
    assert found.serve is not None
    assert found.serve.host == "127.0.0.1"
    assert found.incumbent.controller == "hpa"


def test_absolute_paths_stay_and_none_turns_the_pages_off(tmp_path: Path) -> None:
    content = SMALL | {"artifact": "/srv/artifact", "serve": None}
    found = load_settings(written(tmp_path, content))
    assert found.artifact == Path("/srv/artifact")
    assert found.serve is None


def test_the_environment_goes_over_the_file_and_secrets_stay_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEPILOT_BRIDGE_PROMETHEUS__BEARER_TOKEN", "s3cret")
    monkeypatch.setenv("GATEPILOT_BRIDGE_GOOD_TICKS", "5")
    found = load_settings(written(tmp_path, SMALL | {"good_ticks": 4}))
    assert found.good_ticks == 5
    assert found.prometheus.bearer_token is not None
    assert found.prometheus.bearer_token.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(found)
    assert found.prometheus.url == "http://127.0.0.1:9090"


def test_a_variable_that_sets_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEPILOT_BRIDGE_GOODTICKS", "5")
    with pytest.raises(SettingsError, match=r"GOODTICKS: .* mean good_ticks"):
        load_settings(written(tmp_path, SMALL))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"namex": "x"}, "namex: unknown key; did you mean name?"),
        ({"control_interval_s": 5}, "control_interval_s: unknown key; known: name, artifact"),
        ({"name": None}, "name: should be a text"),
        ({"name": ""}, "name: "),
        ({"limits": {"min_replicas": 3, "max_replicas": 2}}, "expected 1 <= min <= max"),
        ({"limits": {"min_replicas": 1}}, "limits.max_replicas: missing key"),
        ({"limits": {"min_replicas": 1, "max_replicas": 2.5}}, "limits.max_replicas: should be"),
        ({"limits": 8}, "limits: "),
        ({"prometheus": {"url": "localhost:9090"}}, "prometheus.url: is no address such as http"),
        ({"prometheus": {"url": "http://u:p@h:1"}}, "prometheus.url: holds a password"),
        ({"prometheus": {}}, "prometheus.url: missing key"),
        ({"prometheus": {"url": "http://h:1", "timeout": 1}}, "prometheus.timeout: unknown key"),
        ({"prometheus": {"url": "http://h:1", "deadline_s": 0}}, "prometheus.deadline_s: "),
        ({"prometheus": {"url": "http://h:1", "deadline_s": True}}, "should be a number"),
        ({"serve": {"host": "0.0.0.0"}}, "serve.host: should be 127.0.0.1"),  # noqa: S104
        ({"serve": {"port": 70000}}, "serve.port: should be less than or equal to 65535"),
        ({"good_ticks": 0}, "good_ticks: should be greater than or equal to 1"),
        ({"good_ticks": True}, "good_ticks: should be a number"),
        ({"guardrails": {"drift": {"tolerance": -1}}}, "guardrails.drift.tolerance: "),
        ({"guardrails": {"drift": {"strange_ticks": 9}}}, "strange_ticks is 9"),
        ({"guardrails": {"bounds": {"min_threshold": 0.0}}}, "min_threshold is 0, expected"),
        ({"guardrails": {"bound": {}}}, "guardrails.bound: unknown key; did you mean bounds?"),
        ({"ledger": {"max_entries": 5}}, "ledger.max_entries: should be greater than"),
        ({"name": "a\nb"}, "name: should be one line of printable characters"),
        ({"name": "a\x1b[2Jb"}, "name: should be one line of printable characters"),
        ({"name": "  "}, "name: should be one line"),
        ({"name": "x" * 101}, "name: is too long"),
        ({"state_dir": ""}, "state_dir: should be a path"),
        ({"artifact": ""}, "artifact: should be a path"),
        ({"artifact": 5}, "artifact: should be a path"),
        ({"artifact": "a\0b"}, "artifact: should be a path of printable"),
        ({"artifact": "~nobody-of-this-name/a"}, "artifact: ~nobody-of-this-name/a: there is no"),
        ({"public_key": " "}, "public_key: should be a path"),
        ({"prometheus": {"url": "http://h:1", "ca_file": ""}}, "prometheus.ca_file: should be a"),
        ({"prometheus": {"url": "http://h:99999"}}, "prometheus.url: has a port that is none"),
        ({"prometheus": {"url": "http://h:1", "deadline_s": 1e9}}, "deadline_s: should be less"),
        ({"prometheus": 5}, "prometheus: should be keys and values"),
        ({"catalogue": None}, "catalogue: should be keys and values"),
        ({"incumbent": {"params": [1]}}, "incumbent.params: should be keys and values"),
        ({"limits": {"min_replicas": True, "max_replicas": 8}}, "limits.min_replicas: should be a"),
        (
            {"limits": {"min_replicas": 1, "max_replicas": 10**30}},
            "limits.max_replicas: should be 10000 or less",
        ),
        (
            {"limits": {"min_replicas": 8, "max_replicas": 1}},
            "bridge.yaml: limits: replica limits 8-1: expected 1 <= min <= max",
        ),
        ({"good_ticks": 10**30}, "good_ticks: should be less than or equal to 100000"),
        ({"nvml": "maybe"}, "nvml: should be true or false"),
        ({"guardrails": {"drift": {"of_ticks": True}}}, "guardrails.drift.of_ticks: should be a"),
        ({"guardrails": {"drift": {"of_ticks": 10**30}}}, "guardrails.drift.of_ticks: should be"),
        ({"guardrails": {"drift": {"tolerance": float("nan")}}}, "should be a finite number"),
        ({"ledger": {"retention_s": 1e300}}, "ledger.retention_s: should be less than"),
        ({"incumbent": {"seed": True}}, "incumbent.seed: should be a number"),
        ({"public_key": None}, "public_key: missing key; or say `allow_unsigned: true`"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, SMALL | change))
    message = str(caught.value)
    assert message.startswith("bridge.yaml: ")
    assert words in message
    assert message.isprintable()
    for leak in ("instance of", "<class", "Input", "dictionary", "valid string", "pydantic"):
        assert leak not in message


@pytest.mark.parametrize("key", ["name", "artifact", "limits", "prometheus"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(SettingsError, match=f"bridge.yaml: {key}: missing key"):
        load_settings(written(tmp_path, {k: v for k, v in SMALL.items() if k != key}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "expected keys and values"),
        ("- a\n- b\n", "expected keys and values"),
        ("name: [", "bridge.yaml: line"),
        ("name: a\nname: b\n", "line 2: name: key appears twice"),
        ("[" * 3000, "bridge.yaml: not YAML .nested too deeply"),
        ("a: &a {x: *a}\n", "bridge.yaml: not YAML .nested too deeply"),
        ("? [a, b]\n: 1\n", "bridge.yaml: not YAML .unhashable"),
        ("name: 2020-99-99\n", "bridge.yaml: not YAML .month must be"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(written(tmp_path, content))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path / "bridge.yaml")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("GOOD_TICKS", "0", "good_ticks: should be greater"),
        ("STATE_DIR", "", "state_dir: should be a path"),
        ("PROMETHEUS__URL", "foo", "prometheus.url: is no address"),
        ("PROMETHEUS__URLX", "foo", "prometheus.urlx: unknown key; did you mean url?"),
        ("PROMETHEUS", '{"url": "foo"}', "prometheus.url: is no address"),
        ("LIMITS", "1-8", 'limits: should be JSON, as in {"key": "value"}'),
        ("LIMITS", '{"min_replicas": 3, "max_replicas": 2}', "limits: replica limits 3-2"),
        ("ARTIFACT", "~nobody-of-this-name/a", "artifact: ~nobody-of-this-name/a: there is no"),
        ("NAME__X", "1", "unknown key; name has none below it"),
    ],
)
def test_a_variable_that_is_wrong_is_named_not_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(f"GATEPILOT_BRIDGE_{variable}", value)
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, SMALL))
    assert str(caught.value).startswith(f"environment: GATEPILOT_BRIDGE_{variable}: {words}")


def test_what_file_and_variable_make_wrong_together_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEPILOT_BRIDGE_LIMITS__MAX_REPLICAS", "0")
    names = "bridge.yaml and environment: GATEPILOT_BRIDGE_LIMITS__MAX_REPLICAS"
    with pytest.raises(SettingsError, match=f"^{names}: limits: replica limits 1-0"):
        load_settings(written(tmp_path, SMALL))


def test_a_fault_of_the_file_is_not_blamed_on_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEPILOT_BRIDGE_PROMETHEUS", '{"deadline_s": 2}')
    monkeypatch.setenv("GATEPILOT_BRIDGE_PROMETHEUS__READ_TIMEOUT_S", "1")
    monkeypatch.setenv("GATEPILOT_BRIDGE_NAME", "x")
    with pytest.raises(SettingsError, match=r"^bridge.yaml: prometheus.url: is no address"):
        load_settings(written(tmp_path, SMALL | {"prometheus": {"url": "foo"}}))


def test_the_tests_own_configuration_is_one(tmp_path: Path) -> None:
    assert load_settings(write_bridge(tmp_path, "http://127.0.0.1:1")).allow_unsigned


def test_parameters_of_a_controller_are_checked_to_the_last_key() -> None:
    def read(content: dict[str, Any]) -> HpaParams:
        return parsed(HpaParams, content, file="b.yaml", section="incumbent.params")

    assert read({"metrics": [{"metric": "kv", "target": 0.5}]}).metrics == (
        MetricTarget("kv", 0.5),
    )
    for content, words in (
        ({"metric": []}, "incumbent.params.metric: unknown key"),
        ({"metrics": [{"metric": "kv", "target": 0.5, "x": 1}]}, "metrics.0.x: unknown key"),
        ({"metrics": [{"metric": "gpu", "target": 0.5}]}, "metrics.0.metric"),
        ({"metrics": []}, "incumbent.params: HPA with 0 metrics"),
        (
            {"metrics": [{"metric": "kv", "target": 0.0}]},
            "incumbent.params.metrics.0: HPA target of kv is 0",
        ),
        ({"sync_s": "15"}, "sync_s: '15' should be a number"),
    ):
        with pytest.raises(SettingsError, match=words) as caught:
            read(content)
        assert str(caught.value).startswith("b.yaml: incumbent.params")
    with pytest.raises(SettingsError, match=r"incumbent.params.threshold_steps is 0"):
        parsed(FixedParams, {"threshold_steps": 0}, file="b.yaml", section="incumbent.params")


def test_a_catalogue_names_its_section_once() -> None:
    with pytest.raises(SettingsError, match=r"^b.yaml: catalogue: deployment is needed"):
        parsed(CatalogueParams, {"cluster": "c", "model": "m"}, file="b.yaml", section="catalogue")
    with pytest.raises(SettingsError, match=r"^b.yaml: catalogue.cluster: missing key"):
        parsed(CatalogueParams, {"model": "m"}, file="b.yaml", section="catalogue")
