"""What all tests share. It must import with the base install alone."""

import os
import sys
from pathlib import Path

import pytest

# Imported before pytest meets the root's `__init__.py`: in a checkout that is itself called
# `gatepilot`, pytest would otherwise register that file as the package.
import gatepilot

# MLflow is only used here against local files.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


def package_folder() -> Path:
    """The folder that `import gatepilot` comes from."""
    return Path(str(gatepilot.__file__)).resolve().parent


def pytest_configure() -> None:
    """Refuse to test the checkout where an installed package is what should be tested."""
    wants_installed = os.environ.get("GATEPILOT_INSTALLED") == "1"
    if wants_installed and "site-packages" not in package_folder().parts:
        raise pytest.UsageError(f"gatepilot should be the installed one, it is {package_folder()}")


def pytest_report_header() -> str:
    """Say which gatepilot is tested."""
    return f"gatepilot: {package_folder()}"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the engine before the first test starts its clock, if a collected test imported it.

    The first time on a machine takes about a minute. The base install has no engine.
    """
    if not session.items or session.config.option.collectonly:
        return
    engine = sys.modules.get("gatepilot.envs.sim.engine")
    if engine is not None:
        engine.compile_engine()
    closed_loop = sys.modules.get("gatepilot.envs.sim.closed_loop")
    if closed_loop is not None:
        closed_loop.compile_closed_loop()


@pytest.fixture(scope="session")
def traces_dir() -> Path:
    """The folder of the request traces, which are no part of the project."""
    folder = os.environ.get("GATEPILOT_TRACES")
    if not folder:
        pytest.skip("GATEPILOT_TRACES is not set: the traces are not part of the project")
    if not Path(folder).is_dir():
        pytest.fail(f"GATEPILOT_TRACES is not a folder: {folder}")
    return Path(folder)
