"""Section `testbed`: the same arrivals through a real gateway with emulated replicas."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ..recordings.recording import Recording, made_now, origin, stored
from ..testbed.errors import LaunchError
from .claim import Claim, Section, ValidationContext, skipped_section
from .testbed_run import (
    SETTINGS,
    Setting,
    TestbedRun,
    given,
    mean_of,
    run_testbed,
    simulate_testbed,
)

NAME: Final = "testbed"
SOURCES: Final = ("experiments/testbed",)
"""What a recording depends on, besides what both sides are given."""
TTFT_BAR: Final = 0.10
"""Largest relative error of a percentile of the time to first token, all replicas healthy."""
ERROR_BAR: Final = 0.005
"""Largest difference of the error rates, in points."""
_RUNS: Final = 16
"""Of the engine, whose mean the one run of the testbed is held against."""
_QUICK_RUNS: Final = 4
_TITLE: Final = "The testbed"
_INTRO: Final = (
    "Four emulated replicas behind a real Envoy, 20 requests/s in real time, and the engine on the "
    "same arrivals under several seeds of its router. The replicas share the engine's step model: "
    "compared are routing, queues, errors, retries and the breaker in one, not the model of a GPU. "
    "Percentiles of the time to first token (TTFT) are taken in vLLM's buckets on both sides. "
    f"With all replicas healthy for ten minutes they may differ by {100 * TTFT_BAR:g} %; with one "
    "replica that fails 80 % of its requests for two minutes they are reported. The error rates "
    f"may differ by {100 * ERROR_BAR:g} points, and the same replicas must have been ejected."
)


def run(context: ValidationContext) -> Section:
    """Holds the engine against the stored recording; `live`: against a new one, 14 minutes long."""
    if context.live:
        try:
            return compare(record(context), context)
        except LaunchError as error:
            return skipped_section(NAME, _TITLE, _INTRO, str(error))
    recording = stored(NAME)
    if recording is None:
        reason = "no recording is stored: --live makes one"
        return skipped_section(NAME, _TITLE, _INTRO, reason)
    changed = _changed(recording)
    if changed:
        reason = (
            f"the stored recording of {recording.recorded_on} was made under another "
            f"{', '.join(changed)}: --live makes a new one"
        )
        return skipped_section(NAME, _TITLE, _INTRO, reason)
    return compare(recording, context)


def _changed(recording: Recording) -> list[str]:
    """What of all that both sides are given is not as it was; what is new since does not count."""
    changed = set()
    for setting in SETTINGS:
        then = recording.content["given"].get(setting.name)
        if then is None:
            changed.add("setting")
            continue
        now = given(setting)
        changed |= {key for key, value in then.items() if now.get(key) != value}
    return sorted(changed)


def record(context: ValidationContext) -> Recording:
    """Runs the testbed once for each setting.

    Raises:
        LaunchError: A part of it is missing or does not start.
    """
    advance = context.progress.start(f"{_TITLE}, in real time", len(SETTINGS))
    runs = {}
    for setting in SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            runs[setting.name] = asdict(run_testbed(setting, Path(folder) / "testbed"))
        advance(1)
    inputs = {setting.name: given(setting) for setting in SETTINGS}
    return made_now({"given": inputs, "runs": runs}, SOURCES)


def compare(recording: Recording, context: ValidationContext) -> Section:
    """The claims on a recording.

    Args:
        recording: As `record` makes it.
        context: Says how many runs of the engine there are.
    """
    runs = _QUICK_RUNS if context.quick else _RUNS
    advance = context.progress.start(_TITLE, len(SETTINGS))
    claims: list[Claim] = []
    for setting in SETTINGS:
        testbed = TestbedRun.from_json(recording.content["runs"][setting.name])
        claims += _claims(setting, testbed, runs, origin(recording, SOURCES))
        advance(1)
    return Section(NAME, _TITLE, _INTRO, tuple(claims))


def _claims(setting: Setting, testbed: TestbedRun, runs: int, source: str) -> list[Claim]:
    engine = simulate_testbed(setting, runs)
    there = testbed.figures
    source = f"{testbed.requests:,} requests, {source}"
    claims = []
    for name, words in (("ttft_p50_s", "TTFT p50"), ("ttft_p95_s", "TTFT p95")):
        mean_s, spread_s = mean_of(engine, name)
        theirs_s = getattr(there, name)
        error = mean_s / theirs_s - 1.0
        half = 1.96 * spread_s / theirs_s
        note = (
            f"{theirs_s:.4g} s there, {mean_s:.4g} s here, {testbed.requests:,} requests; {source}"
        )
        bar = TTFT_BAR if setting.fault is None else None
        passed = None if bar is None else abs(error) <= bar
        interval = (error - half, error + half)
        claims.append(Claim(setting.name, words, error, bar, "fraction", passed, note, interval))
    rate, _ = mean_of(engine, "error_rate")
    difference = rate - there.error_rate
    note = f"{100 * there.error_rate:.3g} % there, {100 * rate:.3g} % here"
    passed = abs(difference) <= ERROR_BAR
    claims.append(
        Claim(setting.name, "error rate", difference, ERROR_BAR, "fraction", passed, note)
    )
    differing = max(len(there.ejected ^ run.ejected) for run in engine)
    out = ", ".join(map(str, sorted(there.ejected))) or "none"
    claims.append(
        Claim(
            *(setting.name, "replicas ejected on one side alone", differing, 0.0, "count"),
            passed=differing == 0,
            note=f"ejected there: {out}; worst of {runs} runs here",
        )
    )
    if there.ejections and all(run.ejections for run in engine):
        first_s = there.ejections[0][1]
        late_s = [run.ejections[0][1] - first_s for run in engine]
        note = f"{first_s:g} s there; intervals begin at another time there"
        claims.append(
            Claim(
                *(setting.name, "first ejection", sum(late_s) / runs, None, "s", None),
                note=note,
                interval=(min(late_s), max(late_s)),
            )
        )
    return claims
