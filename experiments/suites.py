"""Lists of scenarios by name."""

from __future__ import annotations

from typing import Final

SUITES: Final[dict[str, tuple[str, ...]]] = {
    "core": ("tenants70b", "tenants70b_faults", "azure70b", "demo", "testbed"),
}
"""Suite to shipped scenarios. `core`: all of them."""


class SuiteError(ValueError):
    """An unknown suite: one line."""


def suite(name: str) -> tuple[str, ...]:
    """The scenarios of a suite.

    Raises:
        SuiteError: There is no such suite.
    """
    if name not in SUITES:
        msg = f"unknown suite {name!r}: expected one of {', '.join(SUITES)}"
        raise SuiteError(msg)
    return SUITES[name]
