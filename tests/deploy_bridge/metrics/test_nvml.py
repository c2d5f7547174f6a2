"""Memory of accelerators: what cannot be known is missing, never 0, and nothing is raised."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pynvml
import pytest

from gatepilot.deploy_bridge.metrics.nvml import NvmlSource

from .asking import NEVER_S

NOW = 1_700_000_000.0


def test_this_machine() -> None:
    """Whatever is or is not here: a share, or nothing."""
    reading = NvmlSource().read(NOW)
    assert reading.problems == ()
    assert all(0.0 <= value <= 1.0 for value in reading.values.values())


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A driver with these devices: each memory as (used, free, reserved) in GiB, or an error."""
    there: list[object] = []

    def memory(handle: int, version: int) -> SimpleNamespace:
        assert version == pynvml.nvmlMemory_v2
        found = there[handle]
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, tuple)
        used, free, reserved = found
        return SimpleNamespace(
            used=used, free=free, reserved=reserved, total=used + free + reserved
        )

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: len(there))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", memory)
    return there


def test_the_fullest_device_without_what_the_driver_reserves(devices: list[object]) -> None:
    devices += [(20, 60, 10), (60, 20, 10)]
    assert dict(NvmlSource().read(NOW).values) == {"vram_utilization": 0.75}


@pytest.mark.parametrize(
    "error",
    [
        pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED),  # partitions (MIG)
        pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND),  # an old driver
        pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST),
        pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN),
    ],
    ids=lambda error: type(error).__name__,
)
def test_one_device_that_cannot_say_leaves_all_unknown(
    devices: list[object], error: Exception
) -> None:
    devices += [(20, 60, 10), error]
    source = NvmlSource()
    reading = source.read(NOW)
    assert (reading.values, reading.problems) == ({}, ())
    assert reading.samples[0].value is None
    entry = source.probe(NOW)[0]
    assert (entry.state, entry.value, entry.is_critical) == ("missing", None, False)
    assert entry.hint


@pytest.mark.parametrize("there", [[], [(0, 0, 0)]])
def test_no_device_and_one_without_memory(devices: list[object], there: list[object]) -> None:
    devices += there
    assert NvmlSource().read(NOW).values == {}


def test_a_call_that_hangs_is_left_in_time(
    devices: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: end.wait() and 0)
    begun = time.monotonic()
    assert NvmlSource().read(NOW).values == {}
    assert time.monotonic() - begun < NEVER_S
    end.set()


def test_a_driver_that_comes_later_is_found(
    devices: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices.append((1, 3, 0))
    source = NvmlSource()
    with monkeypatch.context() as context:
        context.setattr(pynvml, "nvmlInit", absent)
        assert source.read(NOW).values == {}
    assert dict(source.read(NOW).values) == {"vram_utilization": 0.25}


def absent() -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
