"""The files in a run's folder that say what it is. They are enough to use its policy elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ..agents.baselines.planner.advisor import advisor_identity
from ..agents.config import ConfigError, TrainingConfig, parse_config
from ..envs.scenario import Scenario, parse_scenarios
from ..envs.scenario_file import ScenarioError, read_yaml
from ..envs.schema.fingerprint import Contract
from .config import to_yaml
from .files import writing
from .provenance import Provenance

REPORT_FILE: Final = "report.html"
"""A run's own page, written at its end."""
CONFIG_FILE: Final = "config.yaml"
SCENARIOS_FILE: Final = "scenarios.yaml"
CONTRACT_FILE: Final = "contract.json"
PROVENANCE_FILE: Final = "provenance.json"


class RunError(ValueError):
    """A run that cannot be found, opened or used: one line."""


@dataclass(frozen=True)
class RunFiles:
    """The folder of one run."""

    run_id: str
    folder: Path

    def write(
        self,
        config: TrainingConfig,
        scenarios: Sequence[Scenario],
        contract: Contract,
        provenance: Provenance,
    ) -> None:
        """Makes the folder and writes down what the run is.

        Args:
            config: What is trained.
            scenarios: On what.
            contract: Under which contract.
            provenance: By which code and command.

        Raises:
            OutputError: The folder cannot be made or written.
        """
        with writing(self.folder):
            self.folder.mkdir(parents=True)
            identity = contract.as_dict() | {"fingerprint": contract.fingerprint}
            for name, text in {
                CONFIG_FILE: to_yaml(config),
                SCENARIOS_FILE: to_yaml(scenarios),
                CONTRACT_FILE: json.dumps(identity, indent=1),
                PROVENANCE_FILE: json.dumps(asdict(provenance), indent=1),
            }.items():
                (self.folder / name).write_text(text, encoding="utf-8")

    def config(self) -> TrainingConfig:
        """The configuration the run was started with.

        Raises:
            RunError: Its file is missing or damaged.
        """
        path = self.folder / CONFIG_FILE
        try:
            return parse_config(read_yaml(path), where=path.name)
        except (ScenarioError, ConfigError) as error:
            raise RunError(f"run {self.run_id}: {error}") from error

    def scenarios_text(self) -> str:
        """The scenarios the run was started on, as a list in YAML.

        Raises:
            RunError: Its file is missing.
        """
        return self._text(SCENARIOS_FILE)

    def scenarios(self) -> tuple[Scenario, ...]:
        """The scenarios the run was started on.

        Raises:
            RunError: Their file is missing or damaged.
        """
        try:
            content = read_yaml(self.folder / SCENARIOS_FILE)
            return parse_scenarios(content, where=SCENARIOS_FILE)
        except ScenarioError as error:
            raise RunError(f"run {self.run_id}: {error}") from error

    def contract(self) -> Contract:
        """The contract the run's policy was trained under.

        Raises:
            RunError: Its file is missing or damaged, or this version of the code observes or acts
                otherwise.
        """
        try:
            content: dict[str, Any] = json.loads(self._text(CONTRACT_FILE))
            recorded = str(content["fingerprint"])
            config = self.config()
            contract = Contract(
                observation=config.observation_spec,
                control_interval_s=content["control_interval_s"],
                window_s=content["window_s"],
                minimum_samples=content["minimum_samples"],
                advisor=advisor_identity(config.general_advisor),
            )
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise RunError(f"run {self.run_id}: {CONTRACT_FILE} is damaged") from error
        if contract.fingerprint != recorded:
            raise RunError(
                f"run {self.run_id}: trained under contract {recorded[:12]}, but this version of "
                f"gatepilot has {contract.fingerprint[:12]}: train it again"
            )
        return contract

    def provenance(self) -> Provenance:
        """By which code and command the run was started.

        Raises:
            RunError: Its file is missing or damaged.
        """
        text = self._text(PROVENANCE_FILE)
        try:
            return Provenance(**json.loads(text))
        except (json.JSONDecodeError, TypeError) as error:
            raise RunError(f"run {self.run_id}: {PROVENANCE_FILE} is damaged") from error

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except OSError as error:
            raise RunError(
                f"run {self.run_id}: {name} cannot be read ({error.strerror})"
            ) from error
