"""Workload models: what a trace is like, without its requests.

A model holds one or more groups (tenants) with a piecewise constant rate, a gap law with a
coefficient of variation per bin, and a joint law of lengths. It is a JSON file of at most 64 kB
that names source and licence; the shipped ones are in `models/` and are remade by `shipped.py`.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrivals import GAP_LAWS, MAX_CV, MIN_CV, GapLaw, Pieces, gap_parameters, renewal_arrivals
from .json_content import check_keys, number_array, plain_numbers
from .lengths import LengthLaw
from .request import Requests

MAX_FILE_BYTES = 64 * 1024
"""A shipped model stays below this."""

FORMAT = "gatepilot-workload-model-1"
"""First key of the JSON file."""

_FOLDER = Path(__file__).with_name("models")


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
    """Requests of one kind, e.g. a tenant's."""

    label: str
    """Name within the model."""
    rate_rps: NDArray[np.float64]
    """Rate in each bin."""
    gap_law: GapLaw
    """Family of the law of gaps."""
    gap_cv: NDArray[np.float64]
    """Coefficient of variation of the gaps in each bin."""
    lengths: LengthLaw
    """Prompt and output tokens."""


@dataclass(frozen=True, eq=False)
class WorkloadModel:
    """Rate curves x gap laws x lengths, per group; after its span it repeats."""

    facts: Facts
    """Name, source and licence."""
    span_s: float
    """Length of the modelled range, divided into equal bins."""
    groups: tuple[Group, ...]
    """At least one; all have the same number of bins."""
    _parameters: tuple[NDArray[np.float64], ...] = field(init=False, repr=False)
    """Rate, form and exponent by group and bin."""

    def __post_init__(self) -> None:
        """Checks the groups and prepares what sampling needs."""
        if not (math.isfinite(self.span_s) and self.span_s > 0):
            raise ValueError(f"span_s: {self.span_s} is not a positive finite number")
        if not self.groups:
            raise ValueError("groups: at least one is needed")
        bins = self.groups[0].rate_rps.size
        for i, group in enumerate(self.groups):
            for name, low, high in (("rate_rps", 0, math.inf), ("gap_cv", MIN_CV, MAX_CV)):
                values = getattr(group, name)
                if values.shape != (bins,) or bins == 0:
                    raise ValueError(f"groups.{i}.{name}: {values.size} values for {bins} bins")
                if not ((values >= low) & (values <= high) & np.isfinite(values)).all():
                    raise ValueError(f"groups.{i}.{name}: values must be in [{low}, {high}]")
        shapes = [gap_parameters(group.gap_law, group.gap_cv) for group in self.groups]
        rates = np.stack([group.rate_rps for group in self.groups])
        form, exponent = (np.stack(arrays) for arrays in zip(*shapes, strict=True))
        object.__setattr__(self, "_parameters", (rates, form, exponent))

    @property
    def bin_s(self) -> float:
        """Length of a bin."""
        return self.span_s / self.groups[0].rate_rps.size

    @property
    def mean_rate_rps(self) -> float:
        """Requests per second over the span, all groups together."""
        return float(sum(group.rate_rps.mean() for group in self.groups))

    def sample(self, from_s: float, to_s: float, seed: int, rate_scale: float = 1.0) -> Requests:
        """Draws the requests of a range of the model's time, `from_s` becoming zero.

        Args:
            from_s: Start of the range, at least 0.
            to_s: Its end; beyond the model's span the model repeats.
            seed: Equal arguments give equal bytes.
            rate_scale: Independent copies laid over each other; a part of one is thinned.

        Returns:
            Requests with a span of `to_s - from_s`.
        """
        if not 0 <= from_s < to_s < math.inf:
            raise ValueError(f"[{from_s}, {to_s}] is no range of seconds")
        if not 0 < rate_scale < math.inf:
            raise ValueError(f"rate_scale: {rate_scale} is not a positive finite number")
        rng = np.random.default_rng(seed)
        copies = math.ceil(rate_scale)
        pieces, group = self._pieces(from_s, to_s, copies)
        arrival_s, piece = renewal_arrivals(rng, pieces)
        if copies > rate_scale:
            per_copy = group.size // copies
            kept = rng.random(piece.size) < 1 - (copies - rate_scale)
            kept |= piece < (copies - 1) * per_copy  # only the last copy is thinned
            arrival_s, piece = arrival_s[kept], piece[kept]
        order = np.argsort(arrival_s, kind="stable")
        arrival_s, owner = arrival_s[order], group[piece[order]]
        prompt_tokens = np.ones(arrival_s.size, dtype=np.int32)
        output_tokens = np.ones(arrival_s.size, dtype=np.int32)
        for number, each in enumerate(self.groups):
            rows = np.flatnonzero(owner == number)
            prompt_tokens[rows], output_tokens[rows] = each.lengths.sample(rng, rows.size)
        span_s = to_s - from_s
        return Requests(np.minimum(arrival_s, span_s), prompt_tokens, output_tokens, span_s)

    def _pieces(self, from_s: float, to_s: float, copies: int) -> tuple[Pieces, NDArray[np.intp]]:
        """The bins that a range touches, cut to it, for all groups and copies; and their group."""
        first, last = math.floor(from_s / self.bin_s), math.ceil(to_s / self.bin_s)
        number = np.arange(first, max(last, first + 1))
        edges = np.clip(np.append(number, number[-1] + 1) * self.bin_s, from_s, to_s) - from_s
        edges[-1] = to_s - from_s
        column = number % self.groups[0].rate_rps.size
        times = copies * len(self.groups)
        rate, form, exponent = (
            np.tile(table[:, column].ravel(), copies) for table in self._parameters
        )
        start_s, length_s = np.tile(edges[:-1], times), np.tile(np.diff(edges), times)
        group = np.tile(np.repeat(np.arange(len(self.groups)), number.size), copies)
        return Pieces(start_s, length_s, rate, form, exponent), group

    def to_json(self) -> str:
        """The model as JSON text; `parse_model` reads it back."""
        return json.dumps(
            {
                "format": FORMAT,
                **vars(self.facts),
                "span_s": self.span_s,
                "probabilities": plain_numbers(self.groups[0].lengths.probabilities),
                "groups": [
                    {
                        "label": group.label,
                        "gap_law": group.gap_law,
                        "rank_correlation": group.lengths.rank_correlation,
                        "prompt_tokens": plain_numbers(group.lengths.prompt_tokens),
                        "output_tokens": plain_numbers(group.lengths.output_tokens),
                        "rate_rps": plain_numbers(group.rate_rps),
                        "gap_cv": plain_numbers(group.gap_cv),
                    }
                    for group in self.groups
                ],
            },
            separators=(",", ":"),
        )


def model_names() -> tuple[str, ...]:
    """Names of the shipped models, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def load_model(name_or_path: str | Path) -> WorkloadModel:
    """Reads a shipped model by name, or any by path.

    Args:
        name_or_path: A name out of `model_names`, or a path ending in `.json`.

    Raises:
        ValueError: No such model, or a malformed one: one line with file, key and what would be
            right.
    """
    name = str(name_or_path)
    path = _FOLDER / f"{name}.json" if name in model_names() else Path(name_or_path)
    if path.suffix != ".json":
        near = difflib.get_close_matches(name, model_names(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(model_names())}"
        raise ValueError(f"{name}: unknown workload model; {hint}")
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from error


@functools.lru_cache(maxsize=8)
def _read(path: Path, _changed_ns: int) -> WorkloadModel:
    """Reads a file; read again when it has changed."""
    return parse_model(path.read_text(encoding="utf-8"), where=path.name)


def parse_model(text: str, *, where: str) -> WorkloadModel:
    """Builds a model from JSON text.

    Args:
        text: What `WorkloadModel.to_json` wrote.
        where: File to name in errors.

    Raises:
        ValueError: One line with file, key and what would be right.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: not a JSON file ({error})") from error
    facts_keys = tuple(Facts.__dataclass_fields__)
    keys = ("format", *facts_keys, "span_s", "probabilities", "groups")
    check_keys(content, keys, where, "")
    if content["format"] != FORMAT:
        raise ValueError(f"{where}: format: {content['format']!r} is not {FORMAT!r}")
    probabilities = number_array(content["probabilities"], where, "probabilities")
    try:
        return WorkloadModel(
            Facts(*(str(content[key]) for key in facts_keys)),
            float(content["span_s"]),
            tuple(
                _parse_group(group, probabilities, where, f"groups.{i}.")
                for i, group in enumerate(content["groups"])
            ),
        )
    except (TypeError, ValueError) as error:
        message = str(error)
        raise ValueError(
            message if message.startswith(f"{where}: ") else f"{where}: {message}"
        ) from error


def _parse_group(
    content: Any,  # noqa: ANN401
    probabilities: NDArray[np.float64],
    where: str,
    prefix: str,
) -> Group:
    """Builds one group from JSON content."""
    tables = ("prompt_tokens", "output_tokens", "rate_rps", "gap_cv")
    check_keys(content, ("label", "gap_law", "rank_correlation", *tables), where, prefix)
    law = content["gap_law"]
    if law not in GAP_LAWS:
        raise ValueError(f"{where}: {prefix}gap_law: {law!r} is none of {', '.join(GAP_LAWS)}")
    prompt, output, rate, cv = (number_array(content[key], where, prefix + key) for key in tables)
    try:
        lengths = LengthLaw(probabilities, prompt, output, float(content["rank_correlation"]))
    except ValueError as error:
        raise ValueError(f"{where}: {prefix}{error}") from error
    return Group(str(content["label"]), rate, law, cv, lengths)
