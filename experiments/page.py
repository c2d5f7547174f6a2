"""An HTML page of one file that needs nothing else: no network, no script."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from .wording import short, signed, spanned


@dataclass(frozen=True)
class Picture:
    """A plot with what a reader needs beside it."""

    title: str
    caption: str
    svg: str

    @property
    def source(self) -> str:
        """The plot as a data address: it keeps its ids to itself."""
        data = base64.b64encode(self.svg.encode()).decode()
        return f"data:image/svg+xml;base64,{data}"


def filled(template: str, values: dict[str, Any]) -> str:
    """A page as HTML text.

    Args:
        template: Name of a `.j2` file beside this module.
        values: What it shows.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "short": short,
        "signed": signed,
        "spanned": spanned,
        "as_json": _as_json,
    }
    return environment.get_template(template).render(values)


def _as_json(value: Any) -> str:  # noqa: ANN401
    """Plain data, readable."""
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
