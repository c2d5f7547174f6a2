"""Which sources there are, made from the configuration. They only read."""

from __future__ import annotations

from collections.abc import Set

from ..agents.artifact.runtime import ArtifactPolicy
from .environment import origin
from .errors import SettingsError
from .metrics import envoy_admin, nvml
from .metrics.catalogue_params import CatalogueParams
from .metrics.client import PrometheusParams
from .metrics.envoy_admin import EnvoyAdminParams, EnvoyAdminSource
from .metrics.nvml import NvmlSource
from .metrics.prometheus import PrometheusSource
from .metrics.queries import catalogue
from .metrics.query import CRITICAL_FIELDS
from .metrics.report import ProbedSource
from .parameters import parsed
from .settings import BridgeSettings


def make_sources(
    settings: BridgeSettings, policy: ArtifactPolicy, file: str
) -> tuple[list[ProbedSource], frozenset[str]]:
    """The sources in order of precedence, and the fields of the contract that they are asked for.

    Args:
        settings: The configuration.
        policy: Whose contract gives interval, window and minimum samples.
        file: The configuration's name, for errors.

    Raises:
        SettingsError: One line with file, key and what would be right.
    """
    prometheus, admin = settings.prometheus, settings.envoy_admin
    above = origin(file, "catalogue")
    names = parsed(CatalogueParams, settings.catalogue, file=above, section="catalogue")
    token = prometheus.bearer_token
    reading_s = prometheus.deadline_s + (admin.timeout_s if admin is not None else 0.0)
    tick_s = policy.manifest.control_interval_s
    if reading_s >= tick_s:
        msg = (
            f"{origin(file, 'prometheus', 'deadline_s')}: prometheus.deadline_s: reading may take "
            f"{reading_s:g} s, expected less than the artifact's control interval of {tick_s:g} s"
        )
        raise SettingsError(msg)
    try:
        queries = catalogue(names, policy.manifest.contract_object())
        above = origin(file, "prometheus")
        params = PrometheusParams(
            url=prometheus.url,
            connect_timeout_s=prometheus.connect_timeout_s,
            read_timeout_s=prometheus.read_timeout_s,
            deadline_s=prometheus.deadline_s,
            max_clock_skew_s=prometheus.max_clock_skew_s,
            bearer_token=None if token is None else token.get_secret_value(),
            ca_file=None if prometheus.ca_file is None else str(prometheus.ca_file),
        )
        sources: list[ProbedSource] = [PrometheusSource(params, queries)]
        fields = {query.name for query in queries if query.kind == "field"}
        if admin is not None:
            above = origin(file, "envoy_admin")
            envoy = EnvoyAdminParams(
                url=admin.url, cluster=names.cluster, deadline_s=admin.timeout_s
            )
            sources.append(EnvoyAdminSource(envoy))
            fields.add(envoy_admin.FIELD)
    except SettingsError as error:
        raise SettingsError(f"{above}: {error}") from error
    if settings.nvml:
        sources.append(NvmlSource())
        fields.add(nvml.FIELD)
    _check_sources(fields, file)
    return sources, frozenset(fields)


def _check_sources(fields: Set[str], file: str) -> None:
    """Refuses a configuration under which every tick would be blind, for ever.

    Raises:
        SettingsError: It names the key and the field that no source gives.
    """
    for name in CRITICAL_FIELDS:
        if name not in fields:
            key = "envoy_admin" if name == envoy_admin.FIELD else f"catalogue.overrides.{name}"
            other = f", or set catalogue.overrides.{name}" if key == "envoy_admin" else ""
            msg = (
                f"{file}: {key}: missing key: no source gives {name}, and without it nothing is "
                f"ever decided; set it{other}"
            )
            raise SettingsError(msg)
