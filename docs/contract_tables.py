"""Puts the generated tables of the contract into pages at build time (a hook of MkDocs)."""

from __future__ import annotations

import re

from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.schema.tables import actions_table, fields_table, observation_table

TABLES = {
    "fields": fields_table(),
    "documented": observation_table(ObservationSpec("documented")),
    "extended": observation_table(ObservationSpec("extended")),
    "actions": actions_table(),
}


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replaces every `{{ name }}` by the table of that name; an unknown name ends the build."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: TABLES[match[1]], markdown)
