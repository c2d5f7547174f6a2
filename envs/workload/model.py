"""Workload models: what a trace is like, without its requests.

A model holds one or more groups (tenants, see `group`). It is a JSON file that names source and
licence; the shipped ones are in `models/`, have at most 64 kB and are remade by `shipped.py`.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .arrivals import Pieces, gap_parameters, gap_scale, renewal_arrivals
from .group import Facts, Group, group_content, parse_group
from .json_content import ContentError, check_keys, finite_number, parse_json
from .request import Requests

__all__ = [
    "FORMAT",
    "MAX_FILE_BYTES",
    "ContentError",
    "Facts",
    "Group",
    "WorkloadModel",
    "load_model",
    "model_names",
    "parse_model",
]

MAX_FILE_BYTES = 64 * 1024
"""A shipped model stays below this."""

FORMAT = "gatepilot-workload-model-2"
"""First key of the JSON file."""

_FOLDER = Path(__file__).with_name("models")


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
    """Rate, form, exponent and scale by group and bin."""

    def __post_init__(self) -> None:
        """Checks the groups and prepares what sampling needs."""
        if not (math.isfinite(self.span_s) and self.span_s > 0):
            raise ValueError(f"span_s: {self.span_s} is not a positive finite number")
        if not self.groups:
            raise ValueError("groups: at least one is needed")
        bins = self.groups[0].rate_rps.size
        for i, group in enumerate(self.groups):
            if group.rate_rps.size != bins:
                size = group.rate_rps.size
                raise ValueError(f"groups.{i}.rate_rps: {size} values for {bins} bins")
        labels = [group.label for group in self.groups]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise ValueError(f"groups.{i}.label: {label!r} appears twice")
        shapes = [gap_parameters(group.gap_law, group.gap_cv) for group in self.groups]
        rates = np.stack([group.rate_rps for group in self.groups])
        form, exponent = (np.stack(arrays) for arrays in zip(*shapes, strict=True))
        scale = gap_scale(form.ravel(), exponent.ravel()).reshape(form.shape)
        object.__setattr__(self, "_parameters", (rates, form, exponent, scale))

    @property
    def bin_s(self) -> float:
        """Length of a bin."""
        return self.span_s / self.groups[0].rate_rps.size

    @property
    def mean_rate_rps(self) -> float:
        """Requests per second over the span, all groups together."""
        return float(sum(group.rate_rps.mean() for group in self.groups))

    @property
    def longest_prompt_tokens(self) -> int:
        """The longest prompt that can be drawn."""
        return max(int(group.lengths.prompt.tokens[-1]) for group in self.groups)

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
        rng = np.random.default_rng(seed)
        arrival_s, owner = self.arrivals(rng, from_s, to_s, rate_scale)
        prompt_tokens = np.ones(arrival_s.size, dtype=np.int32)
        output_tokens = np.ones(arrival_s.size, dtype=np.int32)
        for number, each in enumerate(self.groups):
            rows = np.flatnonzero(owner == number)
            prompt_tokens[rows], output_tokens[rows] = each.lengths.sample(rng, rows.size)
        span_s = to_s - from_s
        return Requests(
            arrival_s,
            prompt_tokens,
            output_tokens,
            span_s,
            client=owner.astype(np.int32),
            client_names=tuple(group.label for group in self.groups),
        )

    def arrivals(
        self, rng: np.random.Generator, from_s: float, to_s: float, rate_scale: float = 1.0
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Draws arrivals alone.

        Args:
            rng: Source of randomness.
            from_s: As for `sample`.
            to_s: As for `sample`.
            rate_scale: As for `sample`.

        Returns:
            Sorted arrivals within [0, to_s - from_s], and the group of each.
        """
        if not 0 <= from_s < to_s < math.inf:
            raise ValueError(f"[{from_s}, {to_s}] is no range of seconds")
        if not 0 < rate_scale < math.inf:
            raise ValueError(f"rate_scale: {rate_scale} is not a positive finite number")
        copies = math.ceil(rate_scale)
        pieces, owner_of = self._pieces(rng, from_s, to_s, copies)
        arrival_s, piece = renewal_arrivals(rng, pieces)
        if copies > rate_scale:
            kept = rng.random(piece.size) < 1 - (copies - rate_scale)
            kept |= owner_of[piece] < (copies - 1) * len(self.groups)  # only the last is thinned
            arrival_s, piece = arrival_s[kept], piece[kept]
        order = np.argsort(arrival_s, kind="stable")
        arrival_s = np.minimum(arrival_s[order], to_s - from_s)
        return arrival_s, owner_of[piece[order]] % len(self.groups)

    def _pieces(
        self, rng: np.random.Generator, from_s: float, to_s: float, copies: int
    ) -> tuple[Pieces, NDArray[np.intp]]:
        """The bins that a range touches, cut to it and where bursts switch, for all copies.

        Returns:
            The pieces, and the owner of each: its group's number, plus the number of groups for
            every copy before its own.
        """
        first, last = math.floor(from_s / self.bin_s), math.ceil(to_s / self.bin_s)
        number = np.arange(first, max(last, first + 1))
        edges = np.clip(np.append(number, number[-1] + 1) * self.bin_s, from_s, to_s) - from_s
        edges[-1] = to_s - from_s
        column = number % self.groups[0].rate_rps.size
        tables = [table[:, column] for table in self._parameters]
        columns: list[tuple[NDArray[np.float64], ...]] = []
        for owner in range(copies * len(self.groups)):
            i = owner % len(self.groups)
            bursts = self.groups[i].bursts
            own = [table[i] for table in tables]
            if bursts is None:
                columns.append((edges[:-1], np.diff(edges), *own))
                continue
            switch, level = bursts.draw(rng, to_s - from_s)
            both = np.union1d(edges, switch)
            start_s = both[:-1]
            at = np.searchsorted(edges, start_s, side="right") - 1
            rate, *law = (table[at] for table in own)
            rate = rate * level[np.searchsorted(switch, start_s, side="right") - 1]
            columns.append((start_s, np.diff(both), rate, *law))
        owner_of = np.repeat(np.arange(len(columns)), [part[0].size for part in columns])
        return Pieces(*(np.concatenate(c) for c in zip(*columns, strict=True))), owner_of

    def to_json(self) -> str:
        """The model as JSON text; `parse_model` reads it back."""
        return json.dumps(
            {
                "format": FORMAT,
                **vars(self.facts),
                "span_s": self.span_s,
                "groups": [group_content(group) for group in self.groups],
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
        ContentError: No such model, or a malformed one: one line with file, key and what would be
            right.
    """
    name = str(name_or_path)
    path = _FOLDER / f"{name}.json" if name in model_names() else Path(name_or_path)
    if path.suffix != ".json":
        near = difflib.get_close_matches(name, model_names(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(model_names())}"
        raise ContentError(f"{name}: unknown workload model; {hint}")
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ContentError(f"{path}: cannot be read ({error.strerror})") from error


@functools.lru_cache(maxsize=8)
def _read(path: Path, _changed_ns: int) -> WorkloadModel:
    """Reads a file; read again when it has changed."""
    return parse_model(path.read_bytes(), where=path.name)


def parse_model(text: str | bytes, *, where: str) -> WorkloadModel:
    """Builds a model from JSON text.

    Args:
        text: What `WorkloadModel.to_json` wrote, maybe as the bytes of a file.
        where: File to name in errors.

    Raises:
        ContentError: One line with file, key and what would be right.
    """
    content = parse_json(text, where)
    facts_keys = tuple(Facts.__dataclass_fields__)
    keys = ("format", *facts_keys, "span_s", "groups")
    check_keys(content, keys, where, "")
    if content["format"] != FORMAT:
        raise ContentError(f"{where}: format: {content['format']!r} is not {FORMAT!r}")
    if not isinstance(content["groups"], list):
        raise ContentError(f"{where}: groups: expected a list of groups")
    try:
        return WorkloadModel(
            Facts(*(str(content[key]) for key in facts_keys)),
            finite_number(content["span_s"], where, "span_s"),
            tuple(
                parse_group(group, where, f"groups.{i}.")
                for i, group in enumerate(content["groups"])
            ),
        )
    except (TypeError, ValueError) as error:
        message = str(error)
        raise ContentError(
            message if message.startswith(f"{where}: ") else f"{where}: {message}"
        ) from error
