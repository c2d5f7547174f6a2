"""The bridge's configuration: a YAML file, then environment variables over it.

A variable is `GATEPILOT_BRIDGE_` and the key in capitals, two underscores between levels, e.g.
`GATEPILOT_BRIDGE_PROMETHEUS__BEARER_TOKEN`. Nothing else of the project reads the environment.
Control interval, window and minimum samples are the artifact's and cannot be set here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, Field, SecretStr, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariableError

from ..envs.scenario_file import ScenarioError, read_yaml
from .environment import ENV_PREFIX, origin, variables
from .errors import SettingsError
from .findings import first_finding
from .guardrails.bounds import BoundsParams
from .guardrails.drift import DriftParams
from .values import (
    DAY_S,
    Age,
    ColdStart,
    Count,
    Host,
    Place,
    Port,
    Records,
    ReplicaLimits,
    Seconds,
    Seed,
    Text,
    ThresholdSteps,
    Ticks,
    Url,
    WithoutBools,
)

DEFAULT_FILE: Final = Path("bridge.yaml")
"""What commands look for unless told otherwise."""
LEDGER_FILE: Final = "ledger.sqlite"
SOCKET_FILE: Final = "control.sock"

_CONFIG: Final = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=_CONFIG)
class PrometheusSection:
    """Where measurements are read."""

    url: Url
    """Address, e.g. `http://127.0.0.1:9090`."""
    connect_timeout_s: Seconds = 1.0
    """Seconds to connect."""
    read_timeout_s: Seconds = 2.0
    """Seconds to wait for an answer."""
    deadline_s: Seconds = 3.0
    """Seconds for all queries of a tick together."""
    max_clock_skew_s: Seconds = 10.0
    """Seconds that Prometheus' clock may differ from the bridge's."""
    ca_file: Place | None = None
    """Certificates that an `https` server is checked against; relative to the file."""
    bearer_token: SecretStr | None = None
    """Sent as `Authorization: Bearer`; better in the environment than in the file."""


@dataclass(frozen=True, config=_CONFIG)
class EnvoyAdminSection:
    """Envoy's admin interface; it is only ever read."""

    url: Url
    """Address, e.g. `http://127.0.0.1:9901`."""
    timeout_s: Seconds = 1.0
    """Seconds to wait for an answer."""


@dataclass(frozen=True, config=_CONFIG)
class ReplicaSection:
    """What one replica can do, for the policy's advisor and for incumbents that need to know."""

    profile: Text
    """Serving profile: an id of the catalogue (`gatepilot profiles`), or a JSON file; relative to
    the file."""
    cold_start_s: ColdStart | None = None
    """From order to ready, seconds; `null`: the profile's."""
    max_num_seqs: Count = 128
    """Sequences a replica holds at once."""
    chunk_tokens: Count = 512
    """Token budget of an iteration."""
    kv_capacity_tokens: Count | None = None
    """Tokens its KV cache holds; `null`: the profile's."""


@dataclass(frozen=True, config=_CONFIG)
class IncumbentSection:
    """The controller that is asked beside the policy."""

    controller: Text = "hpa"
    """A name of `agents/baselines`, with `@unit` for steps of one."""
    params: dict[str, Any] = field(default_factory=dict)
    """Its parameters, as in its file; absent ones keep their defaults."""
    threshold_steps: ThresholdSteps | None = None
    """Breaker threshold held beside a controller that leaves it alone, in steps of 0.05; `null`:
    left alone."""
    seed: Seed = 0
    """For a controller that draws."""


@dataclass(frozen=True, config=_CONFIG)
class GuardrailsSection:
    """When a proposal is refused or reduced."""

    drift: WithoutBools[DriftParams] = DriftParams()  # frozen
    bounds: WithoutBools[BoundsParams] = BoundsParams()  # frozen


@dataclass(frozen=True, config=_CONFIG)
class ServeSection:
    """The bridge's own pages: /metrics, /healthz, /state. They only show."""

    host: Host = "127.0.0.1"
    """A loopback address."""
    port: Port = 9109
    """Port; 0: a free one, which `status` names."""


@dataclass(frozen=True, config=_CONFIG)
class LedgerSection:
    """How much the ledger keeps."""

    retention_s: Age = 14 * DAY_S
    """Age from which records are cut off, seconds."""
    max_entries: Records = 500_000
    """Records kept at most. A record takes about 3 kB."""
    checkpoint_ticks: Ticks = 240
    """Ticks between two records of the whole state, at which a cut or a replay may begin."""


class BridgeSettings(BaseSettings):
    """The whole file."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        hide_input_in_errors=True,
    )

    name: Text
    """What the gateway is called in records and metrics."""
    artifact: Place
    """Folder of the artifact; relative to the file."""
    public_key: Place | None = None
    """Key that the artifact's signature is checked with; relative to the file."""
    allow_unsigned: bool = False
    """Whether an artifact without signature is taken; every status line then says so. With
    `public_key`: a signature that is there is checked all the same."""
    state_dir: Place = Path("state")
    """Folder of `ledger.sqlite` and `control.sock`; relative to the file. Made if missing."""
    limits: ReplicaLimits
    """`min_replicas`, `max_replicas`."""
    prometheus: PrometheusSection
    envoy_admin: EnvoyAdminSection | None = None
    """Absent: the breaker's threshold must come from a query (`catalogue.overrides`)."""
    catalogue: dict[str, Any] = Field(default_factory=dict)
    """Names that the queries are filled with (`metrics/queries.py`)."""
    nvml: bool = False
    """Whether GPUs of this machine are read."""
    replica: ReplicaSection | None = None
    """What one replica can do; `null`: not known. An artifact whose policy is advised, and an
    incumbent that plans, are then refused."""
    incumbent: IncumbentSection = IncumbentSection()
    guardrails: GuardrailsSection = GuardrailsSection()
    good_ticks: Ticks = 3
    """Good ticks in a row before anything counts."""
    serve: ServeSection | None = ServeSection()
    """`null`: no pages."""
    ledger: LedgerSection = LedgerSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment first, then the file; no dotenv, no secrets folder."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings

    @property
    def ledger_path(self) -> Path:
        """The ledger's file."""
        return self.state_dir / LEDGER_FILE

    @property
    def socket_path(self) -> Path:
        """The control socket."""
        return self.state_dir / SOCKET_FILE


def load_settings(path: Path) -> BridgeSettings:
    """Reads a configuration; its relative paths become absolute ones.

    Args:
        path: The YAML file.

    Raises:
        SettingsError: One line with file, key and what would be right.
    """
    _check_variables()
    try:
        content = read_yaml(path)
    except ScenarioError as error:
        raise SettingsError(str(error)) from error
    if not isinstance(content, Mapping):
        msg = f"{path.name}: expected keys and values such as `artifact: ...`"
        raise SettingsError(msg)
    for key in content:
        if key not in BridgeSettings.model_fields:
            raise SettingsError(f"{path.name}: {key}: unknown key; {_near(str(key))}")
    try:
        settings = BridgeSettings(**content)
    except ValidationError as error:
        keys, line = first_finding(error, BridgeSettings, is_shown=False)
        raise SettingsError(f"{origin(path.name, *keys)}: {line}") from error
    except UnreadableVariableError as error:  # it names the section alone
        section = str(error).partition('"')[2].partition('"')[0]
        msg = f'{origin(path.name, section)}: {section}: should be JSON, as in {{"key": "value"}}'
        raise SettingsError(msg) from error
    if settings.public_key is None and not settings.allow_unsigned:
        msg = f"{path.name}: public_key: missing key; or say `allow_unsigned: true`"
        raise SettingsError(msg)
    folder = path.resolve().parent
    changes: dict[str, object] = {
        key: _absolute(folder, place, origin(path.name, key), key)
        for key in ("artifact", "public_key", "state_dir")
        if (place := getattr(settings, key)) is not None
    }
    ca_file = settings.prometheus.ca_file
    if ca_file is not None:
        key = "prometheus.ca_file"
        found = _absolute(folder, ca_file, origin(path.name, *key.split(".")), key)
        changes["prometheus"] = replace(settings.prometheus, ca_file=found)
    replica = settings.replica
    if replica is not None and replica.profile.endswith(".json"):
        key = "replica.profile"
        place = Path(replica.profile)
        found = _absolute(folder, place, origin(path.name, *key.split(".")), key)
        changes["replica"] = replace(replica, profile=str(found))
    return settings.model_copy(update=changes)


def _absolute(folder: Path, place: Path, file: str, key: str) -> Path:
    try:
        return folder / place.expanduser()
    except RuntimeError as error:  # `~` and nobody's name
        raise SettingsError(f"{file}: {key}: {place}: there is no such user's folder") from error


def _check_variables() -> None:
    """Refuses a variable that sets nothing: it would be overlooked.

    Raises:
        SettingsError: Its name and the nearest key.
    """
    for name in variables():
        key, *below = name[len(ENV_PREFIX) :].lower().split("__")
        known = BridgeSettings.model_fields.get(key)
        if known is None:
            raise SettingsError(f"environment: {name}: unknown key; {_near(key)}")
        if below and known.annotation in (str, bool, int, Path, Path | None):
            raise SettingsError(f"environment: {name}: unknown key; {key} has none below it")


def _near(key: str) -> str:
    keys = list(BridgeSettings.model_fields)
    near = difflib.get_close_matches(key, keys, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(keys)}"
