"""The breaker's threshold in force, read from Envoy's admin interface. Nothing is ever posted."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ..errors import SettingsError
from .address import check_address
from .deadline import Deadline, LateError
from .failures import failure_words
from .report import ProbeEntry
from .source import Problem, ProblemKind, Reading, Sample

NAME: Final = "envoy admin"
FIELD: Final = "breaker_threshold"
RUNTIME_KEY: Final = "outlier_detection.failure_percentage_threshold"
"""Envoy's runtime key; it holds for all clusters of that Envoy."""
_DEFAULT_PERCENT: Final = 85
"""Envoy's own, where the cluster says nothing (`outlier_detection.proto`)."""
_HIGHEST_PERCENT: Final = 100
_MOST_BYTES: Final = 8 << 20
"""Size of an answer; a dump names every endpoint."""
_RUNTIME: Final = "/runtime?format=json"
_OK: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyAdminParams:
    """Where Envoy's admin interface is, and how long it may take."""

    url: str
    """Address, e.g. `http://127.0.0.1:9901`."""
    cluster: str
    """The cluster whose breaker is read where the runtime says nothing."""
    deadline_s: float = 1.0
    """Time for all of one read."""

    def __post_init__(self) -> None:
        """Refuses an address that is none.

        Raises:
            SettingsError: It names the key and what would be right.
        """
        check_address("envoy_admin: url", self.url, schemes=("http",), may_have_path=False)
        if not self.deadline_s > 0:
            msg = f"envoy_admin: deadline_s is {self.deadline_s}, expected more than 0"
            raise SettingsError(msg)


class _FaultError(Exception):
    """Why there is no threshold."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class EnvoyAdminSource:
    """Reads `breaker_threshold`: the runtime's value where it has one, else the cluster's own.

    Args:
        params: Where and how long.
    """

    def __init__(self, params: EnvoyAdminParams) -> None:
        self._params = params
        self._deadline = Deadline(NAME, params.deadline_s)

    def read(self, now_s: float) -> Reading:
        """Reads the threshold."""
        asked = [_RUNTIME]
        try:
            percent = self._deadline.run(lambda given_up: self._percent(asked, given_up))
            if not 0 <= percent <= _HIGHEST_PERCENT:
                msg = f"{RUNTIME_KEY} is {percent}, expected 0 to {_HIGHEST_PERCENT}"
                raise _FaultError("out_of_range", msg)
        except LateError as error:
            return self._blind("deadline", str(error), asked)
        except _FaultError as error:
            return self._blind(error.kind, str(error), asked)
        value = percent / _HIGHEST_PERCENT
        return Reading({FIELD: value}, (), (Sample(FIELD, _shown(asked), value),))

    def probe(self, now_s: float) -> tuple[ProbeEntry, ...]:
        """The same, as a line of the start-up report."""
        reading = self.read(now_s)
        sample = reading.samples[0]
        if not reading.problems:
            return (ProbeEntry(NAME, FIELD, "ok", True, sample.query, sample.value),)
        problem = reading.problems[0]
        return (ProbeEntry(NAME, FIELD, problem.kind, True, sample.query, None, problem.detail),)

    def _blind(self, kind: ProblemKind, detail: str, asked: list[str]) -> Reading:
        return Reading({}, (Problem(kind, FIELD, detail),), (Sample(FIELD, _shown(asked), None),))

    def _percent(self, asked: list[str], given_up: threading.Event) -> int:
        parts = urlsplit(self._params.url)
        connection = http.client.HTTPConnection(
            str(parts.hostname), parts.port, timeout=self._params.deadline_s
        )
        try:
            final = _runtime_value(_get(connection, _RUNTIME))
            if final is not None:
                return final
            name = quote(self._params.cluster, safe="")
            for kind in ("static_clusters", "dynamic_active_clusters"):
                path = f"/config_dump?resource={kind}&name_regex={name}"
                if given_up.is_set():
                    break
                asked.append(path)
                configured = self._configured(_get(connection, path))
                if configured is not None:
                    return configured
        finally:
            connection.close()
        msg = f"Envoy has no cluster {self._params.cluster!r}, and its runtime has no {RUNTIME_KEY}"
        raise _FaultError("missing", msg)

    def _configured(self, dump: object) -> int | None:
        """The cluster's own threshold; `None`: the cluster is not in this dump."""
        for cluster in _clusters(dump):
            if cluster.get("name") != self._params.cluster:
                continue
            detection = cluster.get("outlier_detection")
            if not isinstance(detection, dict):
                msg = f"cluster {self._params.cluster!r} has no outlier_detection: no breaker"
                raise _FaultError("missing", msg)
            percent = detection.get("failure_percentage_threshold", _DEFAULT_PERCENT)
            if isinstance(percent, int) and not isinstance(percent, bool):
                return percent
            msg = f"failure_percentage_threshold is {percent!r}, expected a whole number"
            raise _FaultError("unreachable", msg)
        return None


def _shown(asked: list[str]) -> str:
    return ", ".join(f"GET {path}" for path in asked)


def _get(connection: http.client.HTTPConnection, path: str) -> object:
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(_MOST_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise _FaultError("unreachable", f"GET {path}: {failure_words(error)}") from error
    if response.status != _OK:
        msg = f"GET {path}: status {response.status}, expected {_OK}"
        raise _FaultError("unreachable", msg)
    if len(body) > _MOST_BYTES:
        msg = f"GET {path}: more than {_MOST_BYTES} bytes"
        raise _FaultError("unreachable", msg)
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        msg = f"GET {path}: no JSON; expected Envoy's admin interface"
        raise _FaultError("unreachable", msg) from error


def _runtime_value(said: object) -> int | None:
    """The runtime's final value; `None`: it has none, and the cluster's own holds.

    Envoy accepts a value that is no whole number, says nothing, and uses the cluster's own.
    """
    entries = said.get("entries") if isinstance(said, dict) else None
    if not isinstance(entries, dict):
        msg = f"GET {_RUNTIME}: no entries; expected Envoy's admin interface"
        raise _FaultError("unreachable", msg)
    entry: Any = entries.get(RUNTIME_KEY)
    if entry is None:
        return None
    final = entry.get("final_value") if isinstance(entry, dict) else None
    if isinstance(final, str) and final.isascii() and final.isdigit():
        return int(final)
    msg = f"{RUNTIME_KEY} is {final!r}, expected a whole number; Envoy silently ignores it"
    raise _FaultError("warning", msg)


def _clusters(dump: object) -> Iterator[dict[str, Any]]:
    configs = dump.get("configs") if isinstance(dump, dict) else None
    for entry in configs if isinstance(configs, list) else []:
        cluster = entry.get("cluster") if isinstance(entry, dict) else None
        if isinstance(cluster, dict):
            yield cluster
