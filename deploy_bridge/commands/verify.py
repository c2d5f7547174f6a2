"""`gatepilot-bridge verify`: all checks of an artifact."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ...agents.artifact.errors import ArtifactError
from ...agents.artifact.runtime import load_artifact
from ...agents.artifact.signing import PUBLIC_KEY_FILE, key_folder
from .output import print_json
from .where import AsJson, given_path

REFUSED = 1
"""Exit code: the answer is no."""


def verify(
    artifact: Annotated[
        Path,
        typer.Argument(metavar="ARTIFACT", help="Folder of the artifact.", parser=given_path),
    ],
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Key of whom must have signed it; default: your own.",
            parser=given_path,
        ),
    ] = None,
    allow_unsigned: Annotated[
        bool, typer.Option("--allow-unsigned", help="Take an artifact without a signature.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check an artifact: exact files, hashes, signature, contract, network, golden vectors.

    Exit code 0: it would be taken; 1: it is refused; 2: there is no such folder or key.

    Example: gatepilot-bridge verify artifact --public-key signing.pub
    """
    if not os.path.isdir(artifact):  # False also for a name that is too long
        raise typer.BadParameter(f"{artifact}: no such folder, expected an artifact's")
    if public_key is not None:
        _check_key(public_key, "--public-key")
    elif not allow_unsigned:
        public_key = key_folder() / PUBLIC_KEY_FILE
        _check_key(public_key, "your own key (name another one with --public-key)")
    began_s = time.perf_counter()
    try:
        policy = load_artifact(artifact, public_key=public_key, allow_unsigned=allow_unsigned)
    except ArtifactError as error:
        if as_json:
            print_json({"accepted": False, "reason": " ".join(str(error).split())})
        typer.echo(f"gatepilot-bridge verify: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(REFUSED) from None
    manifest = policy.manifest
    found: dict[str, Any] = {
        "accepted": True,
        "digest": policy.digest,
        "is_signed": policy.is_signed,
        "fingerprint": manifest.fingerprint,
        "control_interval_s": manifest.control_interval_s,
        "observation": manifest.observation_spec.preset,
        "entries": len(manifest.features),
        "golden_vectors": manifest.golden_vectors,
        "refused_vectors": manifest.refused_vectors,
        "scenarios": manifest.origin.scenarios,
        "run_id": manifest.origin.run_id,
        "wall_s": time.perf_counter() - began_s,
    }
    if as_json:
        print_json(found)
        return
    signed = "signed" if policy.is_signed else "UNSIGNED, allowed by --allow-unsigned"
    typer.echo(f"good: {policy.folder}, {signed}")
    typer.echo(f"digest       {policy.digest}")
    typer.echo(f"contract     {manifest.fingerprint[:12]}, tick {manifest.control_interval_s:g} s")
    typer.echo(f"trained on   {', '.join(manifest.origin.scenarios)}, run {manifest.origin.run_id}")
    typer.echo(
        f"checked      {manifest.golden_vectors} golden vectors, {manifest.refused_vectors} that "
        f"must be refused, in {found['wall_s']:.2f} s"
    )


def _check_key(path: Path, what: str) -> None:
    """Refuses what is no public key: then nothing was found out about the artifact.

    Raises:
        BadParameter: It cannot be read, or is no public key.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        msg = f"{what}: {path}: cannot be read ({error.strerror})"
        raise typer.BadParameter(msg) from error
    if b"PUBLIC KEY-----" not in content:
        raise typer.BadParameter(f"{what}: {path}: not a public key in PEM")
