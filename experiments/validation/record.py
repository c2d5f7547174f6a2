"""Sections as plain data, for JSON files, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .claim import Claim, Section


def is_met(sections: Sequence[Section]) -> bool:
    """Whether something was compared, and every bar of it is met."""
    return any(s.claims for s in sections) and not any(s.missed for s in sections)


def section_dict(section: Section) -> dict[str, Any]:
    """A section as plain data, without its figures' drawings; a NaN becomes `None`."""
    return {
        "name": section.name,
        "title": section.title,
        "intro": section.intro,
        "skipped": section.skipped,
        "claims": [
            asdict(claim) | {"measured": None if math.isnan(claim.measured) else claim.measured}
            for claim in section.claims
        ],
        "figures": [
            {"name": figure.name, "title": figure.title, "caption": figure.caption}
            for figure in section.figures
        ],
    }


def claims_of(record: Mapping[str, Any]) -> tuple[Claim, ...]:
    """The claims of a section that was stored by `section_dict`."""
    return tuple(_claim(**entry) for entry in record["claims"])


def _claim(
    *,
    measured: float | None,
    interval: Sequence[float] | None,
    **others: Any,  # noqa: ANN401
) -> Claim:
    return Claim(
        measured=math.nan if measured is None else measured,
        interval=None if interval is None else (interval[0], interval[1]),
        **others,
    )
