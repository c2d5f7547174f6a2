"""What the coefficients of a profile were fitted to, and how well they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .keys import Keys, ProfileError


@dataclass(frozen=True, slots=True)
class FitReport:
    """Range and errors of a fit; None or empty where the profile does not state them."""

    points: int | None
    """Measured points it was fitted to."""
    mape: float | None
    """Mean relative error on them."""
    max_ape: float | None
    """Largest relative error on them."""
    loo_mape: float | None
    """Mean relative error of each point predicted by a fit to the others."""
    concurrency: tuple[int, ...]
    """Least and most requests in flight."""
    prompt_tokens: tuple[int, ...]
    """Prompt lengths (`isl`, as benchmarks call them)."""
    output_tokens: tuple[int, ...]
    """Answer lengths (`osl`)."""


def parse_fit_report(content: Any, where: str) -> FitReport:  # noqa: ANN401
    """Reads a profile's `fit`; keys that are not looked at may hold anything.

    Args:
        content: The JSON under `fit`.
        where: File to name in errors.

    Raises:
        ProfileError: It is no object, or what is looked at has another form.
    """
    allowed = tuple(content) if isinstance(content, Mapping) else ("mape", "loo_mape")
    keys = Keys(content, where, "fit.", allowed)
    return FitReport(
        points=keys.whole("n_points"),
        mape=keys.optional_number("mape"),
        max_ape=keys.optional_number("max_ape"),
        loo_mape=keys.optional_number("loo_mape"),
        concurrency=_counts(keys, "concurrency", where),
        prompt_tokens=_counts(keys, "isl", where),
        output_tokens=_counts(keys, "osl", where),
    )


def _counts(keys: Keys, key: str, where: str) -> tuple[int, ...]:
    """A list of whole numbers; empty where there is none."""
    values = keys.content.get(key, [])
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ProfileError(f"{where}: fit.{key}: {values!r} is not a list of whole numbers")
    return tuple(values)
