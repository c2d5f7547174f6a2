"""What a single value of the configuration may be, with the reason in plain words."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ..envs.schema.settings import MAX_THRESHOLD_STEPS, MIN_THRESHOLD_STEPS, Limits

DAY_S: Final = 86_400.0
P = TypeVar("P")
_MOST_REPLICAS: Final = 10_000
"""More than any cluster of GPUs behind one gateway: a typing error."""
_MOST_TICKS: Final = 100_000
"""Nearly six days at a tick of 5 s: who waits longer never decides, or never checkpoints."""
_LONGEST_NAME: Final = 100


def is_loopback(name: str) -> bool:
    """Whether a host's name or address means this machine alone."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PydanticCustomError("address", "is no address such as http://127.0.0.1:9090")
    try:
        _ = parts.port
    except ValueError:
        raise PydanticCustomError("address", "has a port that is none") from None
    if parts.username or parts.password:
        raise PydanticCustomError("address", "holds a password: bearer_token is the place for one")
    return text.rstrip("/")


def _loopback(text: str) -> str:
    if not is_loopback(text):
        raise PydanticCustomError("loopback", "should be 127.0.0.1, ::1 or localhost")
    return text


def _not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "should be a number")
    return value


def _one_line(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise PydanticCustomError("name", "should be one line of printable characters")
    return text


def _place(value: object) -> object:
    """An empty path would quietly be the folder itself."""
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        raise PydanticCustomError("place", "should be a path of printable characters")
    return value


def _no_bools(value: object) -> object:
    """Parameters of other parts take whatever Python takes for a number."""
    for key, given in value.items() if isinstance(value, Mapping) else ():
        if isinstance(given, bool):
            raise PydanticCustomError("part", "{key}: should be a number", {"key": key})
    return value


def _not_too_many(limits: Limits) -> Limits:
    if limits.max_replicas > _MOST_REPLICAS:
        detail = {"most": _MOST_REPLICAS}
        raise PydanticCustomError("part", "max_replicas: should be {most} or less", detail)
    return limits


Url = Annotated[str, AfterValidator(_web_address)]
Ticks = Annotated[int, BeforeValidator(_not_bool), Field(ge=1, le=_MOST_TICKS)]
Seconds = Annotated[float, BeforeValidator(_not_bool), Field(gt=0, le=DAY_S)]
Text = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(_one_line)]
Place = Annotated[Path, BeforeValidator(_place)]
Age = Annotated[float, BeforeValidator(_not_bool), Field(gt=0, le=36_525 * DAY_S)]
"""A hundred years at most."""
ColdStart = Annotated[float, BeforeValidator(_not_bool), Field(ge=0, le=DAY_S)]
Records = Annotated[int, BeforeValidator(_not_bool), Field(ge=100, le=10**9)]
Count = Annotated[int, BeforeValidator(_not_bool), Field(ge=1, le=10**9)]
ThresholdSteps = Annotated[
    int, BeforeValidator(_not_bool), Field(ge=MIN_THRESHOLD_STEPS, le=MAX_THRESHOLD_STEPS)
]
Seed = Annotated[int, BeforeValidator(_not_bool), Field(ge=0, lt=2**63)]
Port = Annotated[int, BeforeValidator(_not_bool), Field(ge=0, le=65_535)]
Host = Annotated[str, AfterValidator(_loopback)]
ReplicaLimits = Annotated[Limits, BeforeValidator(_no_bools), AfterValidator(_not_too_many)]
WithoutBools = Annotated[P, BeforeValidator(_no_bools)]
"""Parameters of another part, none of which is true or false."""
