"""Why a query brings nothing: a renamed metric, labels that do not match, or nothing to report."""

from __future__ import annotations

import difflib
import re
from typing import Final

from .client import NoAnswerError, PrometheusClient
from .query import Query

_FAMILY = re.compile(r"[a-zA-Z]+")
_LABELS: Final = (
    "job, instance, model_name, envoy_cluster_name, envoy_http_conn_manager_prefix, "
    "namespace, deployment"
)
"""What the catalogue selects by."""
_SHOWN: Final = 2


class Hints:
    """Looks around in one Prometheus, at start-up only.

    Args:
        client: Whom to ask.
    """

    def __init__(self, client: PrometheusClient) -> None:
        self._client = client
        self._families: dict[str, tuple[str, ...]] = {}

    def missing(self, query: Query) -> str:
        """One line on why a query has no sample, or nothing where that cannot be found out."""
        try:
            found = [self._selector(selector) for selector in query.selectors]
        except NoAnswerError:
            return ""
        reasons = [text for text in dict.fromkeys(found) if text]
        if reasons:
            return "; ".join(reasons[:_SHOWN])
        return "its series are there; idle, just started, or too few samples" if found else ""

    def _selector(self, selector: str) -> str:
        name = selector.partition("{")[0].rstrip()
        if not name:
            return "" if self._label_sets(f"count({selector})") else f"nothing matches {selector}"
        names = self._family(name)
        if name not in names:
            similar = difflib.get_close_matches(name, names, n=_SHOWN)
            return f"no metric {name}" + (f", similar: {', '.join(similar)}" if similar else "")
        if self._label_sets(f"count({selector})"):
            return ""
        there = self._label_sets(f"group by ({_LABELS}) ({name})")
        shown = " and ".join(
            ",".join(f"{k}={v}" for k, v in sorted(labels.items())) for labels in there[:_SHOWN]
        )
        return f"{name} has no series that matches {selector.removeprefix(name)}, only {shown}"

    def _family(self, name: str) -> tuple[str, ...]:
        """Names that begin as this one does, e.g. with `envoy`."""
        match = _FAMILY.match(name)
        family = match[0] if match else name
        if family not in self._families:
            there = self._label_sets(f'group by (__name__) ({{__name__=~"{family}.*"}})')
            self._families[family] = tuple(sorted(labels.get("__name__", "") for labels in there))
        return self._families[family]

    def _label_sets(self, text: str) -> list[dict[str, str]]:
        result = self._client.ask(text, None).result
        if not isinstance(result, list):
            return []
        metrics = [entry.get("metric") for entry in result if isinstance(entry, dict)]
        return [metric for metric in metrics if isinstance(metric, dict)]
