"""Tracked runs side by side: what each reached, and in what they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..envs.scenario import Scenario
from .config import flat
from .run_files import RunError
from .tracking import RunStore, RunSummary

RETURN: Final = "validation/return_mean"
"""Figure of the curves."""
_NO_DIFFERENCE: Final = frozenset({"name", "seed"})
"""Keys that stand in the table anyway."""


@dataclass(frozen=True)
class ComparedRun:
    """One run."""

    summary: RunSummary
    settings: dict[str, str]
    """Its configuration, flat."""
    scenarios: tuple[Scenario, ...]
    """As they were when it was started."""
    curve: tuple[tuple[int, float], ...]
    """Steps and mean documented return on the validation windows."""


@dataclass(frozen=True)
class Comparison:
    """Runs, in the order they were asked for."""

    runs: tuple[ComparedRun, ...]

    @property
    def differences(self) -> dict[str, tuple[str | None, ...]]:
        """Keys of the configuration in which not all are alike, a value a run; `None`: not used."""
        keys = dict.fromkeys(key for run in self.runs for key in run.settings)
        found = {key: tuple(run.settings.get(key) for run in self.runs) for key in keys}
        return {
            key: values
            for key, values in found.items()
            if len(set(values)) > 1 and key not in _NO_DIFFERENCE
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Why returns cannot be held against each other, one line each; none where they can."""
        notes = []
        first = self.runs[0]
        for run in self.runs[1:]:
            pair = f"{run.summary.run_id} and {first.summary.run_id}"
            if run.scenarios != first.scenarios:
                notes.append(f"{pair}: validated on other scenarios, returns do not compare")
            elif _windows(run) != _windows(first):
                notes.append(f"{pair}: validated on other windows, returns do not compare")
        return tuple(notes)

    def as_dict(self) -> dict[str, Any]:
        """The object that `compare --json` prints."""
        return {
            "runs": [asdict(run.summary) | {"curve": list(run.curve)} for run in self.runs],
            "differences": {key: list(values) for key, values in self.differences.items()},
            "notes": list(self.notes),
        }


def compared(store: RunStore, run_ids: Sequence[str]) -> Comparison:
    """Reads runs.

    Args:
        store: Where they are kept.
        run_ids: MLflow's ids, at least one, each once.

    Raises:
        RunError: There is no such run, or its files are damaged.
    """
    twice = [run_id for i, run_id in enumerate(run_ids) if run_id in run_ids[:i]]
    if twice:
        raise RunError(f"run {twice[0]}: named twice")
    runs = []
    for run_id in run_ids:
        files = store.files(run_id)
        summary, curve = store.summary(run_id), store.curve(run_id, RETURN)
        runs.append(ComparedRun(summary, flat(files.config()), files.scenarios(), curve))
    return Comparison(tuple(runs))


def _windows(run: ComparedRun) -> list[str | None]:
    return [run.settings.get(f"validation.{key}") for key in ("windows", "ticks")]
