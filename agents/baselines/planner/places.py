"""Where gateways stand: what of the planner differs between sites, as arrays.

A batch may mix gateways of several sites. Each one's numbers are gathered by the index of its site,
so that one call plans for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..look_back import whole_ticks
from ..site import Site
from .forecast import Horizon
from .params import PlannerParams
from .state import Counts
from .table import Table, table_of

SHARED: Final = ("tick_s", "window_s", "slo")
"""What sites of one planner have in common: its rhythm, and the promise, which is part of who it is
(`PlannerAdvisor.identity`)."""
_PATIENCE: Final = 2.0
"""Cold starts after which a replica that has not come is taken for lost."""


@dataclass(frozen=True, slots=True)
class Places:
    """One entry a site; after `at`, one a gateway."""

    least: Counts
    """`(k,)`: fewest replicas that are planned for."""
    most: Counts
    """`(k,)`: most replicas there may be."""
    horizon: Horizon
    """One cold start ahead."""
    patience_ticks: Counts
    """`(k,)`: ticks after which a replica that has not come is lost; no fewer than a window's."""
    params: Table
    """`(k,)`: how careful the planner is."""

    @classmethod
    def of(cls, sites: Sequence[Site], params: Sequence[PlannerParams]) -> Places:
        """The numbers of each site.

        Args:
            sites: Alike in all of `SHARED` (`check_alike`).
            params: How careful the planner is at each.

        Raises:
            SiteError: What a replica can do is not known.
        """
        tick_s, window_s = sites[0].tick_s, sites[0].window_s
        cold_starts_s = [site.known_replica("planner").cold_start_s for site in sites]
        # What is seen lies half a window back.
        ahead = [whole_ticks(cold_s + window_s / 2, tick_s) for cold_s in cold_starts_s]
        patience = [whole_ticks(_PATIENCE * cold_s, tick_s) + 1 for cold_s in cold_starts_s]
        return cls(
            least=np.array(
                [
                    site.limits.clip(one.floor_replicas)
                    for site, one in zip(sites, params, strict=True)
                ]
            ),
            most=np.array([site.limits.max_replicas for site in sites]),
            horizon=Horizon.of([one.forecast for one in params], ahead),
            patience_ticks=np.maximum(patience, whole_ticks(window_s, tick_s)),
            params=table_of(params),
        )

    def at(self, which: Counts) -> Places:
        """Those of gateways that stand at these, `(n,)` indices."""
        return Places(
            self.least[which],
            self.most[which],
            self.horizon.at(which),
            self.patience_ticks[which],
            self.params[which],
        )


def check_alike(sites: Sequence[Site]) -> None:
    """Refuses sites that no single planner can plan for.

    Raises:
        ValueError: There is none, or two differ in one of `SHARED`: it names what and which.
    """
    if not sites:
        msg = "sites: none given, expected one or more"
        raise ValueError(msg)
    for name in SHARED:
        first = getattr(sites[0], name)
        for number, site in enumerate(sites[1:], start=1):
            if getattr(site, name) != first:
                msg = (
                    f"sites: {name} is {getattr(site, name)} at site {number} and {first} at site "
                    "0, expected the same at all"
                )
                raise ValueError(msg)


def known(places: Counts, sites: Sequence[Site]) -> Counts:
    """The places, `(k,)`.

    Raises:
        ValueError: One is no index of the sites: it names it.
    """
    odd = places[(places < 0) | (places >= len(sites))]
    if len(odd):
        msg = f"place {odd[0]}: expected 0-{len(sites) - 1}, an index of the sites"
        raise ValueError(msg)
    return places
