"""The shipped models against the traces they were fitted to."""

import json
from pathlib import Path

import numpy as np
import pytest

from gatepilot.envs.workload import model as model_module
from gatepilot.envs.workload import shipped
from gatepilot.envs.workload.check import check_model
from gatepilot.envs.workload.model import MAX_FILE_BYTES, load_model, model_names
from gatepilot.envs.workload.recipes import RECIPES, Recipe
from gatepilot.envs.workload.shipped import recipe_requests

FOLDER = Path(model_module.__file__).with_name("models")
QUICK = ("azure-code-2023", "azure-conv-2023", "mooncake-conversation")
"""Models of short traces, whose samples cost little."""


def recipes(*, quick: bool) -> list[Recipe]:
    return [recipe for recipe in RECIPES if (recipe.facts.name in QUICK) == quick]


def named(recipe: Recipe) -> str:
    return recipe.facts.name


def numbers_in(content: object) -> int:
    if isinstance(content, dict):
        return sum(numbers_in(value) for value in content.values())
    if isinstance(content, list):
        return sum(numbers_in(value) for value in content)
    return isinstance(content, (int, float))


@pytest.mark.parametrize("name", model_names())
def test_files_are_small_and_name_their_source(name: str) -> None:
    path = FOLDER / f"{name}.json"
    assert path.stat().st_size <= MAX_FILE_BYTES
    content = json.loads(path.read_text())
    for key in ("name", "description", "fitted_to", "source", "licence", "attribution"):
        assert len(content[key]) > 3
    assert content["name"] == name
    # Tables and curves only: far fewer numbers than the trace has requests.
    model = load_model(name)
    assert numbers_in(content["groups"]) < 0.1 * model.mean_rate_rps * model.span_s


def test_every_recipe_is_shipped_and_described_alike() -> None:
    assert tuple(recipe.facts.name for recipe in RECIPES) == model_names()
    for recipe in RECIPES:
        model = load_model(recipe.facts.name)
        assert model.facts == recipe.facts
        assert model.span_s == recipe.span_s
        assert all(group.rate_rps.size == recipe.bins for group in model.groups)
        assert len(model.groups) <= (recipe.most_groups or 12)


def test_notice_names_every_model() -> None:
    notice = Path(__file__).parents[3].joinpath("NOTICE").read_text()
    for name in model_names():
        assert f"envs/workload/models/{name}.json" in notice


def check_fidelity(recipe: Recipe, traces_dir: Path, seeds: int) -> None:
    """The limits of `check`, and the rate within 2 % in expectation."""
    model, trace = load_model(recipe.facts.name), recipe_requests(recipe, traces_dir)
    assert model.mean_rate_rps == pytest.approx(trace.mean_rate_rps, rel=0.02)
    found = check_model(model, trace, seeds=seeds)
    for part in found.dispersions:
        assert part.passed, part
    for length in found.lengths:
        assert length.passed, length
    assert found.model_rank_correlation == pytest.approx(found.trace_rank_correlation, abs=0.05)


@pytest.mark.parametrize("recipe", recipes(quick=True), ids=named)
def test_fidelity(traces_dir: Path, recipe: Recipe) -> None:
    check_fidelity(recipe, traces_dir, seeds=20)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("recipe", recipes(quick=False), ids=named)
def test_fidelity_of_long_traces(traces_dir: Path, recipe: Recipe) -> None:
    check_fidelity(recipe, traces_dir, seeds=20)


@pytest.mark.parametrize("recipe", recipes(quick=False), ids=named)
def test_the_curve_of_days_is_kept(traces_dir: Path, recipe: Recipe) -> None:
    """Counts of half hours go up and down with the trace's."""
    trace, model = recipe_requests(recipe, traces_dir), load_model(recipe.facts.name)
    edges = np.arange(0, recipe.span_s + 1, 1800)
    wanted = np.histogram(trace.arrival_s, edges)[0]
    arrival_s, _ = model.arrivals(np.random.default_rng(0), 0.0, recipe.span_s)
    assert np.corrcoef(wanted, np.histogram(arrival_s, edges)[0])[0, 1] > 0.85


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(recipe, marks=() if named(recipe) == "azure-conv-2023" else pytest.mark.slow)
        for recipe in RECIPES
    ],
    ids=named,
)
@pytest.mark.timeout(900)
def test_remade_files_are_the_shipped_ones(
    traces_dir: Path, tmp_path: Path, recipe: Recipe
) -> None:
    name = recipe.facts.name
    arguments = [str(traces_dir), "--out", str(tmp_path), "--only", name]
    assert shipped.main(arguments) == 0
    made = json.loads((tmp_path / f"{name}.json").read_text())
    assert made == json.loads((FOLDER / f"{name}.json").read_text())


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        shipped.main([])
    assert caught.value.code == 2
    assert "traces" in capsys.readouterr().err
