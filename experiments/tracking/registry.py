"""MLflow's registry: versions of named models, and aliases that point to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlflow import MlflowClient, artifacts
from mlflow.entities.model_registry import ModelVersion as Registered
from mlflow.exceptions import MlflowException

from ..run_files import RunError
from .wording import first_line


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a registered model."""

    name: str
    number: int
    run_id: str
    tags: dict[str, str]


class Registry:
    """Names, versions and aliases. An alias is set over: nobody is asked, nothing is remembered."""

    def __init__(self, uri: str) -> None:
        """Opens it.

        Args:
            uri: MLflow's.
        """
        self.uri = uri
        self._client = MlflowClient(tracking_uri=uri, registry_uri=uri)

    def register(
        self, name: str, source: Path, *, run_id: str, tags: dict[str, str], alias: str | None
    ) -> ModelVersion:
        """Makes a new version of a model, and the model if need be.

        Args:
            name: The model's name.
            source: The version's files.
            run_id: Where they come from.
            tags: What is said about the version.
            alias: Points to this version from now on; `None`: none does.

        Raises:
            RunError: MLflow refuses it.
        """
        try:
            if not self._client.search_registered_models(filter_string=f"name = '{name}'"):
                self._client.create_registered_model(name)
            made = self._client.create_model_version(
                name, source=str(source.resolve()), run_id=run_id, tags=tags
            )
            if alias is not None:
                self._client.set_registered_model_alias(name, alias, str(made.version))
        except MlflowException as error:
            raise RunError(f"MLflow: {first_line(error)}") from error
        return ModelVersion(name, int(made.version), run_id, tags)

    def numbered(self, name: str, version: str) -> ModelVersion:
        """A version by its number.

        Raises:
            RunError: There is no such model or version.
        """
        try:
            found = self._client.get_model_version(name, version)
        except MlflowException as error:
            raise RunError(f"{name}/{version}: {first_line(error)}") from error
        return _version(name, found)

    def pointed(self, name: str, alias: str) -> ModelVersion:
        """The version that an alias points to now.

        Raises:
            RunError: There is no such model or alias.
        """
        try:
            found = self._client.get_model_version_by_alias(name, alias)
        except MlflowException as error:
            raise RunError(f"{name}@{alias}: {first_line(error)}") from error
        return _version(name, found)

    def download(self, version: ModelVersion, folder: Path) -> Path:
        """Brings a version's files here.

        Args:
            version: Of this registry.
            folder: Where to.

        Returns:
            Where they are.

        Raises:
            RunError: They are not where the registry says.
        """
        try:
            uri = self._client.get_model_version_download_uri(version.name, str(version.number))
            return Path(artifacts.download_artifacts(artifact_uri=uri, dst_path=str(folder)))
        except (MlflowException, OSError) as error:
            where = f"{version.name}/{version.number}"
            raise RunError(f"{where}: its files are gone ({first_line(error)})") from error


def _version(name: str, found: Registered) -> ModelVersion:
    return ModelVersion(name, int(found.version), str(found.run_id), dict(found.tags))
