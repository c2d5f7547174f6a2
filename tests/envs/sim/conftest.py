"""The engine is compiled before the first test starts its clock."""

import pytest

from gatepilot.envs.sim.engine import compile_engine


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compiles (about a minute, the first time) unless nothing will run."""
    if session.items and not session.config.option.collectonly:
        compile_engine()
