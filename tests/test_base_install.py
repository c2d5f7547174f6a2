"""The base install is the bridge: its modules import without anything that trains or simulates."""

import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

# The packages and modules that must work with the base install. The tests that go with them
# are BASE_TESTS in the Makefile.
BASE_PACKAGES = (
    "gatepilot.envs.schema",
    "gatepilot.reward",
    "gatepilot.agents.baselines",
    "gatepilot.deploy_bridge",
)
BASE_MODULES = (
    "gatepilot.envs.advisor",
    "gatepilot.envs.reward_fn",
    "gatepilot.agents.policy",
    "gatepilot.agents.artifact.runtime",
    "gatepilot.agents.artifact.signing",
)
TRAIN_ONLY = ("torch", "stable_baselines3", "gymnasium", "numba", "mlflow")

# None in sys.modules makes an import fail as if the distribution were missing.
IMPORT_WITHOUT = """
import importlib, sys
hidden, wanted = sys.argv[1].split(","), sys.argv[2].split(",")
sys.modules.update(dict.fromkeys(hidden))
for name in wanted:
    importlib.import_module(name)
"""


def base_modules() -> list[str]:
    inside = [
        module.name
        for package in BASE_PACKAGES
        for module in pkgutil.walk_packages(
            importlib.import_module(package).__path__, prefix=f"{package}."
        )
        if not module.name.endswith("__main__")
    ]
    return [*BASE_PACKAGES, *BASE_MODULES, *inside]


@pytest.mark.timeout(60)
def test_base_modules_import_without_the_training_libraries() -> None:
    command = [sys.executable, "-c", IMPORT_WITHOUT, ",".join(TRAIN_ONLY), ",".join(base_modules())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.environ.get("GATEPILOT_BASE") != "1", reason="only in the base install")
def test_training_libraries_are_absent() -> None:
    assert [name for name in TRAIN_ONLY if importlib.util.find_spec(name)] == []


@pytest.mark.skipif(os.environ.get("GATEPILOT_BASE") != "1", reason="only in the base install")
def test_command_says_in_one_line_what_is_missing() -> None:
    script = Path(sys.executable).parent / "gatepilot"
    done = subprocess.run([str(script), "demo"], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "train" in done.stderr
