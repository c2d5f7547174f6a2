"""ServeGen's published statistics as workload models: no requests, but how each client sends them.

A folder of the public format holds two files for each client N:

- `chunk-N-trace.csv`, a line a window without heading: start in seconds, rate in requests/s, cv of
  the gaps, family of their law (`Gamma`, `Weibull`; empty: no traffic), its shape, its scale;
- `chunk-N-dataset.json`: from the second that is its key on, a histogram each of `input_tokens` and
  `output_tokens`, as the text of a Python dictionary from tokens to probability.

(Repository alibaba/ServeGen, README and `servegen/clientpool.py`; arXiv:2505.09999.)

The model has a group a client: the window's rate, the law's family, and the cv that belongs to its
shape. Prompt and output are independent, as no joint law is published; a client's histograms are
merged over time, weighted by its requests. A client without any histogram is left out.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .arrivals import MAX_CV, MIN_CV, GapLaw, shape_cv
from .group import Facts, Group
from .lengths import LENGTH_GRID, LengthLaw, QuantileTable, table_of_quantiles
from .model import WorkloadModel
from .text_files import UNREADABLE, one_line, open_text
from .trace_columns import TraceError

_TRACE = re.compile(r"chunk-(\d+)-trace\.csv")
_LAWS: Final[Mapping[str, GapLaw]] = {"Gamma": "gamma", "Weibull": "weibull"}
_LENGTHS: Final = ("input_tokens", "output_tokens")
_POINTS: Final = 50
_FIELDS: Final = 6

_Histogram = dict[int, float]


@dataclass(frozen=True, eq=False)
class _Client:
    """What is known of one client."""

    name: str
    start_s: NDArray[np.int64]
    rate_rps: NDArray[np.float64]
    law: tuple[GapLaw, ...]
    shape: NDArray[np.float64]
    lengths: LengthLaw | None


def load_servegen(folder: Path) -> WorkloadModel:
    """Makes a model of a folder in ServeGen's public format.

    Raises:
        TraceError: A file is missing or malformed, or no client has lengths.
    """
    found = sorted((int(m[1]), m[0]) for p in folder.iterdir() if (m := _TRACE.fullmatch(p.name)))
    if not found:
        raise TraceError(f"{folder}: no file chunk-N-trace.csv; expected ServeGen's client files")
    clients = []
    for number, name in found:
        start_s, rate_rps, law, shape = _windows(folder / name)
        path = folder / f"chunk-{number}-dataset.json"
        lengths = _lengths(_histograms(path), start_s, rate_rps)
        clients.append(_Client(str(number), start_s, rate_rps, law, shape, lengths))
    return _model(folder.name, str(folder), clients)


def load_client_statistics(windows: Path, lengths: Path, model: str) -> WorkloadModel:
    """Makes a model of the same statistics as two tables.

    Args:
        windows: parquet with `model, client, t_s, rate, dist, shape`, a row a window with traffic.
        lengths: csv or csv.gz with `model, client` and `prompt_p0` to `prompt_p100`, `output_p0` to
            `output_p100`: percentiles.
        model: Which service of the tables.

    Raises:
        TraceError: A file is missing or malformed, or the service is not in it.
    """
    table = _read(windows)
    of_model = table["model"] == model
    if not of_model.any():
        known = ", ".join(sorted(set(table["model"].tolist())))
        raise TraceError(f"{windows}: no model {model!r}; known: {known}")
    table = {name: column[of_model] for name, column in table.items()}
    laws = _percentile_laws(lengths, model)
    clients = []
    for number in np.unique(table["client"]):
        rows = table["client"] == number
        families = tuple(_family(windows, text) for text in table["dist"][rows])
        start_s, rate_rps, shape = (table[name][rows] for name in ("t_s", "rate", "shape"))
        name = str(number)
        clients.append(_Client(name, start_s, rate_rps, families, shape, laws.get(name)))
    return _model(model, f"{windows.name} and {lengths.name}", clients)


def _model(name: str, fitted_to: str, clients: list[_Client]) -> WorkloadModel:
    """Puts the clients onto common bins."""
    starts = np.unique(np.concatenate([client.start_s for client in clients]))
    bin_s = int(np.diff(starts).min()) if starts.size > 1 else 0
    if bin_s <= 0 or ((starts - starts[0]) % bin_s).any():
        raise TraceError(f"{fitted_to}: the windows must be equally long, and at least two")
    bins = int((starts[-1] - starts[0]) // bin_s) + 1
    groups, left_out = [], 0.0
    for client in clients:
        if client.lengths is None:
            left_out += float(client.rate_rps.sum())
            continue
        place = (client.start_s - starts[0]) // bin_s
        rate, cv, laws = np.zeros(bins), np.ones(bins), np.full(bins, "gamma", dtype=object)
        rate[place], laws[place] = client.rate_rps, client.law
        for law in _LAWS.values():
            its = np.array([each == law for each in client.law], dtype=bool)
            cv[place[its]] = np.clip(shape_cv(law, client.shape[its]), MIN_CV, MAX_CV).round(3)
        one = set(client.law)
        gap_law = next(iter(one)) if len(one) == 1 else tuple(laws.tolist())
        groups.append(Group(client.name, rate.round(6), gap_law, cv, client.lengths))
    if not groups:
        raise TraceError(f"{fitted_to}: no client has a histogram of its lengths")
    share = left_out / sum(float(client.rate_rps.sum()) for client in clients)
    facts = Facts(
        name=name,
        description=(
            f"{len(groups)} clients; {100 * share:.0f} % of the requests belong to clients without "
            "histograms and are left out."
        ),
        fitted_to=f"{fitted_to} (published statistics, no requests)",
        source="ServeGen, repository alibaba/ServeGen",
        licence="Apache-2.0 where the data are that repository's",
        attribution="ServeGen, Alibaba Cloud Model Studio data; cite arXiv:2505.09999",
    )
    return WorkloadModel(facts, float(bins * bin_s), tuple(groups))


def _windows(
    path: Path,
) -> tuple[NDArray[np.int64], NDArray[np.float64], tuple[GapLaw, ...], NDArray[np.float64]]:
    """Start, rate, law and shape of a client's windows with traffic."""
    rows: list[tuple[int, float, GapLaw, float]] = []
    try:
        with open_text(path) as file:
            lines = list(csv.reader(file))
    except (*UNREADABLE, csv.Error) as error:
        raise TraceError(f"{path}: not a readable csv file ({one_line(error)})") from error
    for number, fields in enumerate(lines, start=1):
        where = f"{path}: row {number}"
        if len(fields) != _FIELDS:
            raise TraceError(f"{where} has {len(fields)} columns; expected {_FIELDS}")
        try:
            start_s, rate, shape = int(fields[0]), float(fields[1]), float(fields[4])
        except ValueError as error:
            raise TraceError(f"{where}: start, rate and shape must be numbers") from error
        if rows and start_s <= rows[-1][0]:
            raise TraceError(f"{where}: {start_s} s does not come after {rows[-1][0]} s")
        family = _family(path, fields[3]) if fields[3] else "gamma"
        if not fields[3]:
            rate, shape = 0.0, 1.0
        if not (0 <= rate < np.inf and 0 < shape < np.inf):
            raise TraceError(f"{where}: rate {rate:g} and shape {shape:g} must be above 0")
        rows.append((start_s, rate, family, shape))
    if not rows:
        raise TraceError(f"{path}: the file is empty; expected a line a window")
    starts, rates, laws, shapes = zip(*rows, strict=True)
    if np.unique(np.diff(starts)).size > 1:
        raise TraceError(f"{path}: the windows must be equally long")
    return np.array(starts), np.array(rates), tuple(laws), np.array(shapes)


def _family(path: Path, text: str) -> GapLaw:
    """Our name of a law."""
    if text not in _LAWS:
        raise TraceError(f"{path}: law {text!r} is none of {', '.join(_LAWS)}")
    return _LAWS[text]


def _histograms(path: Path) -> dict[int, tuple[_Histogram, ...]]:
    """Histograms of prompt and output tokens by the second they begin to hold; empty ones not."""
    if not path.is_file():
        raise TraceError(f"{path}: no such file; every chunk-N-trace.csv needs one")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = {
            int(start): tuple(_histogram(part[name]) for name in _LENGTHS)
            for start, part in content.items()
        }
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror})") from error
    except (
        *(AttributeError, KeyError, SyntaxError, TypeError, ValueError),
        *(OverflowError, RecursionError, MemoryError),  # numbers and texts beyond all bounds
    ) as error:
        raise TraceError(
            f"{path}: expected, by second, {' and '.join(_LENGTHS)} as texts such as "
            "'{52: 0.5, 97: 0.5}'"
        ) from error
    return {start: both for start, both in sorted(found.items()) if all(both)}


def _histogram(text: str) -> _Histogram:
    content = ast.literal_eval(text)
    histogram = {max(int(tokens), 1): float(share) for tokens, share in content.items()}
    if any(share < 0 for share in histogram.values()):
        raise ValueError(text)
    return histogram


def _lengths(
    histograms: dict[int, tuple[_Histogram, ...]],
    start_s: NDArray[np.int64],
    rate_rps: NDArray[np.float64],
) -> LengthLaw | None:
    """A client's law of lengths, its histograms weighted by the requests they stand for."""
    if not histograms:
        return None
    begins = np.array(list(histograms))
    owner = np.maximum(np.searchsorted(begins, start_s, side="right") - 1, 0)
    weights = np.bincount(owner, rate_rps, minlength=begins.size)
    if not weights.any():
        weights[:] = 1.0
    merged: list[_Histogram] = [{}, {}]
    for weight, both in zip(weights, histograms.values(), strict=True):
        for into, histogram in zip(merged, both, strict=True):
            for tokens, share in histogram.items():
                into[tokens] = into.get(tokens, 0.0) + float(weight) * share
    return LengthLaw(_table(merged[0]), _table(merged[1]), 0.0)


def _table(histogram: _Histogram) -> QuantileTable:
    """The quantiles of a histogram."""
    tokens = np.array(sorted(t for t, weight in histogram.items() if weight > 0))
    cumulated = np.cumsum([histogram[int(t)] for t in tokens])
    place = np.searchsorted(cumulated / cumulated[-1], LENGTH_GRID, side="left")
    return table_of_quantiles(tokens[np.minimum(place, tokens.size - 1)].astype(float), _POINTS)


def _percentile_laws(path: Path, model: str) -> dict[str, LengthLaw]:
    """Laws of lengths by client from a table of percentiles."""
    try:
        with open_text(path) as file:
            rows = [row for row in csv.DictReader(file) if row["model"] == model]
        return {
            row["client"]: LengthLaw(
                _percentiles(row, "prompt_p"), _percentiles(row, "output_p"), 0
            )
            for row in rows
        }
    except (*UNREADABLE, csv.Error, KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"{path}: not a table of client percentiles ({one_line(error)})"
        ) from error


def _percentiles(row: Mapping[str, str], prefix: str) -> QuantileTable:
    points = sorted(
        (float(name.removeprefix(prefix)) / 100, max(float(value), 1.0))
        for name, value in row.items()
        if name.startswith(prefix)
    )
    return QuantileTable(*(np.array(column) for column in zip(*points, strict=True)))


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of the table of windows."""
    names: Iterable[str] = ("model", "client", "t_s", "rate", "dist", "shape")
    try:
        table = pq.read_table(path, columns=list(names))
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: not a table of client windows ({error})") from error
    return {name: table[name].to_numpy() for name in names}
