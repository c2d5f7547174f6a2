"""The bridge's configuration that a testbed writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gatepilot.agents.artifact.signing import make_key_pair
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.deploy_bridge.settings import load_settings
from gatepilot.deploy_bridge.site import known_replica
from gatepilot.envs.profiles.profile import profile_content
from gatepilot.experiments.testbed import layout as layout_module
from gatepilot.experiments.testbed.bridge_file import bridge_yaml
from gatepilot.experiments.testbed.layout import Layout
from gatepilot.experiments.testbed.plan import Wishes, planned


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A place for a testbed; no program is needed to write a file."""
    monkeypatch.setattr(layout_module, "find_binary", lambda name: tmp_path / name)
    return Layout.choose(tmp_path / "bed", 4)


def test_it_says_which_key_it_names_and_what_to_do_without_one(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    plan = planned(Wishes(scenario="testbed", replicas=4, rate_rps=0.0))
    before = bridge_yaml(plan, layout)
    assert "That key is not there yet: gatepilot export makes it." in before
    assert "--key FILE" in before
    assert "allow_unsigned: true" in before
    _, public = make_key_pair(tmp_path / "config" / "gatepilot")
    after = bridge_yaml(plan, layout)
    assert "not there yet" not in after
    for text in (before, after):
        assert yaml.safe_load(text)["public_key"] == str(public)


def test_it_names_what_an_emulated_replica_can_do(layout: Layout, tmp_path: Path) -> None:
    plan = planned(Wishes(scenario="testbed", replicas=4, rate_rps=0.0))
    path = tmp_path / "bridge.yaml"
    path.write_text(bridge_yaml(plan, layout))
    known = known_replica(load_settings(path).replica, "bridge.yaml")
    assert known == scenario_site(plan.scenario).replica
    own = tmp_path / "own.json"
    own.write_text(json.dumps(profile_content(plan.scenario.profile)))
    other = planned(Wishes(scenario="testbed", replicas=4, rate_rps=0.0, profile=str(own)))
    assert yaml.safe_load(bridge_yaml(other, layout))["replica"]["profile"] == str(own)
