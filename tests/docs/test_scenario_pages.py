"""The pages of the suite say what its scenarios and the stored bars say."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments.suites import suite

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BARS = ("feasible", "no_cheating", "threshold")
SVG_MAX_BYTES = 120_000


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that writes them."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("scenario_pages")


@pytest.fixture(scope="module")
def texts() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = yaml.safe_load((DOCS / "scenario_texts.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, Any]]:
    folder = ROOT / "benchmarks" / "results"
    return {bar: json.loads((folder / f"{bar}.json").read_text())["figures"] for bar in BARS}


@pytest.mark.parametrize("name", suite("full"))
def test_a_page_says_what_scenario_and_bars_say(
    pages: ModuleType,
    texts: dict[str, dict[str, str]],
    figures: dict[str, dict[str, Any]],
    name: str,
) -> None:
    page = (DOCS / "scenarios" / f"{name}.md").read_text()
    caption = next(line for line in page.splitlines() if line.startswith("*Test window "))
    scenario = load_scenario(name)
    caption = caption.strip("*").removesuffix(pages.legend(scenario.faults)).strip()
    found = {bar: figures[bar].get(name, {}) for bar in BARS}
    assert found["feasible"]
    assert found["no_cheating"]
    assert page == pages.written(scenario, texts[name], found, caption)
    svg = (DOCS / "scenarios" / f"{name}.svg").read_text()
    assert svg.lstrip().startswith("<?xml")
    assert len(svg) < SVG_MAX_BYTES


def test_the_list_and_the_navigation_name_them_all(
    pages: ModuleType, texts: dict[str, dict[str, str]], figures: dict[str, dict[str, Any]]
) -> None:
    index = (DOCS / "scenarios" / "index.md").read_text()
    assert index == pages.listed(texts, figures)
    nav = (ROOT / "mkdocs.yml").read_text()
    for name in suite("full"):
        assert f"- scenarios/{name}.md" in nav
    assert set(texts) == set(suite("full"))
