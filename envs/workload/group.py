"""Parts of a workload model: where it comes from, and one group of requests."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrivals import GAP_LAWS, MAX_CV, MIN_CV, GapLaw
from .bursts import Bursts
from .json_content import ContentError, check_keys, finite_number, number_array, plain_numbers
from .lengths import LengthLaw, QuantileTable

_TABLES = ("prompt_tokens", "output_tokens")


@dataclass(frozen=True)
class Facts:
    """Where a model comes from."""

    name: str
    """Short name."""
    description: str
    """What kind of service, in a sentence."""
    fitted_to: str
    """File the model was fitted to."""
    source: str
    """Publisher, dataset and version."""
    licence: str
    """Licence of that data."""
    attribution: str
    """How to credit and cite it."""


@dataclass(frozen=True, eq=False)
class Group:
    """Requests of one kind, e.g. a tenant's.

    Within a bin, arrivals are a renewal process of the bin's rate; bursts multiply that rate.
    """

    label: str
    """Name within the model."""
    rate_rps: NDArray[np.float64]
    """Mean rate in each bin."""
    gap_law: GapLaw | tuple[GapLaw, ...]
    """Family of the law of gaps, for all bins or for each."""
    gap_cv: NDArray[np.float64]
    """Coefficient of variation of the gaps in each bin."""
    lengths: LengthLaw
    """Prompt and output tokens."""
    bursts: Bursts | None = None
    """How the rate switches at random; None: it does not."""

    def __post_init__(self) -> None:
        """Checks the tables."""
        bins = self.rate_rps.size
        for name, low, high in (("rate_rps", 0, math.inf), ("gap_cv", MIN_CV, MAX_CV)):
            values = getattr(self, name)
            if values.shape != (bins,) or bins == 0:
                raise ValueError(f"{name}: {values.size} values for {bins} bins")
            if not ((values >= low) & (values <= high) & np.isfinite(values)).all():
                raise ValueError(f"{name}: values must be in [{low}, {high}]")
        if not isinstance(self.gap_law, str) and len(self.gap_law) != bins:
            raise ValueError(f"gap_law: {len(self.gap_law)} values for {bins} bins")


def group_content(group: Group) -> dict[str, Any]:
    """A group as JSON content; equal values of all bins stand there once."""
    return {
        "label": group.label,
        "gap_law": group.gap_law,
        "bursts": None if group.bursts is None else asdict(group.bursts),
        "rank_correlation": group.lengths.rank_correlation,
        "prompt_tokens": _table_content(group.lengths.prompt),
        "output_tokens": _table_content(group.lengths.output),
        "rate_rps": plain_numbers(group.rate_rps),
        "gap_cv": plain_numbers(group.gap_cv[:1] if np.ptp(group.gap_cv) == 0 else group.gap_cv),
    }


def parse_group(content: Any, where: str, prefix: str) -> Group:  # noqa: ANN401
    """Builds one group from JSON content.

    Args:
        content: What `group_content` made.
        where: File to name in errors.
        prefix: Path of the group's keys.

    Raises:
        ContentError: One line with file, key and what would be right.
    """
    keys = ("label", "gap_law", "bursts", "rank_correlation", *_TABLES, "rate_rps", "gap_cv")
    check_keys(content, keys, where, prefix)
    prompt, output = (_table(content[key], where, f"{prefix}{key}.") for key in _TABLES)
    rate, cv = (number_array(content[key], where, prefix + key) for key in ("rate_rps", "gap_cv"))
    correlation = finite_number(content["rank_correlation"], where, f"{prefix}rank_correlation")
    try:
        return Group(
            str(content["label"]),
            rate,
            _gap_law(content["gap_law"]),
            np.repeat(cv, rate.size) if cv.size == 1 else cv,
            LengthLaw(prompt, output, correlation),
            _bursts(content["bursts"], where, prefix),
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, ContentError):
            raise
        raise ContentError(f"{where}: {prefix}{error}") from error


def _table_content(table: QuantileTable) -> dict[str, Any]:
    """A quantile table as JSON content."""
    return {
        "probabilities": plain_numbers(table.probabilities),
        "tokens": plain_numbers(table.tokens),
    }


def _table(content: Any, where: str, prefix: str) -> QuantileTable:  # noqa: ANN401
    """A quantile table from JSON content."""
    names = ("probabilities", "tokens")
    check_keys(content, names, where, prefix)
    columns = [number_array(content[name], where, prefix + name) for name in names]
    try:
        return QuantileTable(*columns)
    except ValueError as error:
        raise ContentError(f"{where}: {prefix}{error}") from error


def _gap_law(content: Any) -> GapLaw | tuple[GapLaw, ...]:  # noqa: ANN401
    """One family of laws, or one a bin."""
    for law in content if isinstance(content, list) else [content]:
        if law not in GAP_LAWS:
            raise ValueError(f"gap_law: {law!r} is none of {', '.join(GAP_LAWS)}")
    return tuple(content) if isinstance(content, list) else content


def _bursts(content: Any, where: str, prefix: str) -> Bursts | None:  # noqa: ANN401
    """The bursts of a group, if it has some."""
    if content is None:
        return None
    keys = tuple(Bursts.__dataclass_fields__)
    check_keys(content, keys, where, f"{prefix}bursts.")
    return Bursts(*(finite_number(content[key], where, f"{prefix}bursts.{key}") for key in keys))
