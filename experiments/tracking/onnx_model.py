"""A version of a registered model: MLflow's ONNX flavour, and beside it the artifact itself.

Whoever knows MLflow can load and serve the network from here; a bridge takes the artifact, whose
manifest says what else must hold.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from mlflow.exceptions import MlflowException

from ...agents.artifact.folder import read_folder
from ...agents.artifact.layout import POLICY_FILE
from ...agents.artifact.manifest import Manifest
from ...agents.artifact.placing import place
from ..files import writing
from ..run_files import RunError
from .wording import first_line

ARTIFACT_FOLDER: Final = "artifact"
"""Within a version's folder: the artifact as it was exported."""
_OWN_HINTS: Final = ".*Any type hint is inferred as AnyType"
"""MLflow warns of its own type hints when its flavours are loaded."""


def write_onnx_model(folder: Path, artifact: Path, manifest: Manifest) -> None:
    """Writes a version's files, unless they are there.

    Args:
        folder: Where to; it is named after the artifact's digest, so what is there is the same.
        artifact: An exported artifact.
        manifest: Of it.

    Raises:
        RunError: MLflow cannot write it.
        ArtifactError: The artifact cannot be read, or not be put there.
        OutputError: The folder cannot be written.
    """
    files = read_folder(artifact)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "MLmodel").is_file():
        try:
            _save(folder, files[POLICY_FILE], manifest)
        except (MlflowException, OSError) as error:
            raise RunError(f"MLflow: {first_line(error)}") from error
    place(folder / ARTIFACT_FOLDER, files, force=True)


def _save(folder: Path, network: bytes, manifest: Manifest) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _OWN_HINTS, category=UserWarning)
        # seconds, and the warning: only where a model is registered
        import mlflow.onnx  # noqa: PLC0415
        import mlflow.pyfunc.loaders  # noqa: PLC0415  # save_model would load it
        from mlflow.models import ModelSignature  # noqa: PLC0415
        from mlflow.types import Schema, TensorSpec  # noqa: PLC0415

    inputs, outputs = (
        Schema([TensorSpec(np.dtype(t.dtype), (-1, *map(int, t.shape[1:])), t.name) for t in side])
        for side in (manifest.network.inputs, manifest.network.outputs)
    )
    mlflow.onnx.save_model(
        onnx.load_model_from_string(network),
        folder,
        signature=ModelSignature(inputs, outputs),
        pip_requirements=[
            f"{name}=={manifest.origin.versions[f'export.{name}']}"
            for name in ("onnx", "onnxruntime")
        ],
        metadata={"digest": manifest.digest, "fingerprint": manifest.fingerprint},
        save_as_external_data=False,
    )
