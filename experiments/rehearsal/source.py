"""The simulated gateway as a source of readings: what a scrape shows, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...deploy_bridge.metrics.source import Reading, Sample
from ...envs.batch import GatewayBatch
from ...envs.schema.fields import FIELDS
from .clock import START_S
from .faults import TelemetryFault


@dataclass(frozen=True)
class SimulatedSource:
    """Reads the scraped row of a batch of one; never the plant's own truth."""

    batch: GatewayBatch
    faults: Sequence[TelemetryFault] = ()
    """Applied one after the other."""

    def read(self, now_s: float) -> Reading:
        """What is seen now.

        Args:
            now_s: The tick's virtual wall time.
        """
        row = self.batch.seen[0]
        values = {
            field.name: float(value)
            for field, value in zip(FIELDS, row, strict=True)
            if np.isfinite(value)
        }
        name = self.batch.scenario.name
        samples = tuple(
            Sample(field.name, f"simulated({name}).{field.name}", values.get(field.name))
            for field in FIELDS
        )
        reading = Reading(values, samples=samples)
        tick = round((now_s - START_S) / self.batch.tick_s)
        for fault in self.faults:
            reading = fault.applied(tick, reading)
        return reading
