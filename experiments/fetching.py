"""An artifact comes from the registry, pinned by its digest."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from ..agents.artifact.errors import ArtifactError
from ..agents.artifact.folder import read_folder, sha256
from ..agents.artifact.layout import MANIFEST_FILE
from ..agents.artifact.manifest import Manifest, parse_manifest
from ..agents.artifact.placing import check_place, place
from .exporting import DIGEST_TAG
from .files import replacing
from .model_names import Reference
from .tracking import Registry
from .tracking.onnx_model import ARTIFACT_FOLDER

_SHOWN_DIGITS = 12


class FetchRefusedError(ValueError):
    """The registry's files are not what its tag says: one line."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked of the registry, and what it pointed to at that moment."""

    artifact: str
    """Name of the artifact's folder, beside the request."""
    registry: str
    """MLflow's URI."""
    name: str
    version: int
    alias: str | None
    """What was asked for; `None`: the version itself. An alias can move; this note does not."""
    digest: str
    fingerprint: str
    run_id: str
    fetched_at: str
    """UTC, ISO 8601."""


def fetch(registry: Registry, reference: Reference, folder: Path, *, force: bool) -> Request:
    """Brings an artifact from the registry, with a note of what was asked for.

    Args:
        registry: Where from.
        reference: What is asked for.
        folder: The artifact's folder to be; it is whole or not there. If it holds the very artifact
            already, it is left as it is.
        force: Whether another artifact that is there may be replaced.

    Returns:
        The note, as written to `request_path(folder)`: within the folder it would be an extra file.

    Raises:
        RunError: There is no such model, version or alias, or its files are gone.
        FetchRefusedError: Its files are not what the registry's tag says.
        ArtifactError: It cannot be put there.
        OutputError: The note cannot be written.
    """
    if reference.version is not None:
        version = registry.numbered(reference.name, reference.version)
    else:
        version = registry.pointed(reference.name, str(reference.alias))
    where = f"{version.name}/{version.number}"
    digest = version.tags.get(DIGEST_TAG)
    if digest is None:
        msg = f"{where}: has no tag {DIGEST_TAG!r}: not registered by gatepilot export"
        raise FetchRefusedError(msg)
    is_there = _holds(folder, digest)
    if not is_there:
        check_place(folder, force=force)
    with TemporaryDirectory() as name:
        downloaded = registry.download(version, Path(name))
        try:
            files = read_folder(downloaded / ARTIFACT_FOLDER)
            manifest = _checked(files, digest)
        except ArtifactError as error:
            raise FetchRefusedError(f"{where}: {error}") from error
    if not is_there:
        place(folder, files, force=force)
    request = Request(
        artifact=folder.absolute().name,
        registry=registry.uri,
        name=version.name,
        version=version.number,
        alias=reference.alias,
        digest=digest,
        fingerprint=manifest.fingerprint,
        run_id=version.run_id,
        fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with replacing(request_path(folder)) as path:
        path.write_text(json.dumps(asdict(request), indent=1) + "\n", encoding="utf-8")
    return request


def request_path(folder: Path) -> Path:
    """Where the note about a fetched artifact lies: `NAME.request.json` beside it."""
    target = folder.absolute()
    return target.with_name(f"{target.name}.request.json")


def _holds(folder: Path, digest: str) -> bool:
    """Whether the very artifact is there already, whole."""
    try:
        _checked(read_folder(folder), digest)
    except ArtifactError:
        return False
    return True


def _checked(files: dict[str, bytes], digest: str) -> Manifest:
    """The manifest of files that are what a digest says.

    Raises:
        ArtifactError: They are not.
    """
    found = sha256(files[MANIFEST_FILE])
    if found != digest:
        msg = (
            f"digest is {found[:_SHOWN_DIGITS]}, but the registry's tag names "
            f"{digest[:_SHOWN_DIGITS]}"
        )
        raise ArtifactError(msg)
    manifest = parse_manifest(files[MANIFEST_FILE])
    manifest.check_files(files)
    return manifest
