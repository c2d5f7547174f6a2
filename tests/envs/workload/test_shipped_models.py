"""The shipped models against the traces they were fitted to."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gatepilot.envs.workload import model as model_module
from gatepilot.envs.workload import shipped
from gatepilot.envs.workload.arrivals import local_dispersion
from gatepilot.envs.workload.model import MAX_FILE_BYTES, load_model, model_names
from gatepilot.envs.workload.shipped import RECIPES, Recipe
from gatepilot.envs.workload.trace import load_trace

FOLDER = Path(model_module.__file__).with_name("models")
POINTS = np.array([0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
WINDOWS_S = (1.0, 15.0, 60.0)
SEEDS = 20


@pytest.mark.parametrize("name", model_names())
def test_files_are_small_and_name_their_source(name: str) -> None:
    path = FOLDER / f"{name}.json"
    assert path.stat().st_size <= MAX_FILE_BYTES
    content = json.loads(path.read_text())
    for key in ("name", "description", "fitted_to", "source", "licence", "attribution"):
        assert len(content[key]) > 3
    assert content["name"] == name
    # Tables and curves only: far fewer numbers than the trace has requests.
    assert sum(np.size(table) for group in content["groups"] for table in group.values()) < 6100


def test_every_recipe_is_shipped_and_described_alike() -> None:
    assert tuple(sorted(r.facts.name for r in RECIPES)) == model_names()
    for recipe in RECIPES:
        model = load_model(recipe.facts.name)
        assert model.facts == recipe.facts
        assert model.span_s == recipe.span_s
        assert all(group.rate_rps.size == recipe.bins for group in model.groups)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.facts.name)
def test_fidelity(traces_dir: Path, recipe: Recipe) -> None:
    """Over 20 seeds: rate within 2 %, dispersion within 15 %, length quantiles within 5 %."""
    trace = replace(
        load_trace(traces_dir / recipe.facts.fitted_to.split(" ")[0]), span_s=recipe.span_s
    )
    model = load_model(recipe.facts.name)
    drawn = [model.sample(0.0, model.span_s, seed) for seed in range(SEEDS)]
    rates = [requests.mean_rate_rps for requests in drawn]
    assert np.mean(rates) == pytest.approx(trace.mean_rate_rps, rel=0.02)
    for window_s in WINDOWS_S:
        wanted = local_dispersion(trace.arrival_s, trace.span_s, window_s)
        seen = np.mean([local_dispersion(r.arrival_s, r.span_s, window_s) for r in drawn])
        assert seen == pytest.approx(wanted, rel=0.15), window_s
    for name in ("prompt_tokens", "output_tokens"):
        wanted = np.quantile(getattr(trace, name), POINTS)
        seen = np.mean([np.quantile(getattr(r, name), POINTS) for r in drawn], axis=0)
        assert seen == pytest.approx(wanted, rel=0.05), name


def test_the_daily_curve_is_kept(traces_dir: Path) -> None:
    """Counts of ten minutes go up and down with the trace's."""
    trace = load_trace(traces_dir / "servegen-tenants-24h.parquet")
    model = load_model("servegen-tenants")
    edges = np.arange(0, 86401, 600)
    wanted = np.histogram(trace.arrival_s, edges)[0]
    seen = np.histogram(model.sample(0.0, 86400.0, 0).arrival_s, edges)[0]
    assert np.corrcoef(wanted, seen)[0, 1] > 0.97


@pytest.mark.parametrize(
    "recipe",
    [RECIPES[0], pytest.param(RECIPES[1], marks=pytest.mark.slow)],
    ids=lambda recipe: recipe.facts.name,
)
def test_remade_files_are_the_shipped_ones(
    traces_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Recipe
) -> None:
    monkeypatch.setattr(shipped, "RECIPES", (recipe,))
    assert shipped.main([str(traces_dir), str(tmp_path)]) == 0
    made = json.loads((tmp_path / f"{recipe.facts.name}.json").read_text())
    assert made == json.loads((FOLDER / f"{recipe.facts.name}.json").read_text())


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert shipped.main([]) == 2
    assert "TRACES_FOLDER" in capsys.readouterr().err
