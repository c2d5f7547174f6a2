"""Bars of the bridge: a sealed artifact, ten minutes of shadow, and what blindness does.

    python benchmarks/bridge_bars.py sealed --run RUN [--runs DIR]
    python benchmarks/bridge_bars.py shadow --artifact DIR --public-key FILE [--seconds 600]
    python benchmarks/bridge_bars.py blind --artifact DIR --public-key FILE

The artifact of `shadow` and `blind` must be trained at the testbed's tick (`gatepilot train
testbed`). Each bar prints its figures as JSON and stores them in
`benchmarks/results/bridge_NAME.json`. Exit code 1: missed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatepilot.agents.artifact.errors import ArtifactError
from gatepilot.agents.artifact.runtime import load_artifact
from gatepilot.agents.artifact.signing import PUBLIC_KEY_FILE, make_key_pair, verify_signature
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.envs.sim.quantile import histogram_quantile
from gatepilot.envs.sim.state import TTFT_BOUNDS_S

RESULTS = Path(__file__).resolve().parent / "results"
GATEPILOT = [sys.executable, "-m", "gatepilot.experiments"]
BRIDGE = [sys.executable, "-m", "gatepilot.deploy_bridge"]
WINDOW_S = 60.0
TICK_S = 5.0
SCRAPE_S = 5.0
LAG_S = SCRAPE_S / 2
"""Mean age of the newest scrape: a window of the ledger ends that much before its tick."""
WARMUP_S = WINDOW_S + 2 * SCRAPE_S
CHANGES = 240
"""Changed bytes, over all files of the artifact."""
VERIFY_LIMIT_S = 2.0
VALID_LIMIT = 0.99
DECISION_LIMIT_S, CPU_LIMIT, RSS_LIMIT_MIB = 0.005, 0.03, 150
GOOD_KS = 3
DOWN_S = 20.0


def main() -> int:
    """Runs one bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bars = parser.add_subparsers(dest="bar", required=True)
    one = bars.add_parser("sealed", help=sealed.__doc__)
    one.add_argument("--run", action="append", required=True)
    one.add_argument("--runs", default="runs")
    one.set_defaults(measure=sealed)
    for measure in (shadow, blind):
        one = bars.add_parser(measure.__name__, help=measure.__doc__)
        one.add_argument("--artifact", type=Path, required=True)
        one.add_argument("--public-key", type=Path, required=True)
        one.add_argument("--seconds", type=float, default=600.0)
        one.add_argument("--out", type=Path, help="folder of the testbed; default: a throw-away")
        one.set_defaults(measure=measure)
    options = parser.parse_args()
    started_s = time.time()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as throw_away:
        met, figures = options.measure(options, Path(throw_away))
    result = {
        "bar": options.bar,
        "met": met,
        "figures": figures,
        "seconds": round(time.time() - started_s, 1),
        "load_average": {"before": load_before, "after": os.getloadavg()[0]},
    }
    text = json.dumps(result, indent=1)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"bridge_{options.bar}.json").write_text(text + "\n", encoding="utf-8")
    print(text)  # noqa: T201
    return 0 if met else 1


def sealed(options: argparse.Namespace, work: Path) -> tuple[bool, dict[str, Any]]:
    """Parity over 100,000 observations; every changed byte refused; verify within 2 s."""
    private, public = make_key_pair(work / "keys")
    figures: dict[str, Any] = {}
    met = True
    for run in options.run:
        folder = work / run
        command = [*GATEPILOT, "export", run, "-o", str(folder), "--runs", options.runs]
        subprocess.run([*command, "--key", str(private)], check=True)  # noqa: S603
        parity = json.loads((folder / "manifest.json").read_text())["parity"]
        refused, tried = _changed_bytes(folder, public)
        verify_s = [_verified_s(folder, public) for _ in range(7)]
        figures[run] = {
            "parity": parity,
            "changed_bytes": tried,
            "refused": refused,
            "verify_s": {"median": statistics.median(verify_s), "worst": max(verify_s)},
        }
        met &= parity["observations"] >= 100_000 and parity["ties"] == 0
        met &= refused == tried >= 200 and statistics.median(verify_s) <= VERIFY_LIMIT_S
    return met, figures


def _changed_bytes(folder: Path, public_key: Path) -> tuple[int, int]:
    """How many of the artifacts with one changed byte are refused."""
    rng = random.Random(0)  # noqa: S311  # which bytes, not a secret
    files = sorted(folder.iterdir())
    refused = 0
    for i in range(CHANGES):
        path = files[i % len(files)]
        content = path.read_bytes()
        place = rng.randrange(len(content))
        changed = bytearray(content)
        changed[place] ^= rng.randrange(1, 256)
        path.write_bytes(changed)
        try:
            load_artifact(folder, public_key=public_key, check_signature=verify_signature)
        except ArtifactError:
            refused += 1
        path.write_bytes(content)
    load_artifact(folder, public_key=public_key)  # whole again, it is taken
    return refused, CHANGES


def _verified_s(folder: Path, public_key: Path) -> float:
    started_s = time.perf_counter()
    command = [*BRIDGE, "verify", str(folder), "--public-key", str(public_key)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return time.perf_counter() - started_s


def shadow(options: argparse.Namespace, work: Path) -> tuple[bool, dict[str, Any]]:
    """Ten minutes of shadow: valid ticks, true figures, zero writes, replay, light."""
    folder = options.out or work / "testbed"
    with _testbed(folder, options, options.seconds + 30) as place:
        before = _gateway(place)
        with _bridge(place) as process:
            time.sleep(options.seconds)
            usage = _usage(process.pid, options.seconds)
            usage["status"] = _json([*BRIDGE, "status", "--json", "--config", place["bridge"]])
        after = _gateway(place)
    ticks = _ticks(folder)
    rows = list(csv.DictReader((folder / "requests.csv").open(encoding="utf-8")))
    valid = sum(not tick["doubts"] for tick in ticks) / len(ticks)
    truth = _compared(ticks, rows)
    replay = _replayed(folder)
    admin = (folder / "envoy" / "admin.log").read_text(encoding="utf-8").splitlines()
    mutating = [line for line in admin if not line.startswith("GET ")]
    p99_s = usage["status"].pop("decision_p99_s")
    usage = {k: v for k, v in usage.items() if k != "status"} | {"decision_p99_s": p99_s}
    figures = {
        "ticks": len(ticks),
        "valid": valid,
        "doubts": sorted({d["kind"] + " " + d["what"] for t in ticks for d in t["doubts"]}),
        "against_the_load_generator": truth,
        "configuration_unchanged": before == after,
        "admin_calls": len(admin),
        "mutating_admin_calls": len(mutating),
        "replay": replay,
        "light": usage,
    }
    met = {
        "valid": valid >= VALID_LIMIT,
        "true_figures": all(figure["met"] for figure in truth.values()),
        "zero_writes": before == after and not mutating,
        "replay": replay["identical"] and replay["flipped_byte_found"],
        "light": p99_s <= DECISION_LIMIT_S
        and usage["cpu_share"] <= CPU_LIMIT
        and usage["peak_rss_mib"] <= RSS_LIMIT_MIB,
    }
    return all(met.values()), {"met": met} | figures


def blind(options: argparse.Namespace, work: Path) -> tuple[bool, dict[str, Any]]:
    """Envoy, Prometheus, a replica killed in turn: FROZEN in time, re-armed only after K ticks."""
    folder = options.out or work / "testbed"
    victims = ("envoy", "prometheus", "llm-1")
    pause_s = DOWN_S + 2 * WINDOW_S
    kills: dict[str, float] = {}
    with _testbed(folder, options, WARMUP_S + len(victims) * pause_s + 30) as place, _bridge(place):
        time.sleep(WARMUP_S)
        for victim in victims:
            pid = json.loads((folder / "testbed.json").read_text())["pids"][victim]
            kills[victim] = time.time()
            os.kill(pid, signal.SIGKILL)
            time.sleep(pause_s)
    ticks = _ticks(folder)
    figures: dict[str, Any] = {}
    for victim, killed_s in kills.items():
        span = [t for t in ticks if killed_s < t["at_s"] <= killed_s + pause_s]
        frozen = next((t for t in span if t["mode"]["mode"] == "FROZEN"), None)
        rearmed = next(
            (t for t in span if frozen and t["at_s"] > frozen["at_s"] and _is_normal(t)), None
        )
        run = span[: span.index(rearmed) + 1] if rearmed else span
        good = sum(1 for _ in _tail_of_good(run))
        figures[victim] = {
            "frozen_after_s": None if frozen is None else frozen["at_s"] - killed_s,
            "reason": None if frozen is None else frozen["mode"]["reason"],
            "normal_again_after_s": None if rearmed is None else rearmed["at_s"] - killed_s,
            "good_ticks_before": good,
            "proposals_on_doubtful_ticks": sum(
                t["outcome"] == "would_apply" for t in span if t["doubts"]
            ),
            "proposals_on_blind_ticks": sum(
                t["proposal"] is not None for t in span if t["in_force"] is None
            ),
        }
    met = all(
        f["frozen_after_s"] is not None
        and f["frozen_after_s"] <= TICK_S + SCRAPE_S + 1.0  # a second for the reading itself
        and f["normal_again_after_s"] is not None
        and f["good_ticks_before"] >= GOOD_KS
        and f["proposals_on_doubtful_ticks"] == f["proposals_on_blind_ticks"] == 0
        for f in figures.values()
    )
    return met, figures


def _is_normal(tick: dict[str, Any]) -> bool:
    return bool(tick["mode"]["mode"] == "NORMAL")


def _tail_of_good(ticks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for tick in reversed(ticks):
        if tick["doubts"]:
            return
        yield tick


@contextmanager
def _testbed(folder: Path, options: argparse.Namespace, seconds: float) -> Iterator[dict[str, Any]]:
    """A testbed with four replicas under 20 requests/s, the artifact beside its bridge.yaml."""
    command = [*GATEPILOT, "testbed", "up", "--replicas", "4", "--rate", "20"]
    command += ["--seconds", str(seconds), "--restart-after", str(DOWN_S), "--out", str(folder)]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        description = folder / "testbed.json"
        _until(
            lambda: description.is_file() and "load" in json.loads(description.read_text())["pids"]
        )
        shutil.copytree(options.artifact, folder / "artifact", dirs_exist_ok=True)
        place = _described(description)
        shutil.copy(options.public_key, folder / PUBLIC_KEY_FILE)
        place["bridge"] = str(folder / "mine.yaml")
        text = Path(place["bridge"]).with_name("bridge.yaml").read_text(encoding="utf-8")
        lines = [
            f"public_key: {PUBLIC_KEY_FILE}" if line.startswith("public_key:") else line
            for line in text.splitlines()
        ]
        Path(place["bridge"]).write_text("\n".join(lines) + "\n", encoding="utf-8")
        time.sleep(WARMUP_S)  # until a window is full
        yield place
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()


@contextmanager
def _bridge(place: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*BRIDGE, "run", place["bridge"]])  # noqa: S603
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        if process.wait(30) != 0:
            sys.exit(f"the bridge ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()


def _described(path: Path) -> dict[str, Any]:
    """What the running testbed says of itself; nothing before it runs."""
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return content


def _until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end_s:
            sys.exit("the testbed did not start in time")
        time.sleep(0.2)


def _gateway(place: dict[str, Any]) -> dict[str, Any]:
    """Envoy's configuration: its files, its runtime and all that it says it runs with.

    /config_dump names its keys in another order each time, so it is compared as content. What it
    counts (when a secret or a host was last seen) is no configuration and stands in other pages.
    """
    folder = Path(place["bridge"]).parent / "envoy"
    files = {
        str(path.relative_to(folder)): path.read_bytes().hex()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".yaml", ".json", "")
    }
    pages = {}
    for page in ("/config_dump?include_eds", "/runtime?format=json"):
        with urllib.request.urlopen(place["urls"]["envoy_admin"] + page) as answer:  # noqa: S310
            pages[page] = json.loads(answer.read())
    return {"files": files, "pages": pages}


def _usage(pid: int, seconds: float) -> dict[str, Any]:
    """CPU share since its start and peak memory of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    peak_mib = int(status["VmHWM"].split()[0]) / 1024
    return {"cpu_share": cpu_s / seconds, "peak_rss_mib": round(peak_mib, 1)}


def _ticks(folder: Path) -> list[dict[str, Any]]:
    reader = LedgerReader(folder / "state" / "ledger.sqlite")
    return [record.content for record in reader.verified() if record.kind == "tick"]


def _compared(ticks: list[dict[str, Any]], rows: list[dict[str, str]]) -> dict[str, Any]:
    """The ledger's figures beside the load generator's own, over the same windows."""
    sent_s = np.array([float(row["sent_at_s"]) for row in rows])
    e2e_s = np.array([float(row["e2e_s"] or "nan") for row in rows])
    ttft_s = np.array([float(row["ttft_s"] or "nan") for row in rows])
    failed = np.array([row["status"] not in ("ok", "unfinished") for row in rows])
    found: dict[str, list[tuple[float, float]]] = {
        "request_rate_rps": [],
        "error_rate": [],
        "ttft_p95_s": [],
    }
    for tick in ticks:
        end_s = tick["at_s"] - LAG_S
        values = tick["values"]
        if tick["doubts"] or end_s - WINDOW_S < sent_s.min():
            continue
        within = _within(sent_s, end_s)
        ended = _within(sent_s + e2e_s, end_s)
        begun = _within(sent_s + ttft_s, end_s)
        mine = {
            "request_rate_rps": within.sum() / WINDOW_S,
            "error_rate": failed[ended].mean(),
            "ttft_p95_s": _p95(ttft_s[begun]),
        }
        for name, pairs in found.items():
            if name in values:
                pairs.append((float(values[name]), float(mine[name])))
    relative = {name: np.array(found[name]) for name in ("request_rate_rps", "ttft_p95_s")}
    errors = {name: np.abs(pairs[:, 0] / pairs[:, 1] - 1) for name, pairs in relative.items()}
    points = np.array(found["error_rate"])
    errors["error_rate"] = np.abs(points[:, 0] - points[:, 1])
    limits = {"request_rate_rps": 0.05, "error_rate": 0.005, "ttft_p95_s": 0.10}
    return {
        name: {
            "ticks": len(error),
            "median_error": float(np.median(error)),
            "p95_error": float(np.quantile(error, 0.95)),
            "worst_error": float(error.max()),
            "within": float((error <= limits[name]).mean()),
            "met": bool(np.quantile(error, 0.95) <= limits[name]),
        }
        for name, error in errors.items()
    }


def _within(at_s: NDArray[np.float64], end_s: float) -> NDArray[np.bool_]:
    return (at_s > end_s - WINDOW_S) & (at_s <= end_s)


def _p95(values: NDArray[np.float64]) -> float:
    """As `histogram_quantile` over vLLM's buckets has it."""
    places = np.searchsorted(TTFT_BOUNDS_S, values)
    counts = np.bincount(places, minlength=len(TTFT_BOUNDS_S) + 1).astype(np.float64)
    return float(histogram_quantile(0.95, TTFT_BOUNDS_S, counts, 1))


def _replayed(folder: Path) -> dict[str, Any]:
    """Replay in another process, then once more with one flipped byte."""
    ledger = folder / "state" / "ledger.sqlite"
    report = _json([*BRIDGE, "replay", str(ledger), "--json"])
    copy = folder / "flipped"
    shutil.copytree(ledger.parent, copy, ignore=shutil.ignore_patterns("*.sock"))
    with sqlite3.connect(copy / ledger.name) as connection:
        (count,) = connection.execute("SELECT MAX(seq) FROM record").fetchone()
        seq = count // 2
        (body,) = connection.execute("SELECT body FROM record WHERE seq = ?", (seq,)).fetchone()
        flipped = bytearray(body)
        flipped[len(flipped) // 2] ^= 1
        connection.execute("UPDATE record SET body = ? WHERE seq = ?", (bytes(flipped), seq))
    done = subprocess.run(  # noqa: S603
        [*BRIDGE, "replay", str(copy / ledger.name), "--json"], capture_output=True, check=False
    )
    found = json.loads(done.stdout)
    return {
        "ticks": report["ticks"],
        "identical": report["intact"] and report["identical"],
        "flipped_byte_found": done.returncode == 1 and found.get("seq") == seq,
    }


def _json(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    content: dict[str, Any] = json.loads(done.stdout)
    return content


if __name__ == "__main__":
    sys.exit(main())
