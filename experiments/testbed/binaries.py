"""Where the real programs are, and which ports are free."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from .errors import LaunchError

LOOPBACK: Final = "127.0.0.1"
"""Nothing of a testbed is reachable from outside."""

_HOW_TO_GET: Final = {
    "envoy": "install gatepilot with its extra, gatepilot[testbed]",
    "prometheus": "on Debian `make prometheus`, or install its package",
}


def find_binary(name: str) -> Path:
    """Looks for a program beside this Python, then on the PATH.

    Args:
        name: `envoy` or `prometheus`.

    Raises:
        LaunchError: It is nowhere: the message says how to get it.
    """
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=os.pathsep.join([str(beside), os.environ.get("PATH", "")]))
    if found is None:
        msg = f"{name} is neither beside {sys.executable} nor on the PATH: {_HOW_TO_GET[name]}"
        raise LaunchError(msg)
    return Path(found).absolute()


def free_ports(n: int) -> list[int]:
    """So many different TCP ports of the loopback address that nothing listens on now."""
    with ExitStack() as stack:
        ports = []
        for _ in range(n):
            listener = stack.enter_context(socket.socket())
            listener.bind((LOOPBACK, 0))
            ports.append(int(listener.getsockname()[1]))
        return ports
