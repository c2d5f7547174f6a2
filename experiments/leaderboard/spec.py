"""What a leaderboard is about: policies, scenarios, windows and seed, frozen in a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ...agents.digests import json_digest
from ...envs.scenario import SPLITS
from ...envs.scenario_file import ScenarioError, first_problem, read_yaml, to_json
from ..options import MOST_SEED, MOST_TICKS, MOST_WINDOWS
from ..suites import SUITES

FULL: Final = "full"
QUICK: Final = "quick"
_FOLDER: Final = Path(__file__).parent
_Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class SpecError(ValueError):
    """A specification that cannot be used: one line with file and key."""


@dataclass(frozen=True)
class LeaderboardSpec:
    """A frozen comparison.

    Raises:
        ValueError: Keys that contradict each other; the message starts with the key.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    description: str
    """What it is for, in a sentence."""
    policies: _Names
    """Who takes part, as `gatepilot evaluate --policy` takes them."""
    against: str
    """With whom everybody is compared; one of the policies."""
    bound: str
    """What the optimality gap is measured from: a policy that knows what is to come."""
    floor: str
    """The policy whose distance to the bound is a gap of 1."""
    windows: Annotated[int, Field(ge=1, le=MOST_WINDOWS)]
    """Windows a scenario, as many as fit."""
    suite: str | None = None
    """A suite of scenarios; None: `scenarios` names them."""
    scenarios: tuple[str, ...] = ()
    """Shipped scenarios or YAML files."""
    ticks: Annotated[int, Field(ge=1, le=MOST_TICKS)] | None = None
    """Length of a window; None: each scenario's episode."""
    split: str = "test"
    """Range of the workloads."""
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] = 0
    """Of windows, traffic, faults and intervals."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        for key in ("against", "bound", "floor"):
            if getattr(self, key) not in self.policies:
                raise ValueError(f"{key}: {getattr(self, key)} is none of the policies")
        for key in ("policies", "scenarios"):
            names = getattr(self, key)
            if len(set(names)) < len(names):
                raise ValueError(f"{key}: one is named twice")
        if (self.suite is None) == (not self.scenarios):
            raise ValueError("suite: name a suite, or scenarios, one of the two")
        if self.suite is not None and self.suite not in SUITES:
            raise ValueError(f"suite: {self.suite} is none of {', '.join(SUITES)}")
        if self.split not in SPLITS:
            raise ValueError(f"split: {self.split} is none of {', '.join(SPLITS)}")

    @property
    def digest(self) -> str:
        """SHA-256 of everything but the description."""
        return json_digest({k: v for k, v in asdict(self).items() if k != "description"})


def spec_names() -> tuple[str, ...]:
    """Names of the shipped specifications, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_spec(name_or_path: str) -> LeaderboardSpec:
    """Reads a shipped specification by name, or any by path.

    Raises:
        SpecError: No such specification, or a malformed one.
    """
    if name_or_path in spec_names():
        path = _FOLDER / f"{name_or_path}.yaml"
    else:
        path = Path(name_or_path)
        if path.suffix not in (".yaml", ".yml"):
            known = ", ".join(spec_names())
            raise SpecError(f"{name_or_path}: unknown leaderboard; known: {known}, or a YAML file")
    try:
        content: Any = read_yaml(path)
        if not isinstance(content, Mapping):
            raise SpecError(f"{path.name}: expected keys and values such as `windows: 16`")
        return _adapter().validate_json(to_json(content), strict=True)
    except ScenarioError as error:
        raise SpecError(str(error)) from error
    except ValidationError as error:
        raise SpecError(f"{path.name}: {first_problem(error, LeaderboardSpec)}") from error


@cache
def _adapter() -> TypeAdapter[LeaderboardSpec]:
    """The checker of `LeaderboardSpec`."""
    return TypeAdapter(LeaderboardSpec)
