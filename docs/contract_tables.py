"""Puts what is generated from the code into pages at build time (a hook of MkDocs)."""

from __future__ import annotations

import re

from gatepilot.deploy_bridge.metrics.catalogue_params import CatalogueParams
from gatepilot.deploy_bridge.metrics.queries import catalogue
from gatepilot.envs.profiles.profile import load_profile, profile_ids
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.schema.tables import (
    actions_table,
    advice_table,
    fields_table,
    observation_table,
)
from gatepilot.experiments.profile_tables import catalogue_markdown, start_times_markdown


def queries() -> str:
    """Every query of the catalogue with what it means."""
    params = CatalogueParams(
        cluster="llm",
        model="MODEL",
        deployment="llm",
        weights_gib=15.0,
        kv_gib=20.0,
        vram_gib=45.0,
    )
    return "\n\n".join(
        f"`{query.name}`: {query.meaning}{' (critical)' if query.is_critical else ''}\n\n"
        f"```promql\n{query.text}\n```"
        for query in catalogue(params, Contract(ObservationSpec()))
    )


TABLES = {
    "fields": fields_table(),
    "documented": observation_table(ObservationSpec("documented")),
    "extended": observation_table(ObservationSpec("extended")),
    "advice": advice_table(),
    "actions": actions_table(),
    "catalogue": queries(),
    "profiles": catalogue_markdown([load_profile(name) for name in profile_ids()]),
    "start_times": start_times_markdown([load_profile(name) for name in profile_ids()]),
}


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replaces every `{{ name }}` by the table of that name; an unknown name ends the build."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: TABLES[match[1]], markdown)
