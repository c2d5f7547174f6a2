"""The shipped workload models and how to make them anew.

    python -m gatepilot.envs.workload.shipped TRACES_FOLDER [OUTPUT_FOLDER]

reads the named traces and writes one JSON file a model (into `models/` unless told otherwise).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from .fit import fit_model
from .model import MAX_FILE_BYTES, Facts, WorkloadModel
from .trace import load_trace


@dataclass(frozen=True)
class Recipe:
    """How one shipped model is fitted."""

    facts: Facts
    """Source and licence; `fitted_to` is the file in the traces folder."""
    span_s: float
    """Length of the range; a file's last arrival does not quite show it."""
    bins: int
    """Bins of the rate curve."""
    label_column: str | None = None
    """Column that tells groups apart; None: one group."""


RECIPES = (
    Recipe(
        Facts(
            name="azure-conv-2023",
            description="Half an hour of a conversation service: level rate, almost Poisson.",
            fitted_to="azure-2023-conv-h1.csv.gz (first half of the published trace, by time)",
            source=(
                "Azure/AzurePublicDataset, data/AzureLLMInferenceTrace_conv.csv, commit "
                "b469a113cedca53ddc3bdea71a143dc4b7d8700c"
            ),
            licence="CC-BY 4.0 (changes: rates, gap law and length quantiles only)",
            attribution=(
                "Azure LLM inference trace 2023, Microsoft Azure; cite: Splitwise: Efficient "
                "generative LLM inference using phase splitting, ISCA 2024"
            ),
        ),
        span_s=1751.0,
        bins=10,
    ),
    Recipe(
        Facts(
            name="servegen-tenants",
            description=(
                "A day of twelve tenants of a general service, each with bursts of its own; one "
                "alone jumps to about 14 requests a second."
            ),
            fitted_to=(
                "servegen-tenants-24h.parquet (resampled from published production statistics, "
                "no recorded requests)"
            ),
            source=(
                "alibaba/ServeGen, data/language/m-large, 12 clients of day 2, commit "
                "f891d1189eb32b3868dfc443800c4150548c282a"
            ),
            licence="Apache-2.0 (changes: rates, gap laws and length quantiles only)",
            attribution="ServeGen, Alibaba Cloud Model Studio data; cite arXiv:2505.09999",
        ),
        span_s=86400.0,
        bins=144,
        label_column="client",
    ),
)


def fit_recipe(recipe: Recipe, traces_dir: Path) -> WorkloadModel:
    """Fits one shipped model to its trace."""
    path = traces_dir / recipe.facts.fitted_to.split(" ")[0]
    requests = replace(load_trace(path), span_s=recipe.span_s)
    labels = None
    if recipe.label_column is not None:
        column = pq.read_table(path, columns=[recipe.label_column])[recipe.label_column]
        labels = column.to_numpy().astype(np.int64)
    return fit_model(requests, recipe.facts, bins=recipe.bins, labels=labels)


def main(arguments: list[str]) -> int:
    """Writes all shipped models; returns an exit code."""
    if len(arguments) not in (1, 2):
        sys.stderr.write(__doc__ or "")
        return 2
    target = Path(arguments[1]) if len(arguments) == 2 else Path(__file__).with_name("models")
    for recipe in RECIPES:
        text = fit_recipe(recipe, Path(arguments[0])).to_json() + "\n"
        if len(text.encode()) > MAX_FILE_BYTES:
            raise ValueError(f"{recipe.facts.name}: {len(text)} bytes exceed {MAX_FILE_BYTES}")
        (target / f"{recipe.facts.name}.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
