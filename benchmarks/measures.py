"""How each of the project's promised figures is measured; `bars.py` runs and stores them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gatepilot.experiments.validation import reference
from gatepilot.experiments.validation.claim import ValidationContext

ROOT = Path(__file__).resolve().parent.parent
GATEPILOT = [sys.executable, "-m", "gatepilot.experiments"]
CONTROLLERS = ("best_fixed", "hpa", "hpa@unit")
TICKS = "60"
WINDOWS = "128"
"""Four rounds of the 32 disjoint windows of tenants70b's test range: incidents are rare."""
TENANTS = ["--scenario", "tenants70b", "--ticks", TICKS, "--windows", WINDOWS]
ENGINE_REQUESTS_PER_S = 5_000_000
TIMES_THE_REFERENCE = 3_000
EVERY_FEATURE_REQUESTS_PER_S = 2_000_000
ENV_TICKS_PER_S = 20_000
REQUESTS_PER_TICK = 250
MIB_PER_ENV = 2.0


class BarError(RuntimeError):
    """A command of a bar failed, or something that it needs is not here."""


def dynamics() -> tuple[bool, dict[str, Any]]:
    """Every reference run: p50, p90, p95, p99 of TTFT and e2e within 0.5 % (KV-bound: 3 %)."""
    section = reference.run(ValidationContext(traces=None, reference=_reference_folder()))
    judged = [claim for claim in section.claims if claim.bar is not None]
    worst: dict[str, float] = {}
    for claim in judged:
        worst[claim.subject] = max(worst.get(claim.subject, 0.0), abs(claim.measured))
    return all(claim.passed for claim in judged), {"worst_relative_error": worst}


def speed() -> tuple[bool, dict[str, Any]]:
    """v05: 5 million requests/s, every feature on: 2; environments: 20,000 ticks/s, 2 MiB each."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "bench.json"
        _run([sys.executable, str(ROOT / "benchmarks" / "bench.py"), "--out", str(out)])
        bench = json.loads(out.read_text())
    v05 = bench["reference_run"][0]
    if "skipped" in v05:
        raise BarError(v05["skipped"])
    features = next(line for line in bench["every_feature"] if line["features"] == "all")
    env = max(bench["vector_env"], key=lambda line: line["ticks_per_s"])
    most_mib = max(line["mib_per_env"] for line in bench["vector_env"])
    met = (
        v05["requests_per_s"] >= ENGINE_REQUESTS_PER_S
        and v05["times_the_reference"] >= TIMES_THE_REFERENCE
        and features["requests_per_s"] >= EVERY_FEATURE_REQUESTS_PER_S
        and env["ticks_per_s"] >= ENV_TICKS_PER_S
        and env["requests_per_tick"] >= REQUESTS_PER_TICK
        and most_mib <= MIB_PER_ENV
    )
    return met, {
        "v05": v05,
        "every_feature": features,
        "vector_env": env,
        "most_mib_per_env": most_mib,
    }


def learning() -> tuple[bool, dict[str, Any]]:
    """`standard`, five seeds of PPO and three of DQN, on what they have never seen: two hours."""
    given = ["--runs", str(ROOT / "runs")]
    for algo, seeds in (("ppo", "5"), ("dqn", "3")):
        command = [*GATEPILOT, "train", "standard", "--algo", algo, "--seeds", seeds, "--json"]
        given += ["--policy", f"run:{_json([*command, *given[:2]])['run_id']}"]
    bars = ("suite", "cliff", "unseen")
    results = {bar: _measured("learned_bars.py", bar, *given) for bar in bars}
    return all(one["met"] for one in results.values()), {
        bar: result["figures"] for bar, result in results.items()
    }


def documented() -> tuple[bool, dict[str, Any]]:
    """PPO and DQN on the documented observation and reward: reported, whatever they reach."""
    return True, {
        config: _train_and_judge(config, {"tenants70b": TENANTS})
        for config in ("tenants70b_documented", "tenants70b_dqn")
    }


def no_cheating() -> tuple[bool, dict[str, Any]]:
    """Always-open, always-shed and min-replica: over the suite none beats the best constant."""
    result = _measured("suite_bars.py", "no_cheating")
    return result["met"], result["figures"]


def feasible() -> tuple[bool, dict[str, Any]]:
    """Over the suite: what all replicas keep, hindsight keeps with faults on."""
    result = _measured("suite_bars.py", "feasible")
    return result["met"], result["figures"]


def threshold() -> tuple[bool, dict[str, Any]]:
    """Schedules of the breaker's threshold, in hindsight, against the best constant."""
    result = _measured("suite_bars.py", "threshold")
    return result["met"], result["figures"]


def bounds() -> tuple[bool, dict[str, Any]]:
    """The look-ahead: within 3 % of the exact programme; twice the search gains only noise."""
    results = {bar: _measured("bound_bars.py", bar) for bar in ("exact", "converged")}
    return all(one["met"] for one in results.values()), {
        bar: one["figures"] for bar, one in results.items()
    }


def unbeaten() -> tuple[bool, dict[str, Any]]:
    """In no scenario of the leaderboard that lies here is anybody above its bound."""
    result = _measured("bound_bars.py", "unbeaten")
    return result["met"], result["figures"]


def leaderboard() -> tuple[bool, dict[str, Any]]:
    """The quick leaderboard: in five minutes, and the same bytes on one worker and on two."""
    result = _measured("leaderboard_bars.py", "leaderboard")
    return result["met"], result["figures"]


def tuned() -> tuple[bool, dict[str, Any]]:
    """Every controller's shipped settings, some played again, against its upstream defaults."""
    result = _measured("leaderboard_bars.py", "tuned")
    return result["met"], result["figures"]


def bridge() -> tuple[bool, dict[str, Any]]:
    """A policy for the testbed is sealed, watches for ten minutes, and is blinded thrice."""
    trained = _json([*GATEPILOT, "train", "testbed", "--json", "--runs", str(ROOT / "runs")])
    with tempfile.TemporaryDirectory() as work:
        folder, keys = Path(work) / "artifact", Path(work) / "config"
        export = [*GATEPILOT, "export", trained["run_id"], "--runs", str(ROOT / "runs")]
        _run([*export, "-o", str(folder)], env=os.environ | {"XDG_CONFIG_HOME": str(keys)})
        given = ["--artifact", str(folder), "--public-key", str(keys / "gatepilot" / "signing.pub")]
        results = {
            "sealed": _measured("sealed_bar.py", "--run", trained["run_id"]),
            "shadow": _measured("bridge_bars.py", "shadow", *given),
            "blind": _measured("bridge_bars.py", "blind", *given),
        }
    return all(result["met"] for result in results.values()), results


def breaker() -> tuple[bool, dict[str, Any]]:
    """The same failures through a real Envoy and the engine, at five thresholds: a minute."""
    result = _measured("testbed_bars.py", "breaker")
    return result["met"], result["figures"]


def testbed() -> tuple[bool, dict[str, Any]]:
    """The same arrivals through simulator and testbed: ten minutes, then a failing replica."""
    result = _measured("testbed_bars.py", "sim")
    return result["met"], result["figures"]


def fresh_machine() -> tuple[bool, dict[str, Any]]:
    """A clean clone by the README's two commands, without and with the traces beside it."""
    figures = {}
    for beside in (False, True):
        with tempfile.TemporaryDirectory() as work:
            clone = Path(work) / "checkout"
            _run(["git", "clone", "--quiet", str(ROOT), str(clone)])
            if beside:
                (Path(work) / "shared").symlink_to(_traces().parent)
            environment = {k: v for k, v in os.environ.items() if not k.startswith("GATEPILOT")}
            environment["HOME"] = work  # no compiled engine of ours
            for verb in ("demo", "test"):
                start = time.time()
                _run(["make", verb], cwd=clone, env=environment)
                key = f"{verb}_{'with' if beside else 'without'}_traces_s"
                figures[key] = round(time.time() - start)
            if not (clone / "gatepilot-demo" / "report.html").is_file():
                return False, figures
    return True, figures


def _train_and_judge(config: str, tests: dict[str, list[str]]) -> dict[str, Any]:
    """Trains a configuration and sets its best model against the controllers on test windows."""
    trained = _json([*GATEPILOT, "train", config, "--json", "--runs", str(ROOT / "runs")])
    name = f"run:{trained['run_id']}"
    figures: dict[str, Any] = {
        "train_wall_s": trained["wall_s"],
        "steps": trained["steps"],
        "steps_per_s": trained["steps_per_s"],
    }
    row_keys = ("return_mean", "return_median", "violation_rate", "replica_hours")
    pair_keys = (
        *("mean_difference", "ci95", "iqm_difference", "iqm_ci95"),
        "probability_of_improvement",
    )
    for test, where in tests.items():
        judged = _evaluate((name, *CONTROLLERS), where)
        figures[test] = {
            "summary": {
                ("learned" if row["policy"] == name else row["policy"]): {
                    key: row[key] for key in row_keys
                }
                for row in judged["summary"]
            },
            "pairs": {
                pair["against"]: {key: pair[key] for key in pair_keys}
                for pair in judged["pairs"]
                if pair["policy"] == name
            },
        }
    return figures


def _measured(script: str, *options: str) -> dict[str, Any]:
    """The result of a bar that has a script of its own."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)  # noqa: S603
    if not done.stdout.strip():
        raise BarError(f"{script} {options[0]} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _evaluate(policies: tuple[str, ...], where: list[str]) -> dict[str, Any]:
    """`gatepilot evaluate`, on test windows where nothing else is said."""
    chosen = [word for policy in policies for word in ("--policy", policy)]
    runs = ["--runs", str(ROOT / "runs")]
    return _json([*GATEPILOT, "evaluate", *chosen, *where, *runs, "--json"])


def _json(command: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run(command))
    return found


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, cwd=cwd, env=env
    )
    if done.returncode != 0:
        # stored with the results: nothing of this machine but the program's own last line
        verb = " ".join(command[1:4])
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise BarError(f"{verb} ended with {done.returncode}: {last}")
    return done.stdout


def _reference_folder() -> Path:
    return _traces().parent / "reference" / "vidur"


def _traces() -> Path:
    folder = os.environ.get("GATEPILOT_TRACES", "")
    if not folder or not Path(folder).is_dir():
        raise BarError("needs the traces: set GATEPILOT_TRACES to their folder")
    return Path(folder).resolve()
