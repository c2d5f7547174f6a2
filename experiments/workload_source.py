"""What a workload command is pointed at: a trace, a model, or ServeGen's folder of statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from ..envs.scenario_numbers import MOST_REQUESTS
from ..envs.workload.model import WorkloadModel, load_model, model_names
from ..envs.workload.recipes import RECIPES
from ..envs.workload.request import Requests
from ..envs.workload.servegen import load_servegen
from ..envs.workload.trace import load_trace
from ..envs.workload.trace_columns import LAST_ARRIVAL_S
from .files import OutputError
from .tables import write_table

CLIENT_TEXTS = "client"
"""Column of tenants in written files."""


class WorkloadError(ValueError):
    """A workload that cannot be used as asked: one line."""


@dataclass(frozen=True)
class Source:
    """What was found; exactly one of the two is there."""

    name: str
    """Short name for titles."""
    trace: Requests | None
    """Recorded or resampled requests."""
    model: WorkloadModel | None
    """A model to draw requests from."""

    def requests(
        self, from_s: float | None, to_s: float | None, *, seed: int = 0, rate_scale: float = 1.0
    ) -> Requests:
        """A range of the requests, drawn if there is a model.

        Args:
            from_s: Start; None: 0.
            to_s: End; None: the end of trace or model.
            seed: Of the model's sample.
            rate_scale: Factor on a model's rate.

        Raises:
            WorkloadError: The range or the factor cannot be.
        """
        start_s = 0.0 if from_s is None else from_s
        try:
            if self.model is not None:
                end_s = self.model.span_s if to_s is None else to_s
                self._check_drawable(self.model.mean_rate_rps * rate_scale, start_s, end_s)
                return self.model.sample(start_s, end_s, seed, rate_scale)
            if self.trace is None:
                raise WorkloadError(f"{self.name}: neither a trace nor a model")
            end_s = self.trace.span_s if to_s is None else to_s
            return self.trace.within(start_s, end_s)
        except ValueError as error:
            raise WorkloadError(f"{self.name}: {error}") from error

    def _check_drawable(self, rate_rps: float, from_s: float, to_s: float) -> None:
        """Refuses what no trace can hold, or no memory."""
        if to_s > LAST_ARRIVAL_S:
            raise WorkloadError(
                f"{self.name}: {to_s:g} s is beyond the {LAST_ARRIVAL_S:g} s that a trace may last"
            )
        expected = rate_rps * (to_s - from_s)
        if expected > MOST_REQUESTS:
            raise WorkloadError(
                f"{self.name}: about {expected:.2g} requests; expected at most "
                f"{MOST_REQUESTS:,}: a shorter range or a lower rate"
            )


def open_source(what: str) -> Source:
    """Finds out what a name or path is and reads it.

    Args:
        what: Name of a shipped model, a model's `.json`, a folder of ServeGen's files, or a trace.

    Raises:
        ValueError: Nothing of the kind, or malformed: one line of the project's own errors.
    """
    path = Path(what)
    if what in model_names() or path.suffix == ".json":
        model = load_model(what)
        return Source(model.facts.name, None, model)
    if path.is_dir():
        model = load_servegen(path)
        return Source(model.facts.name, None, model)
    if not path.suffix:  # a trace has an ending, so this is meant to be a name
        load_model(what)
    return Source(path.name, load_trace(path), None)


def open_model(what: str) -> WorkloadModel:
    """As `open_source`, where only a model will do.

    Raises:
        ValueError: It is none.
    """
    model = open_source(what).model
    if model is None:
        raise WorkloadError(f"{what}: is a trace, expected a model (gatepilot workload fit)")
    return model


def trace_of(model: WorkloadModel, trace: Path | None, traces_dir: Path | None) -> Requests:
    """What a model was fitted to.

    Args:
        model: The model.
        trace: Its trace; None: the one that a shipped model names.
        traces_dir: Folder of traces.

    Raises:
        WorkloadError: Nobody says where it is, or its span is longer than the model's.
    """
    name = model.facts.name
    if trace is None:
        files = {recipe.facts.name: recipe.file for recipe in RECIPES}
        if name not in files:
            raise WorkloadError(f"{name}: is not a shipped model; name its trace with --trace")
        if traces_dir is None:
            raise WorkloadError(f"{name}: needs {files[name]}; name its folder with --traces")
        trace = traces_dir / files[name]
    requests = load_trace(trace)
    try:
        return replace(requests, span_s=model.span_s)
    except ValueError as error:
        raise WorkloadError(f"{trace}: does not fit the model {name} ({error})") from error


def write_requests(requests: Requests, path: Path) -> None:
    """Writes one row a request in the plain format, tenants and prefix reuse included.

    Raises:
        OutputError: The name says no format, or the file cannot be written.
    """
    if not len(requests):
        raise OutputError(f"{path}: there is no request to write")
    columns = {
        # microseconds: what a trace is precise to, and rounding keeps the order
        "arrival_s": requests.arrival_s.round(6),
        "prompt_tokens": requests.prompt_tokens,
        "output_tokens": requests.output_tokens,
    }
    table = pa.table(columns)
    if requests.client is not None and len(requests.client_names) > 1:
        names = pa.array(requests.client_names)
        table = table.append_column(CLIENT_TEXTS, names.take(pa.array(requests.client)))
    if requests.prefix_hit_tokens is not None:
        for name in ("prefix_hit_tokens", "prefix_parent"):
            table = table.append_column(name, pa.array(getattr(requests, name)))
    write_table(table, path)
