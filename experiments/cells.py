"""A cell: one policy in one scenario, as it was played; kept on disk, and verified when it is read.

A cell's key is a digest of everything that decides what is in it (code, scenario, profile, traffic,
windows, policy and its settings or weights), so that a cell is either what would be played now or
another cell. It lies in two files: `NAME-DIGEST.json` with what is reported, and beside it
`NAME-DIGEST.npz` with the course, tick by tick, that plots are drawn from. The second is written
first, and the first holds its hash.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ..agents.contestant import Performance, SettingsFrom
from ..agents.digests import json_digest
from ..agents.episodes import Episode, Outcomes, episodes_of
from ..agents.trial import TrialPlan
from .cell_checks import CellError, check_course, check_gate
from .files import replacing, writing

FORMAT: Final = 1
"""Of the files; another one is another key."""
_KEYS: Final = {"digest", "ingredients", "cell", "sha256"}
_NAME_DIGITS: Final = 16
_LONGEST_NAME: Final = 60


@dataclass(frozen=True)
class CellKey:
    """Which cell."""

    policy: str
    """Label."""
    scenario: str
    """Name."""
    ingredients: dict[str, Any]
    """Everything that decides what is in it, plain content."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the ingredients."""
        return json_digest(self.ingredients)

    @property
    def file_name(self) -> str:
        """Readable, and unique by the digest."""
        return f"{_readable(self.policy)}-{self.digest[:_NAME_DIGITS]}.json"

    def __str__(self) -> str:
        """How a person is told of it."""
        return f"{self.policy} on {self.scenario}"


@dataclass(frozen=True)
class Cell:
    """What a policy did in a scenario."""

    policy: str
    scenario: str
    gate: tuple[float, ...]
    """Of each planned window the share of violating ticks at maximum replicas with faults off; only
    those with 0 are played."""
    settings: dict[str, Any]
    """Chosen parameters."""
    settings_from: SettingsFrom | None
    """Where they come from."""
    episodes: tuple[Episode, ...]
    """One a training seed and played window, in this order."""
    course: str | None
    """SHA-256 of the file with the course; `None`: no window was played."""


@dataclass(frozen=True)
class CellStore:
    """A folder of cells."""

    folder: Path

    def path(self, key: CellKey) -> Path:
        """Where a cell lies."""
        return self.folder / _readable(key.scenario) / key.file_name

    def read(self, key: CellKey, planned: TrialPlan) -> Cell | None:
        """A stored cell, verified.

        Args:
            key: Which.
            planned: The windows it was planned for.

        Returns:
            The cell; `None`: it was never played.

        Raises:
            CellError: It is damaged, edited or not what its name says: one line with the file.
        """
        path = self.path(key)
        if not path.exists():
            return None
        try:
            cell = _parsed(path.read_bytes(), key)
            course = None if cell.course is None else _course(path.with_suffix(".npz"), cell.course)
            _check(cell, key, planned, course)
        except CellError as error:
            raise CellError(f"{path}: {error}") from error
        except OSError as error:
            raise CellError(f"{path}: cannot be read ({error.strerror})") from error
        return cell

    def course(self, key: CellKey, cell: Cell) -> Outcomes:
        """The course of a cell's first training seed, tick by tick.

        Args:
            key: Which cell.
            cell: As it was read; at least one window was played.

        Raises:
            CellError: Its file has changed since.
        """
        path = self.path(key).with_suffix(".npz")
        played = sum(share == 0 for share in cell.gate)
        return _course(path, str(cell.course)).taken(slice(played))

    def write(
        self, key: CellKey, gate: Sequence[float], performance: Performance, planned: TrialPlan
    ) -> None:
        """Keeps what was played.

        Args:
            key: Which cell.
            gate: As in `Cell`.
            performance: What the policy did in the windows that were kept; without runs if there
                are none.
            planned: The windows that were kept.

        Raises:
            OutputError: It cannot be written.
        """
        path = self.path(key)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        course, episodes = None, []
        if performance.runs:
            course = _write_course(path.with_suffix(".npz"), performance)
            for train_seed, outcomes in performance.runs:
                episodes += episodes_of(outcomes, planned, policy=key.policy, train_seed=train_seed)
        cell = Cell(
            key.policy,
            key.scenario,
            tuple(gate),
            performance.settings,
            performance.settings_from,
            tuple(episodes),
            course,
        )
        with replacing(path) as temporary:
            temporary.write_text(_text(key, cell), encoding="utf-8")


def _text(key: CellKey, cell: Cell) -> str:
    content = json.loads(json.dumps(asdict(cell), allow_nan=False))
    whole = {
        "digest": key.digest,
        "ingredients": key.ingredients,
        "cell": content,
        "sha256": json_digest([key.ingredients, content]),
    }
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def _parsed(text: bytes, key: CellKey) -> Cell:
    try:
        content = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise CellError("no JSON") from error
    if not isinstance(content, dict) or content.keys() != _KEYS:
        raise CellError(f"expected the keys {', '.join(sorted(_KEYS))}")
    if content["ingredients"] != key.ingredients or content["digest"] != key.digest:
        raise CellError("holds another cell than its name says")
    if content["sha256"] != json_digest([content["ingredients"], content["cell"]]):
        raise CellError("its content does not fit its hash")
    try:
        cell = _adapter().validate_json(json.dumps(content["cell"]), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, ("cell", *problem["loc"])))
        raise CellError(f"{where}: {problem['msg']}") from error
    if json.loads(json.dumps(asdict(cell))) != content["cell"]:
        raise CellError("holds keys that no cell has")
    return cell


def _refused(constant: str) -> None:
    """Raises ValueError for what Python's reader takes and JSON does not have."""
    raise ValueError(constant)


def _check(cell: Cell, key: CellKey, planned: TrialPlan, course: Outcomes | None) -> None:
    """Raises CellError where the parts of a cell do not fit together."""
    if (cell.policy, cell.scenario) != (key.policy, key.scenario):
        raise CellError(f"is about {cell.policy} on {cell.scenario}")
    check_gate(cell.gate, planned)
    kept = planned.keeping([share == 0 for share in cell.gate])
    if course is None or not kept.windows:
        if cell.episodes or course is not None or kept.windows:
            raise CellError("episodes, course and gate do not fit together")
        return
    check_course(course, kept)
    seeds = list(dict.fromkeys(episode.train_seed for episode in cell.episodes))
    if len(course.returns) != len(seeds) * len(kept.windows):
        raise CellError(
            f"{len(course.returns)} courses for {len(seeds)} x {len(kept.windows)} episodes"
        )
    expected: list[Episode] = []
    for i, seed in enumerate(seeds):
        part = course.taken(slice(i * len(kept.windows), (i + 1) * len(kept.windows)))
        expected += episodes_of(part, kept, policy=cell.policy, train_seed=seed)
    if tuple(expected) != cell.episodes:
        raise CellError("its episodes are not those of its course")


def _write_course(path: Path, performance: Performance) -> str:
    everything = Outcomes.joined([outcomes for _, outcomes in performance.runs])
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **{f.name: getattr(everything, f.name) for f in _FIELDS})
        return hashlib.sha256(temporary.read_bytes()).hexdigest()


def _course(path: Path, digest: str) -> Outcomes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CellError(f"{path.name} cannot be read ({error.strerror})") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise CellError(f"{path.name} does not fit its hash")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return Outcomes(**{f.name: arrays[f.name] for f in _FIELDS})
    except (EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise CellError(f"{path.name} holds no course") from error


_FIELDS: Final = fields(Outcomes)


def _readable(name: str) -> str:
    """A name as a part of a file's name."""
    return re.sub(r"[^\w.@-]+", "_", name)[:_LONGEST_NAME].strip(".") or "_"


@cache
def _adapter() -> TypeAdapter[Cell]:
    """The checker of `Cell`."""
    return TypeAdapter(Cell)
