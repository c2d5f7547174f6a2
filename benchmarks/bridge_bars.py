"""Bars of the bridge on the testbed: ten minutes of shadow, and what blindness does.

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
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bar_file import Measured, run_bar
from ledger_truth import WINDOW_S, compared
from live import BRIDGE, DOWN_S, SCRAPE_S, WARMUP_S, running_bridge, running_testbed
from numpy.typing import NDArray

from gatepilot.deploy_bridge.audit.reader import LedgerReader

TICK_S = 5.0
VALID_LIMIT = 0.99
DECISION_LIMIT_S, CPU_LIMIT, RSS_LIMIT_MIB = 0.005, 0.03, 150
GOOD_KS = 3
BROWN_OUT = "errors=0.15@240-360"
"""All replicas err for two minutes, so that there is an error rate to be right about: about 2 % of
the answers, after a retry each."""


def main() -> int:
    """Runs one bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bars = parser.add_subparsers(dest="bar", required=True)
    for measure in (shadow, blind):
        one = bars.add_parser(measure.__name__, help=measure.__doc__)
        one.add_argument("--artifact", type=Path, required=True)
        one.add_argument("--public-key", type=Path, required=True)
        one.add_argument("--seconds", type=float, default=600.0)
        one.add_argument("--out", type=Path, help="folder of the testbed; default: a throw-away")
        one.set_defaults(measure=measure)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as throw_away:
        measure = partial(options.measure, options, Path(throw_away))
        return run_bar(options.bar, f"bridge_{options.bar}.json", measure)


def shadow(options: argparse.Namespace, work: Path) -> Measured:
    """Ten minutes of shadow: valid ticks, true figures, zero writes, replay, light."""
    folder = options.out or work / "testbed"
    faults = [f"{replica}:{BROWN_OUT}" for replica in range(4)]
    with running_testbed(folder, options, options.seconds, faults) as place:
        before = _gateway(place)
        with running_bridge(place) as process:
            time.sleep(options.seconds)
            usage = _usage(process.pid, options.seconds)
            usage["status"] = _json([*BRIDGE, "status", "--json", "--config", place["bridge"]])
        after = _gateway(place)
        scrapes = _scrapes(place)
    ticks = _ticks(folder)
    rows = list(csv.DictReader((folder / "requests.csv").open(encoding="utf-8")))
    valid = sum(not tick["doubts"] for tick in ticks) / len(ticks)
    truth = compared(ticks, rows, scrapes)
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


def blind(options: argparse.Namespace, work: Path) -> Measured:
    """Envoy, Prometheus, a replica killed in turn: FROZEN in time, re-armed only after K ticks."""
    folder = options.out or work / "testbed"
    victims = ("envoy", "prometheus", "llm-1")
    pause_s = DOWN_S + 2 * WINDOW_S
    kills: dict[str, float] = {}
    with (
        running_testbed(folder, options, WARMUP_S + len(victims) * pause_s) as place,
        running_bridge(place),
    ):
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


def _scrapes(place: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """When Prometheus scraped Envoy and each replica."""
    query = urllib.parse.urlencode({"query": "up[1h]"})
    address = f"{place['urls']['prometheus']}/api/v1/query?{query}"
    with urllib.request.urlopen(address) as answer:  # noqa: S310
        series = json.loads(answer.read())["data"]["result"]
    names = {url.removeprefix("http://"): name for name, url in place["urls"].items()}
    names[place["urls"]["envoy_admin"].removeprefix("http://")] = "envoy"
    return {
        names[one["metric"]["instance"]]: np.array([float(at) for at, _ in one["values"]])
        for one in series
        if names[one["metric"]["instance"]] != "cluster_metrics"
    }


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
