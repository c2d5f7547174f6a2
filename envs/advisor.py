"""What an environment asks of an advisor. Advisors themselves live in `agents` and are injected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .schema.advice import Advice
from .schema.fields import Rows


class Advisor(Protocol):
    """A rule that tells a policy what it makes of each of n gateways, tick by tick.

    It sees what the policy sees, the scraped rows, and remembers what it needs. The simulator and
    the live bridge ask the same one. It is made with one or more sites, and a gateway's place is
    the index of the one where it stands.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """Name, version and parameters as plain data: part of the contract (`Contract.advisor`).

        Two advisors of one identity give the same advice for the same rows at the same place. What
        is a fact of the place (replicas, limits) is no part of it.
        """
        ...

    def begin(
        self, which: NDArray[np.int64], rows: Rows, places: NDArray[np.int64] | None = None
    ) -> Advice:
        """Forgets some gateways, whose episodes begin, and takes in their first rows.

        Args:
            which: Which gateways, `(k,)`.
            rows: Their scraped rows `(k, F)`; NaN is missing.
            places: Where each stands from now on, `(k,)`: index of the sites that the advisor was
                made with; `None`: all at the first.

        Returns:
            Their advice `(k, A)`, see `envs.schema.advice`; NaN is unknown.

        Raises:
            ValueError: A place is none of the sites.
        """
        ...

    def advise(self, rows: Rows) -> Advice:
        """Takes in the next row of every gateway.

        Args:
            rows: Scraped rows `(n, F)`; NaN is missing.

        Returns:
            Advice `(n, A)`.
        """
        ...

    def copy_rows(
        self,
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        origin: Advisor | None = None,
    ) -> None:
        """Makes gateway `targets[k]` what gateway `sources[k]` is, place and all, `(k,)` each.

        Args:
            sources: Which gateways are copied.
            targets: Over which they are laid.
            origin: Whose gateways the sources are; `None`: this advisor's.

        Raises:
            ValueError: `origin` is another advisor or works at other sites.
        """
        ...
