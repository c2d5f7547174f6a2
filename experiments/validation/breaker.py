"""Section `breaker`: the same failures through a real Envoy and through the engine's breaker."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import TypeAdapter

from ...envs.episodes import engine_params
from ...envs.scenario import load_scenario
from ...envs.scenario_spec import GatewaySpec
from ...envs.schema.settings import THRESHOLD_STEP_PERCENT
from ...envs.sim.breaker_script import play_script
from ..recordings.recording import Recording, made_now, origin, stored
from ..testbed.errors import LaunchError
from .claim import Claim, Figure, Section, ValidationContext, skipped_section
from .envoy_load import DisturbedRunError
from .envoy_run import Change, EnvoyRun, record_runs
from .failure_script import BEGIN, INTERVALS, THRESHOLDS_PERCENT, gateway

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

NAME: Final = "breaker"
SOURCES: Final = (
    "experiments/testbed/envoy.py",
    "experiments/testbed/envoy_config.py",
    "experiments/validation/envoy_load.py",
    "experiments/validation/envoy_run.py",
    "experiments/validation/failure_script.py",
)
"""What a recording depends on."""
_TITLE: Final = "Envoy's outlier detection"
_INTRO: Final = (
    "Six replicas fail by a script, nothing is drawn, behind a real Envoy, once for each of five "
    "thresholds: each alone, more of them than the cap lets out, again and again up to the longest "
    "time, to the percent at a threshold, with too few answers to be judged, all at once. What "
    "Envoy counted in each interval is then given to the engine's breaker. The same replicas must "
    "be taken out and let in at the end of the same intervals, without one exception. Envoy looks "
    "at its hosts in an order of its own, which decides who is out where the cap stops the rest: "
    "the first ejections teach it and are not counted. Where two times are equal in Envoy's rules, "
    "milliseconds of its timers decide; the script avoids these."
)


def run(context: ValidationContext) -> Section:
    """Holds the engine against the stored recording; `live`: against a new one."""
    if not context.live:
        recording = stored(NAME)
        if recording is None:
            reason = "no recording is stored: --live makes one"
            return skipped_section(NAME, _TITLE, _INTRO, reason)
        return compare(recording)
    try:
        return compare(record(context))
    except (LaunchError, DisturbedRunError) as error:
        return skipped_section(NAME, _TITLE, _INTRO, str(error))


def record(context: ValidationContext) -> Recording:
    """The script against a real Envoy, all thresholds side by side, in a minute.

    Raises:
        LaunchError: Envoy is not here or does not start.
        DisturbedRunError: This machine is too busy.
    """
    advance = context.progress.start(_TITLE, INTERVALS * len(THRESHOLDS_PERCENT))
    with tempfile.TemporaryDirectory() as folder:
        runs = asyncio.run(record_runs(THRESHOLDS_PERCENT, Path(folder), partial(advance, 1)))
    content = {
        "gateway": asdict(gateway(THRESHOLDS_PERCENT[0])),
        "learned": BEGIN,
        "runs": [run.as_json() for run in runs],
    }
    return made_now(content, SOURCES)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One threshold's run on both sides."""

    run: EnvoyRun
    """What Envoy counted and did."""
    engine: tuple[Change, ...]
    """What the engine does on the same counts, in order of time."""

    @property
    def mismatches(self) -> list[Change]:
        """Changes of one side that the other does not have, in order of time."""
        there, here = Counter(self.run.changes), Counter(self.engine)
        alone = ((there - here) + (here - there)).elements()
        return sorted(alone, key=lambda change: (change.interval, change.replica))


def compare(recording: Recording) -> Section:
    """The claims on a recording.

    Args:
        recording: As `record` makes it.
    """
    content = recording.content
    spec = TypeAdapter(GatewaySpec).validate_json(json.dumps(content["gateway"]))
    pairs = [replayed(EnvoyRun.from_json(entry), spec) for entry in content["runs"]]
    note = origin(recording, SOURCES)
    claims = [claim for pair in pairs for claim in _claims(pair, content["learned"], note)]
    figure = Figure(
        "breaker_ejections",
        "Who is out, by Envoy and by the engine",
        "A lane a replica, in the order in which Envoy looks at them; time in intervals. Grey: out "
        "in Envoy; thin: out in the engine, upon it. Up to the dotted line Envoy's order is "
        "learned.",
        partial(_lanes, pairs, content["learned"]),
    )
    return Section(NAME, _TITLE, _INTRO, tuple(claims), figures=(figure,))


def replayed(run: EnvoyRun, spec: GatewaySpec) -> Comparison:
    """Gives the engine what Envoy counted, its places in Envoy's order of hosts.

    Args:
        run: One threshold's run.
        spec: Envoy's breaker, whatever its threshold.
    """
    steps = run.threshold_percent // THRESHOLD_STEP_PERCENT
    scenario = replace(load_scenario("testbed"), gateway=replace(spec, threshold_steps=steps))
    order = np.array(run.order)
    out = play_script(
        engine_params(scenario),
        run.threshold_percent,
        run.answers[:, order],
        run.failures[:, order],
    )
    before = np.vstack([np.zeros_like(out[:1]), out[:-1]])
    return Comparison(
        run,
        tuple(
            Change(int(k) + 1, int(order[place]), bool(out[k, place]))
            for k, place in np.argwhere(out != before)
        ),
    )


def _claims(pair: Comparison, learned: int, note: str) -> list[Claim]:
    subject = f"threshold {pair.run.threshold_percent / 100:.2f}"
    claims = []
    for word, is_out in (("ejections", True), ("returns", False)):
        for side, changes in (("Envoy", pair.run.changes), ("engine", pair.engine)):
            number = sum(c.is_out is is_out and c.interval > learned for c in changes)
            claims.append(Claim(subject, f"{word}, {side}", number, None, "count", None))
    mismatches = pair.mismatches
    compared = any(change.interval > learned for change in pair.run.changes)
    if mismatches:
        first = mismatches[0]
        side = "engine" if first in pair.engine else "Envoy"
        way = "out" if first.is_out else "back"
        note = f"first: replica {first.replica} {way} at {first.interval}, {side} alone; {note}"
    return [
        *claims,
        Claim(
            *(subject, "mismatches", len(mismatches), 0.0, "count"),
            passed=compared and not mismatches,
            note=note,
        ),
    ]


def _lanes(pairs: Sequence[Comparison], learned: int) -> Drawn:
    from matplotlib.figure import Figure as Drawn  # noqa: PLC0415  # loaded for pages alone

    from ..plots import COLORS  # noqa: PLC0415

    figure = Drawn(figsize=(10.5, 0.5 + 1.3 * len(pairs)), layout="constrained")
    axes: list[Axes] = list(figure.subplots(len(pairs), 1, sharex=True, squeeze=False).flat)
    for ax, pair in zip(axes, pairs, strict=True):
        run, end = pair.run, len(pair.run.answers)
        sides: tuple[tuple[Any, float, str], ...] = (
            (run.changes, 0.8, "#c3cad1"),
            (pair.engine, 0.3, COLORS[0]),
        )
        for changes, height, color in sides:
            for lane, replica in enumerate(run.order):
                spans = _spans([c for c in changes if c.replica == replica], end)
                ax.broken_barh(spans, (lane - height / 2, height), color=color)
        ax.axvline(learned, color="#6b7480", lw=0.8, ls=":")
        ax.set_yticks(range(len(run.order)), [str(replica) for replica in run.order], fontsize=6)
        ax.set_ylabel(f"{run.threshold_percent / 100:.2f}", rotation=0, labelpad=16)
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
    axes[-1].set_xlabel("end of interval")
    return figure


def _spans(changes: Sequence[Change], end: int) -> list[tuple[float, float]]:
    """Start and length of each time out of one replica."""
    ordered = sorted(changes, key=lambda change: change.interval)
    starts = [change.interval for change in ordered if change.is_out]
    ends = [change.interval for change in ordered if not change.is_out]
    ends += [end] * (len(starts) - len(ends))
    return [(start, stop - start) for start, stop in zip(starts, ends, strict=True)]
