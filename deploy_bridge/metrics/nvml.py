"""Share of accelerator memory in use on this machine, through NVIDIA's NVML.

No driver, no device, or one that cannot say (as with partitions, MIG): missing, never 0.
"""

from __future__ import annotations

import threading
from typing import Final

import pynvml

from .deadline import Deadline, LateError
from .report import ProbeEntry, ProbeState
from .source import Reading, Sample

NAME: Final = "nvml"
FIELD: Final = "vram_utilization"
_QUERY: Final = "max over devices of used / (used + free), nvmlDeviceGetMemoryInfo v2"
_DEADLINE_S: Final = 0.5
"""A device in trouble may keep a call for long."""


class NvmlSource:
    """Reads `vram_utilization` of the fullest device, reserved memory left out, as DCGM does.

    It is a measure of another thing than the share that the catalogue computes from the KV cache:
    engines preallocate. Use it only for a policy that was trained on such values.
    """

    def __init__(self) -> None:
        self._deadline = Deadline(NAME, _DEADLINE_S)
        self._is_open = False

    def read(self, now_s: float) -> Reading:
        """Reads the share, or nothing. Missing is no problem here: no critical field depends."""
        share, _ = self._try()
        return Reading({} if share is None else {FIELD: share}, (), (Sample(FIELD, _QUERY, share),))

    def probe(self, now_s: float) -> tuple[ProbeEntry, ...]:
        """The same, as a line of the start-up report."""
        share, why = self._try()
        state: ProbeState = "missing" if share is None else "ok"
        return (ProbeEntry(NAME, FIELD, state, False, _QUERY, share, why),)

    def _try(self) -> tuple[float | None, str]:
        try:
            return self._deadline.run(self._fullest)
        except LateError as error:
            return None, str(error)
        except pynvml.NVMLError as error:
            self._is_open = False  # a driver may come, or come back
            return None, str(error)

    def _fullest(self, _: threading.Event) -> tuple[float | None, str]:
        if not self._is_open:
            pynvml.nvmlInit()
            self._is_open = True
        shares = [_share(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return (max(shares), "") if shares else (None, "no device")


def _share(index: int) -> float:
    """The second version of the call keeps what the driver reserves out of `used`."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    total = int(memory.used) + int(memory.free)
    if total <= 0:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return int(memory.used) / total
