"""Runs a command that the kernel kills when its parent dies, however that dies.

    python tied.py PARENT_PID COMMAND [ARGUMENT ...]

The death signal survives `exec`, so the command keeps it and keeps the process id. A file of its
own that imports nothing of the project: it runs once for each part, in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""`prctl` option of Linux (`linux/prctl.h`)."""
_NICENESS = -10
"""Parts emulate in real time and use little: what else runs here should not look like latency."""


def main() -> None:
    """Ties this process to its parent and becomes the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    with contextlib.suppress(PermissionError):  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    if os.getppid() != parent:  # it died before the signal was asked for
        sys.exit("the parent is gone")
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
