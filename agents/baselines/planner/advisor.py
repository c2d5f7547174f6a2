"""The analytical planner as an advisor: what it sees and wants, as entries of an observation.

A policy is bound to the advisor it was trained with: its version and parameters, and the promise
it plans for, are part of the contract. What is a fact of the place (replicas, limits, cold start)
is told to it anew wherever it advises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ....envs.advisor import Advisor
from ....envs.schema.advice import ADVICE_ENTRIES, Advice
from ....envs.schema.fields import FIELD_INDEX, Rows
from ....envs.schema.settings import THRESHOLD_STEP
from ....reward.slo import Slo
from ..site import Site
from .breaker import BreakerParams
from .forecast import ForecastParams
from .params import PlannerParams
from .planner import Planner

NAME: Final = "planner"
VERSION: Final = 1
"""Raised whenever the same rows, parameters and place lead to other advice: policies that were
trained with the old one are then refused."""


class PlannerAdvisor:
    """Advises n gateways."""

    def __init__(
        self, sites: Sequence[Site], params: PlannerParams | Sequence[PlannerParams], n: int = 1
    ) -> None:
        """Starts with nothing seen.

        Args:
            sites: Where gateways stand (`begin` says who where): one or more, alike in tick, window
                and promise.
            params: How careful the planner is: at each site, or everywhere.
            n: Gateways.

        Raises:
            ValueError: No site, two that differ in what must be alike, or not as many parameters
                as sites.
            SiteError: What a replica can do is not known.
        """
        self.planner = Planner(sites, params, n)

    @property
    def identity(self) -> dict[str, Any]:
        """Name, version, parameters and promise, as JSON content.

        Where the planner is not equally careful at all sites, it is another advisor at each:
        `params` then lists them.
        """
        first, *others = (_identity(params, self.planner.slo) for params in self.planner.params)
        if all(other == first for other in others):
            return first
        return first | {"params": [one["params"] for one in (first, *others)]}

    def begin(
        self, which: NDArray[np.int64], rows: Rows, places: NDArray[np.int64] | None = None
    ) -> Advice:
        """Forgets some gateways and advises on their first rows, `(k, F)` to `(k, A)`.

        Raises:
            ValueError: A place is none of the sites: it names it; or there are more or fewer of
                them than gateways.
        """
        places = np.zeros(len(which), np.int64) if places is None else places
        if len(places) != len(which):
            msg = f"{len(places)} places for {len(which)} gateways"
            raise ValueError(msg)
        fresh = self.planner.fresh(places)
        advice = _advice(fresh, rows)
        self.planner.copy_rows(np.arange(len(which)), which, fresh)
        return advice

    def advise(self, rows: Rows) -> Advice:
        """Takes in the next row of every gateway, `(n, F)` to `(n, A)`."""
        return _advice(self.planner, rows)

    def copy_rows(
        self,
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        origin: Advisor | None = None,
    ) -> None:
        """Makes gateway `targets[k]` what gateway `sources[k]` is, `(k,)` each.

        Raises:
            ValueError: `origin` is another advisor or of other sites.
        """
        if origin is None:
            origin = self
        if (
            not isinstance(origin, PlannerAdvisor)
            or origin.planner.params != self.planner.params
            or origin.planner.sites != self.planner.sites
        ):
            raise ValueError("origin: another advisor, or one of other sites")
        self.planner.copy_rows(sources, targets, origin.planner)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return self.planner.saved()

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one of as many gateways remembered."""
        self.planner.restore(saved)


def site_advisor(
    sites: Sequence[Site], n: int, params: PlannerParams | Sequence[PlannerParams] | None
) -> PlannerAdvisor | None:
    """The advisor of n gateways of these sites; `None`: no advice is asked for.

    Raises:
        ValueError: No site, two that differ in what must be alike, or not as many parameters as
            sites.
        SiteError: What a replica can do is not known.
    """
    return None if params is None else PlannerAdvisor(sites, params, n)


def advisor_identity(
    params: PlannerParams | None,
    slo: Slo = Slo(),  # noqa: B008  # frozen
) -> dict[str, Any] | None:
    """What must be equal between training and operation (`Contract.advisor`).

    Args:
        params: How careful the planner is; `None`: no advice is asked for.
        slo: What was promised to users.
    """
    return None if params is None else _identity(params, slo)


def identified(identity: Mapping[str, Any]) -> PlannerParams:
    """The parameters behind a recorded identity.

    Raises:
        ValueError: This version of the code has no such advisor: one line.
    """
    given = f"advisor {identity.get('name')} {identity.get('version')}"
    try:
        params = dict(identity["params"])
        parts = {
            "forecast": ForecastParams(**params["forecast"]),
            "breaker": BreakerParams(**params["breaker"]),
        }
        made = PlannerParams(**params | parts)
        is_same = _identity(made, Slo()) == dict(identity)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{given} has other parameters than {NAME} {VERSION}") from error
    if not is_same:
        raise ValueError(f"{given}: this version of gatepilot has {NAME} {VERSION}")
    return made


def _identity(params: PlannerParams, slo: Slo) -> dict[str, Any]:
    return {"name": NAME, "version": VERSION, "params": asdict(params), "slo": asdict(slo)}


def _advice(planner: Planner, rows: Rows) -> Advice:
    """What a planner makes of the next rows, in the order of `ADVICE_ENTRIES`."""
    plan = planner.see(rows)
    requested = rows[:, FIELD_INDEX["replicas_requested"]]
    in_force = rows[:, FIELD_INDEX["breaker_threshold"]]
    wanted = plan.threshold_steps * THRESHOLD_STEP
    columns = {
        "prefill_work": plan.prefill_work,
        "decode_work": plan.decode_work,
        "work_peak": plan.work_peak,
        "work_mean": plan.work_mean,
        "replicas_wanted": plan.replicas,
        "replicas_needed": np.where(np.isnan(plan.prefill_work), np.nan, plan.need),
        "replicas_gap": plan.replicas - requested,
        "threshold_gap": np.where(np.isnan(plan.threshold_steps), 0.0, wanted - in_force),
    }
    return np.column_stack([columns[entry.name] for entry in ADVICE_ENTRIES])
