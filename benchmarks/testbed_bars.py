"""Bars that need real programs, Envoy above all, and real time.

    python benchmarks/testbed_bars.py breaker   # a minute
    python benchmarks/testbed_bars.py sim       # 14 minutes, on a machine that does nothing else

Each makes a new recording of the real side, puts it in place of the one that the project ships
(`experiments/recordings`, what `gatepilot validate` compares with unless told `--live`), and holds
the engine against it. The figures are printed as JSON and stored in
`benchmarks/results/testbed_NAME.json`. Exit code 1: missed.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from bar_file import Measured, run_bar

from gatepilot.envs.sim.engine import compile_engine
from gatepilot.experiments.recordings.recording import store
from gatepilot.experiments.terminal import StudyProgress
from gatepilot.experiments.validation import breaker, testbed
from gatepilot.experiments.validation.claim import Section, ValidationContext
from gatepilot.experiments.validation.record import section_dict


def main() -> int:
    """Runs one bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bars = parser.add_subparsers(dest="bar", required=True)
    bars.add_parser("breaker", help=breaker_against_envoy.__doc__)
    bars.add_parser("sim", help=sim_against_testbed.__doc__)
    options = parser.parse_args()
    measure = {"breaker": breaker_against_envoy, "sim": sim_against_testbed}[options.bar]
    compile_engine()
    with StudyProgress("steps") as progress:
        context = ValidationContext(None, None, live=True, progress=progress)
        return run_bar(options.bar, f"testbed_{options.bar}.json", partial(measure, context))


def breaker_against_envoy(context: ValidationContext) -> Measured:
    """The same failures through a real Envoy and the engine: the same ejections and returns."""
    recording = breaker.record(context)
    store(breaker.NAME, recording)
    return _figures(breaker.compare(recording))


def sim_against_testbed(context: ValidationContext) -> Measured:
    """The same arrivals through simulator and testbed: TTFT, errors, who is ejected."""
    recording = testbed.record(context)
    store(testbed.NAME, recording)
    met, figures = _figures(testbed.compare(recording, context))
    return met, figures | {"testbed": recording.content["runs"]}


def _figures(section: Section) -> Measured:
    return not section.missed, {"claims": section_dict(section)["claims"]}


if __name__ == "__main__":
    sys.exit(main())
