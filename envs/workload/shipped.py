"""Makes the shipped workload models anew.

    python -m gatepilot.envs.workload.shipped TRACES_FOLDER [--out FOLDER] [--only NAME ...]

reads the named traces and writes one JSON file a model (into `models/` unless told otherwise).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from .fit import fit_model
from .model import MAX_FILE_BYTES, WorkloadModel
from .recipes import RECIPES, Recipe
from .request import Requests
from .trace import load_trace


def recipe_requests(recipe: Recipe, traces_dir: Path) -> Requests:
    """What a shipped model is fitted to."""
    return replace(load_trace(traces_dir / recipe.file), span_s=recipe.span_s)


def fit_recipe(recipe: Recipe, traces_dir: Path) -> WorkloadModel:
    """Fits one shipped model to its trace."""
    return fit_model(
        recipe_requests(recipe, traces_dir),
        recipe.facts,
        bins=recipe.bins,
        by_client=recipe.by_client,
        most_groups=recipe.most_groups,
        length_points=recipe.length_points,
    )


def main(arguments: list[str]) -> int:
    """Writes the shipped models; returns an exit code."""
    names = [recipe.facts.name for recipe in RECIPES]
    parser = argparse.ArgumentParser(prog="gatepilot.envs.workload.shipped", description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("models"))
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    given = parser.parse_args(arguments)
    for recipe in RECIPES:
        if recipe.facts.name not in given.only:
            continue
        text = fit_recipe(recipe, given.traces).to_json() + "\n"
        if len(text.encode()) > MAX_FILE_BYTES:
            raise ValueError(f"{recipe.facts.name}: {len(text)} bytes exceed {MAX_FILE_BYTES}")
        (given.out / f"{recipe.facts.name}.json").write_text(text, encoding="utf-8")
        sys.stderr.write(f"{recipe.facts.name}: {len(text):,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
