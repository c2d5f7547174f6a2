"""`gatepilot-bridge run`: the control loop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from types import FrameType
from typing import Annotated, Final

import typer

from ..settings import load_settings
from ..wiring import Bridge, Head, make_head
from .where import ConfigFile

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LOG = logging.getLogger("gatepilot.bridge")


def run(
    config: ConfigFile,
    ticks: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many ticks; default: never.")
    ] = None,
) -> None:
    """Run the control loop in shadow: it decides and records, and changes nothing.

    It starts FROZEN and trusts what it sees after some good ticks. Sources that do not answer are
    asked again every tick. SIGTERM or Ctrl-C ends it after the tick under way.

    Example: gatepilot-bridge run bridge.yaml
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    stop = threading.Event()
    received: list[str] = []

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(signal.Signals(number).name)
        stop.set()

    head = make_head(load_settings(config), config.name)
    bridge = Bridge(head)
    before = {number: signal.signal(number, ask_to_stop) for number in _STOP_SIGNALS}
    ended = "done"
    try:
        bridge.start()
        _report(head)
        if bridge.address is not None:
            _LOG.info("pages at %s", bridge.address)
        bridge.loop.run(stop, ticks=ticks)
        ended = received[0] if received else ended
    except Exception as error:
        ended = f"{type(error).__name__}: {error}"
        raise
    finally:
        bridge.close(ended)
        for number, handler in before.items():
            signal.signal(number, handler)
    _LOG.info("stopped: %s", ended)


def _report(head: Head) -> None:
    """Says who runs and what the sources bring.

    Raises:
        AmbiguousDataError: Several series where one is expected.
    """
    signed = "signed" if head.policy.is_signed else "UNSIGNED"
    _LOG.info("artifact %s (%s), lifecycle SHADOW", head.policy.digest[:12], signed)
    for remark in head.remarks:
        _LOG.warning(remark)
    report = head.collector.probe(time.time())
    report.refuse_wrong()
    for entry in report.entries:
        if entry.state != "ok":
            level = logging.WARNING if entry.is_critical else logging.INFO
            hint = f": {entry.hint}" if entry.hint else ""
            _LOG.log(level, "%s is %s%s", entry.name, entry.state, hint)
