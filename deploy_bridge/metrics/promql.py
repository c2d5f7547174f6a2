"""How pieces of PromQL are written: selectors, label values, durations."""

from __future__ import annotations

import json


def exact(label: str, value: str) -> str:
    """A matcher for one value. JSON's escapes are a subset of those of PromQL's strings."""
    return f"{label}={json.dumps(value)}"


def regex(label: str, pattern: str) -> str:
    """A matcher for an anchored regular expression."""
    return f"{label}=~{json.dumps(pattern)}"


def series(metric: str, *matchers: str) -> str:
    """A selector, with braces even where nothing stands in them."""
    return f"{metric}{{{','.join(matchers)}}}"


def duration(seconds: float) -> str:
    """A duration in whole seconds where that is exact, else in milliseconds."""
    whole = round(seconds)
    return f"{whole}s" if whole == seconds else f"{round(seconds * 1000)}ms"
